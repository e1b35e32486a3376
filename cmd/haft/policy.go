package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/toolfile"
	"haft/policy"
)

// policyCommand keeps the rules.
func policyCommand(*cli.Profile) cli.Command {
	var (
		server    bool
		arguments argumentFlags
		call      haft.Call
	)
	whole := cli.Flag{&server, "server-policy", "the document of the whole server, not of the organisation"}
	return cli.Command{
		Use: "policy", Short: "Keep the rules: who may call what, how often, and who must agree",
		Example: `  haft policy check rules.yaml
  haft policy set rules.yaml
  haft policy explain delete_file --args '{"path": "/etc"}' --user ann --role reader`,
		Subs: []cli.Command{
			{Use: "show", Short: "Print the document", Flags: []cli.Flag{whole},
				Run: func(ctx context.Context, s *cli.Session, _ []string) error { return showPolicy(ctx, s, server) }},
			{Use: "set FILE", Short: "Replace the document; it holds from the next call on", Flags: []cli.Flag{whole},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return setPolicy(ctx, s, server, args[0])
				}},
			{Use: "check FILE", Short: "Say whether a document is right, and keep nothing", Plain: checkPolicy},
			{Use: "explain TOOL", Short: "Say what the rules decide about a call, and why; exit code 4 if they deny it",
				Long: `Say what is decided about a call, by the very code that decides about one that is made:
the tool and its roles, the agent and its tool rules, and the rules of server and
organisation, each with the reason why it matched or not. On whose behalf is said by
--user, --role, --agent and --org.`,
				Flags: append(arguments.flags(),
					cli.Flag{&call.Digest, "digest", "the digest of the version; the current one if it is not given"},
					cli.Flag{&call.Turn, "turn", "the turn of the agent, which its tool rules look back at"}),
				Missing: noSuchTool,
				Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
					p.AsIf = true
					return p.Do(ctx, func(ctx context.Context, s *cli.Session) (err error) {
						call.Tool, call.Principal = args[0], s.Who
						if call.Args, err = arguments.readFor(ctx, s, call.Tool); err == nil {
							err = explain(ctx, s, call)
						}
						if haft.CodeOf(err) == haft.CodeInvalid {
							return exit.Advise(err, "rules look at arguments: give those of the call with --args "+
								"or --arg")
						}
						return err
					})
				}},
		},
	}
}

// showPolicy prints the document.
func showPolicy(ctx context.Context, s *cli.Session, server bool) error {
	kept, err := s.Policy(ctx, s.Who, server)
	if haft.CodeOf(err) == haft.CodeNotFound {
		kept, err = &haft.PolicyText{}, nil
	}
	if err != nil {
		return err
	}
	text := string(kept.Text)
	return s.Print(map[string]any{"server": server, "set": text != "", "text": text}, func() {
		if text == "" {
			fmt.Fprintln(s.Err,
				"none is set: administrators may call every tool, and nobody else any\n  next: haft policy set FILE")
		}
		fmt.Fprint(s.Out, safe(s.Out, text))
	})
}

// readPolicy reads a document from a file or from standard input.
func readPolicy(in io.Reader, name string) (text []byte, err error) {
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(in, policy.MaxDocument+1))
	} else {
		text, err = toolfile.ReadBounded(name, policy.MaxDocument)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Misuse(fmt.Errorf("%s: there is no such file", name))
	}
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("read the policy: %w", err))
	}
	return text, nil
}

// policyError names the file before the line.
func policyError(name string, err error) error {
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeInvalid {
		return exit.Advise(&haft.Error{Code: e.Code, Message: name + ": " + e.Message, Err: e.Err},
			"mend the line and try again with: haft policy check "+name)
	}
	return err
}

// setPolicy replaces the document.
func setPolicy(ctx context.Context, s *cli.Session, server bool, name string) error {
	text, err := readPolicy(s.In, name)
	if err != nil {
		return err
	}
	if _, err := s.PutPolicy(ctx, s.Who, server, haft.PolicyText{Text: text}); err != nil {
		return policyError(name, err)
	}
	owner := "of the organisation " + s.Who.Org
	if server {
		owner = "of the server"
	}
	return s.PrintLine(map[string]any{"server": server, "set": true}, "the policy "+owner+" holds from now on")
}

// checkPolicy compiles a document and keeps nothing.
func checkPolicy(_ context.Context, p *cli.Profile, args []string) error {
	text, err := readPolicy(p.In, args[0])
	if err != nil {
		return err
	}
	compiled, err := policy.Compile(text)
	if err != nil {
		return policyError(args[0], err)
	}
	return p.PrintLine(map[string]string{"digest": compiled.Digest()},
		paint(p.Out, green, "right")+" "+cli.ShortDigest(compiled.Digest()))
}
