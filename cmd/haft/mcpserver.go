package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/cataloguecmd"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/mcpfile"
	"haft/internal/toolfile"
)

// mcpServerCommand keeps upstream MCP servers.
func mcpServerCommand(*cli.Profile) cli.Command {
	var (
		f      mcpFlags
		entry  cataloguecmd.Flags
		accept bool
		only   []string
	)
	listen := "127.0.0.1:0"
	return cli.Command{
		Use: "mcp-server", Short: "Use the tools of MCP servers: commands in a sandbox, or addresses",
		Example: `  haft mcp-server add time -- uvx mcp-server-time
  haft mcp-server add files --mount ./docs -- npx -y @modelcontextprotocol/server-filesystem "$PWD/docs"
  haft mcp-server add wiki --url https://mcp.example.com/mcp --header 'Authorization=Bearer {{ WIKI_TOKEN }}'
  haft mcp-server search files --catalogue servers.json
  haft mcp-server add files --from io.example/files --catalogue servers.json --set dir=/docs --mount ./docs:/docs
  haft mcp-server login wiki               agree in a browser, where the server wants that
  haft call time__get_current_time --arg timezone=Europe/Oslo`,
		Missing: "see which there are with: haft mcp-server list",
		Subs: []cli.Command{
			{Use: "add NAME [-- COMMAND…]", Short: "Add a server and its tools, which are then called NAME__TOOL",
				Flags: append(f.flags(), entry.Which()...),
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					server, err := f.read(args[0], args[1:], entry.From != "")
					if err == nil && entry.From != "" {
						server, err = entry.Complete(ctx, s, server)
					}
					if err != nil {
						return err
					}
					change, err := s.PutMCPServer(ctx, s.Who, server)
					if err != nil {
						return err
					}
					return s.Print(change, func() { printServerChange(s, change) })
				}},
			cataloguecmd.Search(),
			{Use: "list", Short: "List servers", Run: cli.ListAll(cli.System.MCPServerList, cli.Listing[haft.MCPServer]{
				"NAME,TRANSPORT,WHERE,TOOLS,STATE,LISTED", func(m haft.MCPServer) []any {
					return []any{cli.Shaded(m.Name, bold), m.Transport, where(m), m.State.Tools, serverState(m),
						cli.Since(m.State.Listed)}
				}, "there are no MCP servers; add one with: haft mcp-server add NAME -- COMMAND"})},
			{Use: "show NAME", Short: "Show a server, without the values of headers and variables",
				Run: cli.ShowOne(cli.System.MCPServer, printServer)},
			{Use: "refresh NAME", Short: "List the tools of a server again; what is new or changed waits for review",
				Flags: []cli.Flag{{&accept, "accept", "accept what is new or changed without looking at it"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					change, err := s.RefreshMCPServer(ctx, s.Who, args[0], accept)
					if err != nil {
						return err
					}
					printed := s.Print(change, func() { printServerChange(s, change) })
					return cmp.Or(printed, exit.If(change.Server.State.Error != "", exit.Tool))
				}},
			{Use: "login NAME", Short: "Agree, in a browser, that Haft acts for you at a server",
				Flags: []cli.Flag{{&listen, "listen", "the `ADDRESS` on this machine to which the browser comes back"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return login(ctx, s, args[0], listen)
				}},
			{Use: "remove NAME", Old: []string{"rm"}, Short: "Remove a server with its tools and credentials",
				Run: cli.RemoveOne(cli.System.RemoveMCPServer, "removed ", "")},
			{Use: "import FILE", Short: "Add the servers of a file with mcpServers, as desktop clients have it",
				Flags: []cli.Flag{{&only, "only", "the `NAME` of a server to add; may be given again"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return importServers(ctx, s, args[0], only)
				}},
		},
	}
}

// mcpFlags say what a server is.
type mcpFlags struct {
	server                haft.MCPServer
	headers, env, network []string
	mounts                []string
	oauth                 haft.MCPOAuth
	scopes                cli.CommaList
}

func (f *mcpFlags) flags() []cli.Flag {
	s := &f.server
	return []cli.Flag{
		{&s.URL, "url", "the `URL` of a server that speaks HTTP"},
		{&s.Transport, "transport", "stdio, http or sse; guessed if empty"},
		{&f.headers, "header", "a header `NAME=VALUE` of every request; {{ VAR }} stands for a variable of the call"},
		{&f.env, "env", "a variable `K=V` of the command; {{ VAR }} stands for a variable of the call"},
		{&f.network, "network", "`HOST`s that the command may reach; none by default"},
		{&f.mounts, "mount", "a directory `DIR[:INSIDE][:rw]` that the command sees, read-only without :rw"},
		{&s.Requirements.Pip, "pip", "a Python `PACKAGE` that the command needs"},
		{&s.Requirements.NPM, "npm", "an npm `PACKAGE` that the command needs"},
		{&f.oauth.ClientID, "client-id", "the `ID` of a client that is registered at the server"},
		{&f.oauth.ClientSecret, "client-secret", "its `SECRET`"},
		{&f.scopes, "scope", "a `SCOPE` to ask for at a login"},
		{&s.Connect, "connect-timeout", "how long connecting may take (30s)"},
		{&s.Limits.Wall, "timeout", "how long a call may take"},
		{(*flagvalue.Memory)(&s.Limits.Memory), "memory", "memory of the command (1GiB)"},
	}
}

// read makes a server of the flags and a command, or one to be completed from a catalogue.
func (f *mcpFlags) read(name string, command []string, catalogued bool) (s haft.MCPServer, err error) {
	s = f.server
	s.Name, s.Command = name, command
	ways := 0
	for _, way := range []bool{s.URL != "", len(command) > 0, catalogued} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return s, exit.Misuse(errors.New("a server is a command after --, an address with --url, or an entry of a " +
			"catalogue with --from"))
	}
	if s.Headers, err = toolfile.Pairs("--header", f.headers); err != nil {
		return s, err
	}
	if s.Env, err = toolfile.Pairs("--env", f.env); err != nil {
		return s, err
	}
	for _, n := range f.network {
		s.Network = append(s.Network, strings.Split(n, ",")...)
	}
	for _, m := range f.mounts {
		mount, err := readMount(m)
		if err != nil {
			return s, err
		}
		s.Mounts = append(s.Mounts, mount)
	}
	if f.oauth.Scopes = f.scopes; f.oauth.ClientID != "" || f.oauth.ClientSecret != "" || len(f.scopes) > 0 {
		s.OAuth = &f.oauth
	}
	return s, nil
}

// readMount reads DIR[:INSIDE][:rw].
func readMount(text string) (haft.MCPMount, error) {
	var m haft.MCPMount
	text, m.Writable = strings.CutSuffix(text, ":rw")
	text = strings.TrimSuffix(text, ":ro")
	dir, inside, _ := strings.Cut(text, ":")
	dir, err := filepath.Abs(dir)
	if err != nil {
		return m, exit.Misuse(fmt.Errorf("--mount: %w", err))
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && inside == "" {
		m.Inside = dir // as the command names it
		dir = real
	}
	m.Dir, m.Inside = dir, cmp.Or(inside, m.Inside)
	return m, nil
}

// printServerChange prints how the tools of a server have changed.
func printServerChange(s *cli.Session, c *haft.MCPChange) {
	fmt.Fprintf(s.Out, "%s: %d tools\n", c.Server.Name, c.Server.State.Tools)
	for i, list := range [][]string{c.Added, c.Changed, c.Removed, c.Waiting} {
		if len(list) > 0 {
			word := []string{"added", "changed", "removed", "waiting for review"}[i]
			fmt.Fprintf(s.Out, "%s %s\n", word, strings.Join(list, " "))
		}
	}
	if len(c.Waiting) > 0 {
		fmt.Fprintln(s.Err,
			"  look at one with: haft tool show NAME, and accept it with: haft tool review NAME --accept")
	}
	printInvalid(s, c.Server)
	for _, w := range c.Warnings {
		fmt.Fprintln(s.Err, paint(s.Err, yellow, "warning:"), safe(s.Err, w))
	}
	if c.Server.State.Login {
		fmt.Fprintln(s.Err, "  agree with: haft mcp-server login "+c.Server.Name)
	}
}

// printInvalid prints the tools that cannot be called, and why.
func printInvalid(s *cli.Session, m haft.MCPServer) {
	for _, x := range m.State.Invalid {
		fmt.Fprintf(s.Out, "cannot be called: %s: %s\n", safe(s.Out, x.Tool),
			safe(s.Out, strings.Join(x.Reasons, "; ")))
	}
}

// where says what a server is.
func where(m haft.MCPServer) string {
	if m.URL != "" {
		return m.URL
	}
	return strings.Join(m.Command, " ")
}

// serverState says how a server is.
func serverState(m haft.MCPServer) cli.Cell {
	switch {
	case m.Disabled:
		return cli.Shaded("disabled", yellow)
	case m.State.Login:
		return cli.Shaded("login needed", yellow)
	case m.State.Error != "":
		return cli.Shaded("failed", red)
	}
	return cli.Shaded("ready", green)
}

// printServer prints one server.
func printServer(s *cli.Session, m *haft.MCPServer) {
	mounts := joined(m.Mounts, ", ", func(x haft.MCPMount) string {
		return x.Dir + ":" + x.Inside + map[bool]string{true: ":rw"}[x.Writable]
	})
	cli.PrintFacts(s.Out, "name", cli.Shaded(m.Name, bold), "id", m.ID, "state", serverState(*m), "transport",
		m.Transport, "where", where(*m), "headers", strings.Join(slices.Sorted(maps.Keys(m.Headers)), ", "),
		"environment", strings.Join(slices.Sorted(maps.Keys(m.Env)), ", "),
		"network", strings.Join(m.Network, ", "), "mounts", mounts, "calls itself", m.State.Title,
		"protocol", m.State.Protocol, "tools", m.State.Tools, "error", m.State.Error, "changed", cli.Since(m.Updated))
	printInvalid(s, *m)
}

// maxServersFile bounds a file of servers.
const maxServersFile = 1 << 20

// importServers adds the servers of a file as desktop clients have it.
func importServers(ctx context.Context, s *cli.Session, file string, only []string) error {
	raw, err := toolfile.ReadBounded(file, maxServersFile)
	if err != nil {
		return exit.Misuse(fmt.Errorf("read the servers: %w", err))
	}
	servers, err := mcpfile.Parse(raw)
	if err != nil {
		return exit.Misuse(fmt.Errorf("%s: %w", file, err))
	}
	var changes []haft.MCPChange
	for _, m := range servers {
		if len(only) > 0 && !slices.Contains(only, m.Name) {
			continue
		}
		change, err := s.PutMCPServer(ctx, s.Who, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		changes = append(changes, *change)
		if !s.JSON {
			printServerChange(s, change)
		}
	}
	return s.Print(changes, func() {})
}

// loginTime is how long a person has.
const loginTime = 10 * time.Minute

// login prints the link, waits for the redirect of the browser and ends the login.
func login(ctx context.Context, s *cli.Session, name, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host != "127.0.0.1" && host != "localhost" && host != "::1" {
		return exit.Misuse(errors.New("--listen is an address of this machine only, such as 127.0.0.1:0"))
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for the browser: %w", err)
	}
	answers := make(chan haft.MCPAnswer, 1)
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if r.URL.Path != "/callback" || q.Get("state") == "" {
				http.NotFound(w, r)
				return
			}
			select {
			case answers <- haft.MCPAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"),
				Error: q.Get("error")}:
			default:
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w,
				"<!doctype html><title>Haft</title><p>%s: you can close this page and go back to the terminal.",
				html.EscapeString(name))
		})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	defer func() {
		_ = srv.Close() // no page is needed any more
		<-done
	}()
	link, err := s.LoginMCPServer(ctx, s.Who, name, "http://"+ln.Addr().String()+"/callback")
	if err != nil {
		return err
	}
	if link == "" {
		return s.PrintLine(map[string]any{"server": name, "login": false}, name+" wants no login")
	}
	fmt.Fprintln(s.Err, "open this in a browser:")
	fmt.Fprintln(s.Err, "  "+safe(s.Err, link))
	select {
	case a := <-answers:
		if err := s.FinishMCPLogin(ctx, s.Who, a); err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("wait for the browser: %w", context.Cause(ctx))
	}
	if change, err := s.RefreshMCPServer(ctx, s.Who, name, false); err == nil && !s.JSON {
		fmt.Fprintf(s.Err, "%s has %d tools\n", name, change.Server.State.Tools)
	}
	return s.PrintLine(map[string]any{"server": name, "login": true}, "logged in at "+name)
}
