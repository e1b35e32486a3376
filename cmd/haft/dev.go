package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"haft/app"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/devloop"
	"haft/internal/exit"
	"haft/internal/project"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// devCommand registers the files of a directory when they are saved, and serves them.
func devCommand(p *cli.Profile) cli.Command {
	s := &serveFlags{}
	s.flags(p) // sets what the flags below do not
	s.level, s.readyWait, p.Org = "warn", 0, "local"
	var remove bool
	return cli.Command{
		Alone: true,
		Use:   "dev [DIR]",
		Short: "Register the tools of a directory when they are saved, show them and call them again",
		Long: `dev watches a directory (this one if none is named): it registers a file when it is
saved, and shows its schema, what model vendors think of it, and mistakes as
FILE:LINE:COLUMN. Meanwhile it answers HTTP and MCP like haft serve. At the prompt you
call tools; help lists what you can type. A tool whose file is deleted stays callable,
unless you say --remove. Without input it goes on until it is stopped.`,
		Example: `  haft dev
  haft dev tools --addr 127.0.0.1:0
  echo "forecast city=Oslo" | haft dev tools`,
		Env: []string{"user", "models"},
		Flags: []cli.Flag{
			{&s.addr, "addr", "the `ADDRESS` to listen on; port 0 takes a free one"},
			{&p.Data, "data", "the `DIR` of the embedded store and of keys ($HAFT_DATA)"},
			{&p.User, "user", "on whose behalf; the user of the system if empty"},
			{&s.models, "models", "the `FILE` that says which models agents have; env means those of the environment"},
			{&remove, "remove", "remove a tool when its file is deleted"},
			cli.ReducedFlag(&s.cfg.AllowReduced),
		},
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if !toolfile.IsDir(dir) {
				return exit.Misuse(fmt.Errorf("%s: there is no such directory: make one with haft init DIR", dir))
			}
			s.during = func(ctx context.Context, sys *app.Server, at net.Addr) error {
				fmt.Fprintf(p.Out, "MCP at http://%s/mcp\n", at)
				split := toolfile.Splitter{Tools: sys.App.Tools, Function: toolfile.FunctionOf(sys, p.Principal())}
				return devloop.Run(ctx, devloop.Config{System: &backend.Local{Service: sys.Service}, Split: split.Split,
					Principal: p.Principal(), Dir: filepath.Clean(dir), Remove: remove, In: p.In, Out: p.Out})
			}
			defer tuneForServer()()
			return s.run(ctx, p)
		},
	}
}

// initCommand writes a project, and keeps whether its person works alone.
func initCommand(*cli.Profile) cli.Command {
	var solo bool
	return cli.Command{
		Use: "init [DIR]", Short: "Write a small project: a tool, its test, rules and a page that explains them",
		Long: `init writes a small project into DIR. It replaces no file.

With --solo you may answer your own requests for approval and accept your own versions
of tools, because there is nobody else on this machine. The policy of the server then
names you in solo, and the audit log says that it was the same person. Agents can never
approve. On a terminal init asks; --solo=false does not ask.`,
		Example: `  haft init tools
  haft init --solo                          only say that you work alone here`,
		Flags: []cli.Flag{{&solo, "solo", "you work alone with this data directory, and approve your own calls"}},
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			if len(args) == 0 && !solo {
				return exit.Misuse(errors.New("name a directory for the project, such as: haft init tools"))
			}
			if len(args) > 0 {
				names, err := project.Write(args[0])
				if err != nil {
					return err
				}
				for _, name := range names {
					fmt.Fprintln(p.Out, "wrote", filepath.Join(args[0], name))
				}
				fmt.Fprintf(p.Out, "next: cd %s && haft dev\n", args[0])
			}
			if !p.Given("solo") && terminal.Is(p.In) {
				solo = terminal.Confirm(p.In, p.Out, "Do you work alone here, and want to approve your own calls?")
			}
			if !solo {
				return nil
			}
			return p.Do(ctx, func(ctx context.Context, s *cli.Session) error {
				if _, err := s.Local("say who works alone where the server runs: leave --server out"); err != nil {
					return err
				}
				if err := project.SetSolo(ctx, s, s.Who, app.DefaultPolicy()); err != nil {
					return err
				}
				fmt.Fprintf(p.Out, "%s of %s may answer their own requests; the audit log says so each time\n",
					s.Who.User, s.Who.Org)
				return nil
			})
		},
	}
}
