package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/cli"
	"haft/internal/exit"
)

// keyCommand keeps API keys.
func keyCommand(*cli.Profile) cli.Command {
	var (
		k                auth.Key
		expires, overlap time.Duration
	)
	return cli.Command{
		Use: "key", Short: "Keep API keys: who may use a server, and for what",
		Example: `  haft key add --name ci --for-user ann --role dev --expires 720h
  haft key add --name bot --for-agent helper --scope tool:forecast --scope calls:read
  haft key list
  haft key rotate ID --overlap 24h                the old secret is good for another day`,
		Missing: "see which there are with: haft key list; an id has 12 characters and is not the secret",
		Subs: []cli.Command{
			{Use: "add", Old: []string{"create"}, Short: "Make a key; its secret is printed once",
				Flags: []cli.Flag{
					{&k.Name, "name", "what the key is for"},
					{&k.User, "for-user", "the user on whose behalf it acts"},
					{&k.Agent, "for-agent", "the agent that it acts as, by name or id"},
					// This is the role of the key. $HAFT_ROLES has those of the caller.
					{&k.Roles, "role", "a role of the key; may be given again"},
					{&k.Scope, "scope", "confine the key to an action, such as calls:read, or tools, such as " +
						"tool:NAME; may be given again"},
					{&expires, "expires", "for how long the key is good, such as 720h; for ever if not given"},
				},
				Run: func(ctx context.Context, s *cli.Session, _ []string) error {
					return createKey(ctx, s, k,
						expires)
				}},
			{Use: "list", Short: "List keys, without their secrets", Run: cli.ListAll(cli.System.Keys,
				cli.Listing[auth.Key]{
					"ID,NAME,STATE,FOR,ROLES,SCOPE,EXPIRES,USED", func(k auth.Key) []any {
						return []any{cli.Shaded(k.ID, bold), k.Name, keyState(k, time.Now()), keyFor(k),
							strings.Join(k.Roles, " "), scopeText(k), cli.Since(k.Expires), cli.Since(k.LastUsed)}
					}, "there are no keys; make one with: haft key add"})},
			{Use: "rotate ID", Short: "Give a key a new secret, which is printed once",
				Flags: []cli.Flag{{&overlap, "overlap",
					"for how long the old secret is good too, such as 24h; it ends at once if not given"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					k, text, err := s.RotateKey(ctx, s.Who, args[0], haft.Millis(overlap))
					if err != nil {
						return err
					}
					return printNewKey(s, k, text)
				}},
			{Use: "disable ID", Short: "Refuse a key from now on, and keep it",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					k, err := s.DisableKey(ctx, s.Who, args[0])
					if err != nil {
						return err
					}
					return s.PrintLine(k, "key "+k.ID+" is disabled")
				}},
			{Use: "remove ID", Old: []string{"rm"}, Short: "Remove a key; it is refused from now on",
				Run: cli.RemoveOne(func(sys cli.System, ctx context.Context, p haft.Principal, id, _ string) error {
					return sys.RemoveKey(ctx, p, id)
				}, "key ", " is removed")},
		},
	}
}

// createKey makes a key. It keeps the id of an agent: the key is not for another agent that gets
// the name later.
func createKey(ctx context.Context, s *cli.Session, k auth.Key, expires time.Duration) error {
	if k.Agent != "" {
		a, err := s.Agent(ctx, s.Who, k.Agent)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return exit.Advise(err, "see which there are with: haft agent list")
		}
		if err != nil {
			return err
		}
		k.Agent = string(a.ID)
	}
	if s.Given("expires") {
		k.Expires = time.Now().Add(expires)
	}
	made, text, err := s.IssueKey(ctx, s.Who, k)
	if err != nil {
		return err
	}
	return printNewKey(s, made, text)
}

// printNewKey prints the secret of a key, alone on standard output so that it can be put
// in a file, and the facts of the key on standard error.
func printNewKey(s *cli.Session, k auth.Key, text string) error {
	until := ""
	if !k.Overlap.IsZero() {
		until = k.Overlap.Format(time.RFC3339)
	}
	err := printSecret(s, struct {
		auth.Key
		Secret string `json:"secret"`
	}{k, text}, text, "the secret is shown this once:", "key", cli.Shaded(k.ID, bold), "name", k.Name, "for", keyFor(k),
		"roles", strings.Join(k.Roles, ", "), "scope", scopeText(k), "expires", cli.Since(k.Expires),
		"old secret until", until)
	if err != nil {
		return exit.Advise(fmt.Errorf("show the secret of key %s, which is kept: %w", k.ID, err),
			"make another secret with: haft key rotate "+k.ID)
	}
	return nil
}

// printSecret prints a secret that is shown once: in a document, or alone on standard output with
// facts and a line on standard error.
func printSecret(s *cli.Session, document any, text, line string, facts ...any) error {
	if s.JSON {
		return s.PrintDocument(document)
	}
	cli.PrintFacts(s.Err, facts...)
	fmt.Fprintln(s.Err, line)
	_, err := fmt.Fprintln(s.Out, text)
	return err
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

// scopeText says to what a key is confined.
func scopeText(k auth.Key) string {
	switch {
	case k.Scope == nil:
		return "all that its roles allow"
	case len(k.Scope) == 0:
		return "nothing"
	}
	return strings.Join(k.Scope, " ")
}

// keyState says whether a key is good.
func keyState(k auth.Key, now time.Time) cli.Cell {
	switch {
	case k.Disabled:
		return cli.Shaded("disabled", yellow)
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return cli.Shaded("expired", yellow)
	case now.Before(k.Overlap):
		return cli.Shaded("rotating", cyan)
	}
	return cli.Shaded("good", green)
}
