package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/mcpinstall"
	"haft/server/mcpserver"
)

// mcpCommand is Haft as an MCP server on stdio.
func mcpCommand(p *cli.Profile) cli.Command {
	p.Lasting = true
	var tags []string
	var lazy int
	var tokens, builtins bool
	return cli.Command{
		Use: "mcp", Short: "Be an MCP server on stdin and stdout, for Claude, Cursor, VS Code and others",
		Long: `mcp speaks the Model Context Protocol on stdin and stdout: every tool that you added
becomes a tool of the client, and every call of it is checked, confined, limited and
recorded. Built-in tools are listed with --builtins, or if --agent has them. If there are many tools, two stand for all of them:
find_tools and call_tool. What is wrong is said on stderr.`,
		Example: `  haft mcp                                   all tools that are kept here
  haft mcp --agent support                   what the agent may call
  haft mcp --server https://haft.example.com the tools of a server
  haft mcp --tokens                          what listing them costs, and end
  haft mcp --builtins                        and the built-in tools, such as run_code
  haft mcp install cursor                    add it to the configuration of Cursor`,
		Flags: []cli.Flag{
			{&tags, "tag", "only tools with this `TAG`; may be given again: one is enough"},
			{&builtins, "builtins", "also list the built-in tools, such as run_code; with --agent or --tag they are " +
				"listed as those say"},
			{&lazy, "lazy",
				"from how many tools on only find_tools and call_tool are listed; 1 always, -1 never (100)"},
			{&tokens, "tokens", "print what listing the tools takes of a model's context, server by server, and end"},
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			defer tuneForServer()()
			caller, err := mcpCaller(ctx, s, tags)
			if err != nil {
				return err
			}
			caller.NoBuiltins = !builtins && len(tags) == 0 && caller.Principal.Agent == ""
			if tokens {
				return printTokens(ctx, s, caller)
			}
			return serveMCP(ctx, s, caller, lazy)
		},
		Subs: []cli.Command{installCommand(false), installCommand(true)},
	}
}

// installCommand writes Haft into the configuration of a client, or removes it there.
func installCommand(remove bool) cli.Command {
	r := mcpinstall.Request{Name: "haft", Project: "."}
	c := cli.Command{
		Use: "install CLIENT [-- FLAG…]", Short: "Add Haft to the configuration of an MCP client: " +
			"claude, claude-code, cursor, vscode, windsurf or zed",
		Long: `install adds haft mcp, with the flags behind --, to the configuration of a client. It shows
what it writes and asks first, keeps a copy beside the file, and leaves comments and
the entries of others as they are. claude-code and vscode have a file in the project.
It does not follow links.`,
		Example: `  haft mcp install cursor --dry-run
  haft mcp install claude-code --agent support
  haft mcp install cursor --server http://127.0.0.1:7717 --key-file agent.key
  haft mcp install vscode --project ~/src/shop -- --tag read
  haft mcp uninstall cursor`,
		Flags: []cli.Flag{
			{&r.Name, "name", "what the client calls the server"},
			{&r.Project, "project", "the `DIR` of the project, for claude-code and vscode"},
			{&r.Command, "command", "the `PROGRAM` that the client starts; this one if empty"},
			{&r.DryRun, "dry-run", "only show what would be written"},
			{&r.Yes, "yes", "write without asking"},
		},
	}
	if remove {
		c.Use, c.Long, c.Example = "uninstall CLIENT", "", "  haft mcp uninstall cursor"
		c.Short = "Remove Haft from the configuration of an MCP client: what was there before is there again"
	}
	c.Plain = func(_ context.Context, p *cli.Profile, args []string) error {
		if _, err := mcpinstall.Find(args[0]); err != nil {
			return exit.Misuse(err)
		}
		flags, err := p.WhereFlags()
		if err != nil {
			return err
		}
		r.Flags = slices.Concat(flags, args[1:])
		if err := r.Run(args[0], remove, p.In, p.Out); err != nil || remove {
			return err
		}
		if !p.Remote() && p.Acting == "" && len(p.Principal().Roles) > 1 {
			fmt.Fprintln(p.Err, "note: the client acts as you, the administrator, and has every tool that you added; "+
				"for the tools of an agent only: --agent NAME, or --server URL --key-file FILE with the agent's key")
		}
		return nil
	}
	return c
}

// mcpCaller returns who calls tools over MCP: the principal of the session, whose person may
// approve calls of the agent.
func mcpCaller(ctx context.Context, s *cli.Session, tags []string) (mcpserver.Caller, error) {
	person := s.Who
	person.Agent = ""
	caller := mcpserver.Caller{Principal: s.Who, Person: person, Tags: tags, Artifacts: true}
	if s.Who.Agent != "" {
		a, err := s.Agent(ctx, person, s.Who.Agent)
		if err != nil {
			return caller, err
		}
		caller.Principal.Agent = string(a.ID)
	}
	return caller, nil
}

// serveMCP speaks MCP until the client leaves.
func serveMCP(ctx context.Context, s *cli.Session, caller mcpserver.Caller, lazy int) error {
	logger := slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := mcpserver.New(s.System, mcpserver.Config{Version: version, Wait: s.Wait, Stream: s.Stream,
		Lazy: lazy, Logger: logger})
	if err != nil {
		return err
	}
	return errors.Join(server.Run(ctx, caller, s.In, s.Out), server.Close())
}

// printTokens prints how much of a model's context the list of tools takes.
func printTokens(ctx context.Context, s *cli.Session, caller mcpserver.Caller) error {
	groups, err := mcpserver.Groups(func(yield func(haft.Tool, error) bool) {
		for t, err := range s.Tools(ctx, caller.Principal, haft.ToolFilter{}) {
			if (err != nil || caller.Has(t)) && !yield(t, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return s.Print(groups, func() {
		all := mcpserver.Group{Server: "all"}
		for _, g := range groups {
			all.Tools, all.Tokens = all.Tools+g.Tools, all.Tokens+g.Tokens
		}
		cli.PrintTable(s.Out, append(groups, all), cli.Listing[mcpserver.Group]{
			"server,tools,tokens (estimated)", func(g mcpserver.Group) []any {
				return []any{g.Server, g.Tools, g.Tokens}
			}, ""})
	})
}
