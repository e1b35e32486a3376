package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"haft"
	"haft/server/mcpserver"
)

// mcpCommand is Haft as an MCP server on stdio.
func mcpCommand(std streams) *cobra.Command {
	var tags []string
	var lazy int
	var tokens bool
	cmd := &cobra.Command{
		Use: "mcp", Short: "Be an MCP server on stdin and stdout, for Claude, Cursor, VS Code and others",
		Long: `mcp speaks the Model Context Protocol on stdin and stdout: every tool that is kept
here becomes a tool of the client, and every call of it is checked, confined,
limited and recorded. If there are many tools, two stand for all of them:
find_tools and call_tool. What is wrong is said on stderr.`,
		Example: `  haft mcp                                   all tools that are kept here
  haft mcp --agent support                   what the agent may call
  haft mcp --server https://haft.example.com the tools of a server
  haft mcp --tokens                          what listing them costs, and end`,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(cobra.NoArgs(c, list)) },
	}
	p := attach(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&tags, "tag", nil, "only tools with this `TAG`; may be given again: one is enough")
	f.IntVar(&lazy, "lazy", 0,
		"from how many tools on only find_tools and call_tool are listed; 1 always, -1 never (100)")
	f.BoolVar(&tokens, "tokens", false,
		"print what listing the tools takes of a model's context, server by server, and end")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		defer long()()
		return p.do(c.Context(), std, func(ctx context.Context, s *session) error {
			if tokens {
				return s.tokens(ctx, tags)
			}
			return s.mcp(ctx, tags, lazy)
		})
	}
	return cmd
}

// caller is who speaks MCP: the persona, behind whom a person sits who may answer
// what its agent asks for.
func (s *session) caller(ctx context.Context, tags []string) (mcpserver.Caller, error) {
	who := mcpserver.Caller{Principal: s.p, Tags: tags, Artifacts: true}
	person := s.p
	person.Agent = ""
	who.Person = person
	if s.p.Agent != "" {
		a, err := s.Agent(ctx, person, s.p.Agent)
		if err != nil {
			return who, err
		}
		who.Principal.Agent = string(a.ID)
	}
	return who, nil
}

// mcp speaks MCP until the client leaves.
func (s *session) mcp(ctx context.Context, tags []string, lazy int) error {
	who, err := s.caller(ctx, tags)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(s.std.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	door, err := mcpserver.New(s.system, mcpserver.Config{Version: version, Wait: s.Wait, Stream: s.Stream, Lazy: lazy,
		Logger: logger})
	if err != nil {
		return err
	}
	err = door.Run(ctx, who, s.std.in, s.std.out)
	return errors.Join(err, door.Close())
}

// tokens prints what listing the tools takes.
func (s *session) tokens(ctx context.Context, tags []string) error {
	who, err := s.caller(ctx, tags)
	if err != nil {
		return err
	}
	groups, err := mcpserver.Groups(func(yield func(haft.Tool, error) bool) {
		for t, err := range s.Tools(ctx, who.Principal, haft.ToolFilter{}) {
			if (err != nil || who.Has(t)) && !yield(t, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if s.as.json {
		return printJSON(s.std.out, groups)
	}
	all := mcpserver.Group{}
	t := newTable(s.std.out, "server", "tools", "tokens (estimated)")
	for _, g := range groups {
		t.row(g.Server, g.Tools, g.Tokens)
		all.Tools, all.Tokens = all.Tools+g.Tools, all.Tokens+g.Tokens
	}
	t.row("all", all.Tools, all.Tokens)
	t.print("there are no tools")
	return nil
}
