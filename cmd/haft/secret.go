package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"haft"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
)

// secretCommand keeps secrets.
func secretCommand(std streams) *cobra.Command {
	cmd := group("secret", "Keep secrets: variables that tools are given and nobody sees",
		`  haft secret set API_KEY < key.txt               for every call of the organisation
  haft secret set API_KEY --agent helper          for the calls of one agent
  haft secret set API_KEY --host api.example.com --header Authorization --prefix 'Bearer ' < key.txt
                                                  for requests to that host: tools never have it
  haft secret list
  haft secret rotate                              encrypt everything with a new key`)
	p := attach(cmd)
	cmd.AddCommand(secretSet(p, std), secretList(p, std), secretRemove(p, std), secretRotate(p, std))
	return cmd
}

// target returns whose secrets cmd is about: those of the agent that a flag names,
// or those of the organisation, whoever $HAFT_AGENT says acts.
func target(cmd *cobra.Command, s *session) (agent, words string) {
	agent, s.p.Agent = s.as.agent, ""
	if !cmd.Flags().Changed("agent") || agent == "" {
		return "", "the organisation " + s.p.Org
	}
	return agent, "the agent " + agent
}

// noSecret says what to do about a secret or an agent that is not there.
func noSecret(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft secret list [--agent NAME], and haft agent list")
}

// secretSet stores a secret.
func secretSet(p *persona, std streams) *cobra.Command {
	var value, file string
	var bind bindFlags
	var cmd *cobra.Command
	cmd = p.command(std, "set NAME", "Store a secret, from standard input or a file; it cannot be read back",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			text, err := secretValue(s.std, cmd.Flags().Changed("value"), value, file)
			if err != nil {
				return err
			}
			to, text, err := bind.binding(text)
			if err != nil {
				return err
			}
			agent, words := target(cmd, s)
			if err := s.BindSecret(ctx, s.p, agent, args[0], text, to); err != nil {
				return noSecret(err)
			}
			if len(text.Reveal()) < secret.MinValue {
				fmt.Fprintf(s.std.err, "note: a value of less than %d bytes is not removed from what tools print\n",
					secret.MinValue)
			}
			return tell(s, map[string]string{"set": args[0], "agent": agent},
				args[0]+" is set for "+words+"; the next call sees it")
		})
	cmd.Flags().StringVar(&value, "value", "", "the value; others on this machine can see it while the command runs")
	bind.add(cmd)
	cmd.Flags().StringVar(&file, "value-file", "", "the `FILE` with the value")
	return cmd
}

// secretValue reads the value of a secret. A line break at its end is the
// editor's, and not part of it.
func secretValue(std streams, given bool, value, file string) (secret.Value, error) {
	text := []byte(value)
	var err error
	switch in, ok := std.in.(*os.File); {
	case given && file != "":
		return secret.Value{}, usage(errors.New("give the value with --value or with --value-file, not both"))
	case given:
		fmt.Fprintln(std.err, "note: a value on the command line is seen by others on this machine and kept in the "+
			"history of the shell; use standard input or --value-file")
	case file != "":
		text, err = readBounded(file, keeper.MaxValue+2)
	case ok && term.IsTerminal(int(in.Fd())):
		fmt.Fprint(std.err, "the value (it is not shown): ")
		text, err = term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(std.err)
	default:
		text, err = io.ReadAll(io.LimitReader(std.in, keeper.MaxValue+3))
	}
	if err != nil {
		return secret.Value{}, usage(fmt.Errorf("read the value: %w", err))
	}
	if !given {
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	}
	if len(text) == 0 {
		return secret.Value{},
			usage(errors.New("the value is empty: give it on standard input or with --value-file; to remove a " +
				"secret: haft secret rm NAME"))
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return secret.Value{}, usage(errors.New("the value holds NUL, which no variable can"))
	}
	return secret.New(string(text)), nil
}

// secretList lists secrets.
func secretList(p *persona, std streams) *cobra.Command {
	var cmd *cobra.Command
	cmd = p.command(std, "list", "List secrets, without their values", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			agent, words := target(cmd, s)
			list, err := s.Secrets(ctx, s.p, agent)
			if err != nil {
				return noSecret(err)
			}
			if s.as.json {
				return printJSON(s.std.out, append([]secret.Info{}, list...))
			}
			now := time.Now()
			tab := newTable(s.std.out, "NAME", "FINGERPRINT", "CHANGED", "GOES TO")
			for _, i := range list {
				tab.row(cell{i.Name, bold}, i.Fingerprint, ago(i.Updated, now), i.Bound.String())
			}
			tab.print("there are no secrets of " + words + "; store one with: haft secret set NAME")
			return nil
		})
	return cmd
}

// secretRemove removes a secret.
func secretRemove(p *persona, std streams) *cobra.Command {
	var cmd *cobra.Command
	cmd = p.command(std, "rm NAME", "Remove a secret", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			agent, words := target(cmd, s)
			if err := s.RemoveSecret(ctx, s.p, agent, args[0]); err != nil {
				return noSecret(err)
			}
			return tell(s, map[string]string{"removed": args[0], "agent": agent}, args[0]+" is removed from "+words)
		})
	return cmd
}

// secretRotate replaces keys.
func secretRotate(p *persona, std streams) *cobra.Command {
	var cfg vault.RotateConfig
	cmd := p.command(std, "rotate", "Encrypt all secrets with a new key; may be stopped and repeated", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			done, err := s.RotateSecrets(ctx, s.p, cfg)
			if err != nil {
				return err
			}
			words := fmt.Sprintf("encrypted again: %d values, %d waiting calls, %d secrets of webhooks; old data "+
				"keys dropped: %d", done.Values, done.Calls, done.Webhooks, done.Keys)
			if done.Master {
				words += "; the master key is replaced"
			}
			if done.Next != "" {
				words += "\n  next: " + done.Next
			}
			return tell(s, done, words)
		})
	cmd.Flags().StringVar(&cfg.MasterKeyFile, "master-key-file", "",
		"the `FILE` of a new master key, which is made if it is not there")
	cmd.Flags().BoolVar(&cfg.Forget, "forget", false,
		"drop old data keys also from a shared database; no other haft may be starting calls")
	return cmd
}
