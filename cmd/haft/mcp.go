package main

import (
	"context"
	"errors"
	"log/slog"

	"haft"
	"haft/server/mcpserver"
)

// mcpCommand is Haft as an MCP server on stdio.
func mcpCommand(*profile) command {
	var tags []string
	var lazy int
	var tokens bool
	return command{
		use: "mcp", short: "Be an MCP server on stdin and stdout, for Claude, Cursor, VS Code and others",
		long: `mcp speaks the Model Context Protocol on stdin and stdout: every tool that is kept
here becomes a tool of the client, and every call of it is checked, confined,
limited and recorded. If there are many tools, two stand for all of them:
find_tools and call_tool. What is wrong is said on stderr.`,
		example: `  haft mcp                                   all tools that are kept here
  haft mcp --agent support                   what the agent may call
  haft mcp --server https://haft.example.com the tools of a server
  haft mcp --tokens                          what listing them costs, and end`,
		flags: []flag{
			{&tags, "tag", "only tools with this `TAG`; may be given again: one is enough"},
			{&lazy, "lazy",
				"from how many tools on only find_tools and call_tool are listed; 1 always, -1 never (100)"},
			{&tokens, "tokens", "print what listing the tools takes of a model's context, server by server, and end"},
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			defer tuneForServer()()
			caller, err := s.mcpCaller(ctx, tags)
			if err != nil {
				return err
			}
			if tokens {
				return s.printTokens(ctx, caller)
			}
			return s.serveMCP(ctx, caller, lazy)
		},
	}
}

// mcpCaller returns who calls tools over MCP: the principal of the session, whose person may
// approve calls of the agent.
func (s *session) mcpCaller(ctx context.Context, tags []string) (mcpserver.Caller, error) {
	person := s.p
	person.Agent = ""
	caller := mcpserver.Caller{Principal: s.p, Person: person, Tags: tags, Artifacts: true}
	if s.p.Agent != "" {
		a, err := s.Agent(ctx, person, s.p.Agent)
		if err != nil {
			return caller, err
		}
		caller.Principal.Agent = string(a.ID)
	}
	return caller, nil
}

// serveMCP speaks MCP until the client leaves.
func (s *session) serveMCP(ctx context.Context, caller mcpserver.Caller, lazy int) error {
	logger := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := mcpserver.New(s.system, mcpserver.Config{Version: version, Wait: s.Wait, Stream: s.Stream,
		Lazy: lazy, Logger: logger})
	if err != nil {
		return err
	}
	return errors.Join(server.Run(ctx, caller, s.in, s.out), server.Close())
}

// printTokens prints how much of a model's context the list of tools takes.
func (s *session) printTokens(ctx context.Context, caller mcpserver.Caller) error {
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
	return s.print(groups, func() {
		all := mcpserver.Group{Server: "all"}
		for _, g := range groups {
			all.Tools, all.Tokens = all.Tools+g.Tools, all.Tokens+g.Tokens
		}
		printTable(s.out, append(groups, all), listing[mcpserver.Group]{
			"server,tools,tokens (estimated)", func(g mcpserver.Group) []any {
				return []any{g.Server, g.Tools, g.Tokens}
			}, ""})
	})
}
