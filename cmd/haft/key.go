package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/auth"
)

// keyCommand keeps API keys.
func keyCommand(std streams) *cobra.Command {
	cmd := group("key", "Keep API keys: who may use a server, and for what",
		`  haft key create --name ci --for-user ann --role dev --expires 720h
  haft key create --name bot --for-agent helper --scope tool:forecast --scope calls:read
  haft key list
  haft key rotate ID --overlap 24h                the old secret is good for another day`)
	p := attach(cmd)
	cmd.AddCommand(keyCreate(p, std), keyList(p, std), keyRotate(p, std), keyDisable(p, std), keyRemove(p, std))
	return cmd
}

// noKey says what to do about a key that is not there.
func noKey(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft key list; an id has 12 characters and is not the secret")
}

// hand prints the secret of a key, alone on standard output so that it can be put
// in a file, and what there is to say of the key beside it.
func hand(s *session, k auth.Key, text string) error {
	var err error
	if s.as.json {
		err = printJSON(s.std.out, struct {
			auth.Key
			Secret string `json:"secret"`
		}{k, text})
	} else {
		printFacts(s.std.err, fact{"key", cell{k.ID, bold}}, fact{"name", k.Name}, fact{"for", keyFor(k)},
			fact{"roles", strings.Join(k.Roles, ", ")},
			fact{"scope", scopeText(k)}, fact{"expires", expiry(k, time.Now())},
			fact{"old secret until", until(k.Overlap)})
		fmt.Fprintln(s.std.err, "the secret is shown this once:")
		_, err = fmt.Fprintln(s.std.out, text)
	}
	if err != nil {
		return advise(fmt.Errorf("show the secret of key %s, which is kept: %w", k.ID, err),
			"make another secret with: haft key rotate "+k.ID)
	}
	return nil
}

// keyFor says on whose behalf a key acts.
func keyFor(k auth.Key) string {
	switch {
	case k.Agent == "":
		return k.User
	case k.User == "":
		return "agent " + k.Agent
	}
	return k.User + ", agent " + k.Agent
}

// scopeText is what a key is confined to.
func scopeText(k auth.Key) string {
	switch {
	case k.Scope == nil:
		return "all that its roles allow"
	case len(k.Scope) == 0:
		return "nothing"
	}
	return strings.Join(k.Scope, " ")
}

// expiry says when a key ends.
func expiry(k auth.Key, now time.Time) string {
	if k.Expires.IsZero() {
		return "never"
	}
	return ago(k.Expires, now)
}

// until is a time for people, or nothing.
func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// keyCreate makes a key.
func keyCreate(p *persona, std streams) *cobra.Command {
	var k auth.Key
	var expires time.Duration
	var cmd *cobra.Command
	cmd = p.command(std, "create", "Make a key; its secret is printed once", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if k.Agent != "" {
				a, err := s.Agent(ctx, s.p, k.Agent)
				if err != nil {
					return noAgent(err)
				}
				k.Agent = string(a.ID) // the key is not for another agent that gets the name later
			}
			if cmd.Flags().Changed("expires") {
				k.Expires = time.Now().Add(expires)
			}
			made, text, err := s.IssueKey(ctx, s.p, k)
			if err != nil {
				return noKey(err)
			}
			return hand(s, made, text)
		})
	f := cmd.Flags()
	f.StringVar(&k.Name, "name", "", "what the key is for")
	f.StringVar(&k.User, "for-user", "", "the user on whose behalf it acts")
	f.StringVar(&k.Agent, "for-agent", "", "the agent that it acts as, by name or id")
	// This is the role of the key: whose command it is says $HAFT_ROLES.
	f.StringArrayVar(&k.Roles, "role", nil, "a role of the key; may be given again")
	f.StringArrayVar(&k.Scope, "scope", nil,
		"confine the key to an action, such as calls:read, or tools, such as tool:NAME; may be given again")
	f.DurationVar(&expires, "expires", 0, "for how long the key is good, such as 720h; for ever if not given")
	return cmd
}

// keyList lists keys.
func keyList(p *persona, std streams) *cobra.Command {
	return p.command(std, "list", "List keys, without their secrets", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			now := time.Now()
			return printList(s, s.Keys(ctx, s.p), "there are no keys; make one with: haft key create",
				[]string{"ID", "NAME", "STATE", "FOR", "ROLES", "SCOPE", "EXPIRES", "USED"},
				func(tab *table, k auth.Key) {
					tab.row(cell{k.ID, bold}, k.Name, keyState(k, now), keyFor(k), strings.Join(k.Roles, " "),
						scopeText(k),
						expiry(k, now), ago(k.LastUsed, now))
				})
		})
}

// keyState says whether a key is good.
func keyState(k auth.Key, now time.Time) cell {
	switch {
	case k.Disabled:
		return cell{"disabled", yellow}
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return cell{"expired", yellow}
	case now.Before(k.Overlap):
		return cell{"rotating", cyan}
	}
	return cell{"good", green}
}

// keyRotate gives a key a new secret.
func keyRotate(p *persona, std streams) *cobra.Command {
	var overlap time.Duration
	cmd := p.command(std, "rotate ID", "Give a key a new secret, which is printed once", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			k, text, err := s.RotateKey(ctx, s.p, args[0], haft.Millis(overlap))
			if err != nil {
				return noKey(err)
			}
			return hand(s, k, text)
		})
	cmd.Flags().DurationVar(&overlap, "overlap", 0,
		"for how long the old secret is good too, such as 24h; it ends at once if not given")
	return cmd
}

// keyDisable disables a key.
func keyDisable(p *persona, std streams) *cobra.Command {
	return p.command(std, "disable ID", "Refuse a key from now on, and keep it", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			k, err := s.DisableKey(ctx, s.p, args[0])
			if err != nil {
				return noKey(err)
			}
			return tell(s, k, "key "+k.ID+" is disabled")
		})
}

// keyRemove removes a key.
func keyRemove(p *persona, std streams) *cobra.Command {
	return p.command(std, "rm ID", "Remove a key; it is refused from now on", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if err := s.RemoveKey(ctx, s.p, args[0]); err != nil {
				return noKey(err)
			}
			return tell(s, map[string]string{"removed": args[0]}, "key "+args[0]+" is removed")
		})
}
