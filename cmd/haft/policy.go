package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"haft"
	"haft/internal/exit"
	"haft/internal/toolfile"
	"haft/policy"
)

// policyCommand keeps the rules.
func policyCommand(*profile) command {
	var (
		server    bool
		arguments argumentFlags
		call      haft.Call
	)
	whole := flag{&server, "server-policy", "the document of the whole server, not of the organisation"}
	return command{
		use: "policy", short: "Keep the rules: who may call what, how often, and who must agree",
		example: `  haft policy check rules.yaml
  haft policy set rules.yaml
  haft policy explain delete_file --args '{"path": "/etc"}' --user ann --role reader`,
		subs: []command{
			{use: "show", short: "Print the document", flags: []flag{whole},
				run: func(ctx context.Context, s *session, _ []string) error { return showPolicy(ctx, s, server) }},
			{use: "set FILE", short: "Replace the document; it holds from the next call on", flags: []flag{whole},
				run: func(ctx context.Context, s *session, args []string) error {
					return setPolicy(ctx, s, server, args[0])
				}},
			{use: "check FILE", short: "Say whether a document is right, and keep nothing", plain: checkPolicy},
			{use: "explain TOOL", short: "Say what the rules decide about a call, and why; exit code 4 if they deny it",
				long: `Say what is decided about a call, by the very code that decides about one that is made:
the tool and its roles, the agent and its tool rules, and the rules of server and
organisation, each with the reason why it matched or not. On whose behalf is said by
--user, --role, --agent and --org.`,
				flags: append(arguments.flags(),
					flag{&call.Digest, "digest", "the digest of the version; the current one if it is not given"},
					flag{&call.Turn, "turn", "the turn of the agent, which its tool rules look back at"}),
				missing: noSuchTool,
				plain: func(ctx context.Context, p *profile, args []string) error {
					p.asIf = true
					return p.do(ctx, func(ctx context.Context, s *session) (err error) {
						call.Tool, call.Principal = args[0], s.p
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
func showPolicy(ctx context.Context, s *session, server bool) error {
	kept, err := s.Policy(ctx, s.p, server)
	if haft.CodeOf(err) == haft.CodeNotFound {
		kept, err = &haft.PolicyText{}, nil
	}
	if err != nil {
		return err
	}
	text := string(kept.Text)
	return s.print(map[string]any{"server": server, "set": text != "", "text": text}, func() {
		if text == "" {
			fmt.Fprintln(s.err,
				"none is set: administrators may call every tool, and nobody else any\n  next: haft policy set FILE")
		}
		fmt.Fprint(s.out, safe(s.out, text))
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
func setPolicy(ctx context.Context, s *session, server bool, name string) error {
	text, err := readPolicy(s.in, name)
	if err != nil {
		return err
	}
	if _, err := s.PutPolicy(ctx, s.p, server, haft.PolicyText{Text: text}); err != nil {
		return policyError(name, err)
	}
	owner := "of the organisation " + s.p.Org
	if server {
		owner = "of the server"
	}
	return s.printLine(map[string]any{"server": server, "set": true}, "the policy "+owner+" holds from now on")
}

// checkPolicy compiles a document and keeps nothing.
func checkPolicy(_ context.Context, p *profile, args []string) error {
	text, err := readPolicy(p.in, args[0])
	if err != nil {
		return err
	}
	compiled, err := policy.Compile(text)
	if err != nil {
		return policyError(args[0], err)
	}
	return p.printLine(map[string]string{"digest": compiled.Digest()},
		paint(p.out, green, "right")+" "+shortDigest(compiled.Digest()))
}
