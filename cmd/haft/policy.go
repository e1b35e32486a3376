package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"haft"
	"haft/policy"
)

// policyCommand keeps the rules.
func policyCommand(std streams) *cobra.Command {
	cmd := group("policy", "Keep the rules: who may call what, how often, and who must agree",
		`  haft policy check rules.yaml
  haft policy set rules.yaml
  haft policy explain delete_file --args '{"path": "/etc"}' --user ann --role reader`)
	p := attach(cmd)
	cmd.AddCommand(policyShow(p, std), policySet(p, std), policyCheck(p, std), policyExplain(p, std))
	return cmd
}

// serverFlag says that the document of the whole server is meant.
func serverFlag(cmd *cobra.Command, to *bool) *cobra.Command {
	cmd.Flags().BoolVar(to, "server-policy", false, "the document of the whole server, not of the organisation")
	return cmd
}

// policyShow prints the document.
func policyShow(p *persona, std streams) *cobra.Command {
	var server bool
	return serverFlag(p.command(std, "show", "Print the document", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			kept, err := s.Policy(ctx, s.p, server)
			if haft.CodeOf(err) == haft.CodeNotFound {
				kept, err = &haft.PolicyText{}, nil
			}
			if err != nil {
				return err
			}
			text := kept.Text
			if s.as.json {
				return printJSON(s.std.out, map[string]any{"server": server, "set": len(text) > 0,
					"text": string(text)})
			}
			if len(text) == 0 {
				fmt.Fprintln(s.std.err,
					"none is set: administrators may call every tool, and nobody else any\n  next: haft policy "+
						"set FILE")
				return nil
			}
			fmt.Fprint(s.std.out, safe(s.std.out, string(text)))
			return nil
		}), &server)
}

// readPolicy reads a document from a file or from standard input.
func readPolicy(std streams, name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(std.in, policy.MaxDocument+1))
		if err != nil {
			return nil, usage(fmt.Errorf("read the policy: %w", err))
		}
		return text, nil
	}
	text, err := readBounded(name, policy.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage(fmt.Errorf("%s: there is no such file", name))
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the policy: %w", err))
	}
	return text, nil
}

// badPolicy names the file before the line.
func badPolicy(name string, err error) error {
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeInvalid {
		return advise(&haft.Error{Code: e.Code, Message: name + ": " + e.Message, Err: e.Err},
			"mend the line and try again with: haft policy check "+name)
	}
	return err
}

// policySet replaces the document.
func policySet(p *persona, std streams) *cobra.Command {
	var server bool
	return serverFlag(p.command(std, "set FILE", "Replace the document; it holds from the next call on",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			text, err := readPolicy(std, args[0])
			if err != nil {
				return err
			}
			if _, err := s.PutPolicy(ctx, s.p, server, haft.PolicyText{Text: text}); err != nil {
				return badPolicy(args[0], err)
			}
			whose := "of the organisation " + s.p.Org
			if server {
				whose = "of the server"
			}
			return tell(s, map[string]any{"server": server, "set": true}, "the policy "+whose+" holds from now on")
		}), &server)
}

// policyCheck compiles a document and keeps nothing.
func policyCheck(p *persona, std streams) *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say whether a document is right, and keep nothing",
		Args: func(c *cobra.Command, args []string) error { return usageArgs(cobra.ExactArgs(1)(c, args)) },
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := readPolicy(std, args[0])
			if err != nil {
				return err
			}
			compiled, err := policy.Compile(text)
			if err != nil {
				return badPolicy(args[0], err)
			}
			if p.json {
				return printJSON(std.out, map[string]string{"digest": compiled.Digest()})
			}
			fmt.Fprintln(std.out, paint(std.out, green, "right"), shortDigest(compiled.Digest()))
			return nil
		},
	}
}

// policyExplain answers "why?".
func policyExplain(p *persona, std streams) *cobra.Command {
	var f runFlags
	var digest, turn string
	cmd := p.command(std, "explain TOOL",
		"Say what the rules decide about a call, and why; exit code 4 if they deny it", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			raw, err := f.arguments(s.std.in)
			if err != nil {
				return err
			}
			if raw, err = f.declared(ctx, s, args[0], raw); err != nil {
				return err
			}
			err = explain(ctx, s, haft.Call{Tool: args[0], Args: raw, Principal: s.p, Digest: digest, Turn: turn})
			if haft.CodeOf(err) == haft.CodeInvalid {
				return advise(err, "rules look at arguments: give those of the call with --args or --arg")
			}
			return err
		})
	cmd.PreRun = func(*cobra.Command, []string) { p.asIf = true }
	cmd.Long = strings.TrimSpace(`
Say what is decided about a call, by the very code that decides about one that is made:
the tool and its roles, the agent and its tool rules, and the rules of server and
organisation, each with the reason why it matched or not. On whose behalf is said by
--user, --role, --agent and --org.`)
	cmd.Flags().StringVar(&f.args, "args", "", "the arguments as `JSON`, @FILE, or -")
	cmd.Flags().StringArrayVar(&f.arg, "arg", nil, "one argument, `NAME=VALUE`")
	cmd.Flags().StringVar(&digest, "digest", "", "the digest of the version; the current one if it is not given")
	cmd.Flags().StringVar(&turn, "turn", "", "the turn of the agent, which its tool rules look back at")
	return cmd
}
