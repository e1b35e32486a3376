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

	"github.com/spf13/cobra"

	"haft"
)

// mcpServerCommand keeps upstream MCP servers.
func mcpServerCommand(std streams) *cobra.Command {
	cmd := group("mcp-server", "Use the tools of MCP servers: commands in a sandbox, or addresses",
		`  haft mcp-server add time -- uvx mcp-server-time
  haft mcp-server add files --mount ./docs -- npx -y @modelcontextprotocol/server-filesystem "$PWD/docs"
  haft mcp-server add wiki --url https://mcp.example.com/mcp --header 'Authorization=Bearer {{ WIKI_TOKEN }}'
  haft mcp-server login wiki               agree in a browser, where the server wants that
  haft call time__get_current_time --arg timezone=Europe/Oslo`)
	p := attach(cmd)
	cmd.AddCommand(mcpAdd(p, std), mcpList(p, std), mcpShow(p, std), mcpRefresh(p, std), mcpLogin(p, std),
		mcpRemove(p, std), mcpImport(p, std))
	return cmd
}

// noServer says what to do about a server that is not there.
func noServer(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft mcp-server list")
}

// mcpFlags say what a server is.
type mcpFlags struct {
	url, transport        string
	headers, env, network []string
	mounts, pip, npm      []string
	clientID, secret      string
	scopes                []string
	connect, call         time.Duration
	memory                size
}

// server makes a server of the flags and a command.
func (f mcpFlags) server(name string, command []string) (haft.MCPServer, error) {
	s := haft.MCPServer{Name: name, URL: f.url, Transport: haft.MCPTransport(f.transport), Command: command,
		Requirements: haft.Requirements{Pip: f.pip, NPM: f.npm}}
	if (f.url == "") == (len(command) == 0) {
		return s, usage(errors.New("a server is a command after --, or an address with --url"))
	}
	var err error
	if s.Headers, err = pairs("--header", f.headers); err != nil {
		return s, err
	}
	if s.Env, err = pairs("--env", f.env); err != nil {
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
	if f.clientID != "" || f.secret != "" || len(f.scopes) > 0 {
		s.OAuth = &haft.MCPOAuth{ClientID: f.clientID, ClientSecret: f.secret, Scopes: f.scopes}
	}
	s.Connect, s.Limits.Wall, s.Limits.Memory = haft.Millis(f.connect), haft.Millis(f.call), int64(f.memory)
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
		return m, usage(fmt.Errorf("--mount: %w", err))
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && inside == "" {
		m.Inside = dir // as the command names it
		dir = real
	}
	m.Dir, m.Inside = dir, cmp.Or(inside, m.Inside)
	return m, nil
}

// mcpAdd adds a server.
func mcpAdd(p *persona, std streams) *cobra.Command {
	var f mcpFlags
	cmd := p.command(std, "add NAME [-- COMMAND…]", "Add a server and its tools, which are then called NAME__TOOL",
		cobra.MinimumNArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			server, err := f.server(args[0], args[1:])
			if err != nil {
				return err
			}
			change, err := s.PutMCPServer(ctx, s.p, server)
			if err != nil {
				return err
			}
			return tellServer(s, change)
		})
	fl := cmd.Flags()
	fl.StringVar(&f.url, "url", "", "the `URL` of a server that speaks HTTP")
	fl.StringVar(&f.transport, "transport", "", "stdio, http or sse; guessed if empty")
	fl.StringArrayVar(&f.headers, "header", nil,
		"a header `NAME=VALUE` of every request; {{ VAR }} stands for a variable of the call")
	fl.StringArrayVar(&f.env, "env", nil,
		"a variable `K=V` of the command; {{ VAR }} stands for a variable of the call")
	fl.StringArrayVar(&f.network, "network", nil, "`HOST`s that the command may reach; none by default")
	fl.StringArrayVar(&f.mounts, "mount", nil,
		"a directory `DIR[:INSIDE][:rw]` that the command sees, read-only without :rw")
	fl.StringArrayVar(&f.pip, "pip", nil, "a Python `PACKAGE` that the command needs")
	fl.StringArrayVar(&f.npm, "npm", nil, "an npm `PACKAGE` that the command needs")
	fl.StringVar(&f.clientID, "client-id", "", "the `ID` of a client that is registered at the server")
	fl.StringVar(&f.secret, "client-secret", "", "its `SECRET`")
	fl.StringSliceVar(&f.scopes, "scope", nil, "a `SCOPE` to ask for at a login")
	fl.DurationVar(&f.connect, "connect-timeout", 0, "how long connecting may take (30s)")
	fl.DurationVar(&f.call, "timeout", 0, "how long a call may take")
	fl.Var(&f.memory, "memory", "memory of the command (1GiB)")
	return cmd
}

// tellServer prints what became of a server.
func tellServer(s *session, c *haft.MCPChange) error {
	if s.as.json {
		return printJSON(s.std.out, c)
	}
	say := func(word string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(s.std.out, "%s %s\n", word, strings.Join(list, " "))
		}
	}
	fmt.Fprintf(s.std.out, "%s: %d tools\n", c.Server.Name, c.Server.State.Tools)
	say("added", c.Added)
	say("changed", c.Changed)
	say("removed", c.Removed)
	if len(c.Waiting) > 0 {
		say("waiting for review", c.Waiting)
		fmt.Fprintln(s.std.err,
			"  look at one with: haft tool show NAME, and accept it with: haft tool review NAME --accept")
	}
	tellInvalid(s, c.Server)
	for _, w := range c.Warnings {
		fmt.Fprintln(s.std.err, paint(s.std.err, yellow, "warning:"), safe(s.std.err, w))
	}
	if c.Server.State.Login {
		fmt.Fprintln(s.std.err, "  agree with: haft mcp-server login "+c.Server.Name)
	}
	return nil
}

// tellInvalid prints the tools that cannot be called, and why.
func tellInvalid(s *session, m haft.MCPServer) {
	for _, x := range m.State.Invalid {
		fmt.Fprintf(s.std.out, "cannot be called: %s: %s\n", safe(s.std.out, x.Tool),
			safe(s.std.out, strings.Join(x.Reasons, "; ")))
	}
}

// mcpList lists servers.
func mcpList(p *persona, std streams) *cobra.Command {
	return p.command(std, "list", "List servers", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			now := time.Now()
			return printList(s, s.MCPServerList(ctx, s.p),
				"there are no MCP servers; add one with: haft mcp-server add NAME -- COMMAND",
				[]string{"NAME", "TRANSPORT", "WHERE", "TOOLS", "STATE", "LISTED"}, func(tab *table, m haft.MCPServer) {
					tab.row(cell{m.Name, bold}, m.Transport, where(m), m.State.Tools, serverState(m),
						ago(m.State.Listed, now))
				})
		})
}

// where says what a server is.
func where(m haft.MCPServer) string {
	if m.URL != "" {
		return m.URL
	}
	return strings.Join(m.Command, " ")
}

// serverState says how a server is.
func serverState(m haft.MCPServer) cell {
	switch {
	case m.Disabled:
		return cell{"disabled", yellow}
	case m.State.Login:
		return cell{"login needed", yellow}
	case m.State.Error != "":
		return cell{"failed", red}
	}
	return cell{"ready", green}
}

// mcpShow shows one server.
func mcpShow(p *persona, std streams) *cobra.Command {
	return p.command(std, "show NAME", "Show a server, without the values of headers and variables", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			m, err := s.MCPServer(ctx, s.p, args[0])
			if err != nil {
				return noServer(err)
			}
			if s.as.json {
				return printJSON(s.std.out, m)
			}
			var mounts []string
			for _, x := range m.Mounts {
				mounts = append(mounts, x.Dir+":"+x.Inside+map[bool]string{true: ":rw"}[x.Writable])
			}
			printFacts(s.std.out, fact{"name", cell{m.Name, bold}}, fact{"id", m.ID}, fact{"state", serverState(*m)},
				fact{"transport", m.Transport}, fact{"where", where(*m)},
				fact{"headers", strings.Join(slices.Sorted(maps.Keys(m.Headers)), ", ")},
				fact{"environment", strings.Join(slices.Sorted(maps.Keys(m.Env)), ", ")},
				fact{"network", strings.Join(m.Network, ", ")}, fact{"mounts", strings.Join(mounts, ", ")},
				fact{"calls itself", m.State.Title},
				fact{"protocol", m.State.Protocol}, fact{"tools", m.State.Tools}, fact{"error", m.State.Error},
				fact{"changed", ago(m.Updated, time.Now())})
			tellInvalid(s, *m)
			return nil
		})
}

// mcpRefresh lists the tools of a server again.
func mcpRefresh(p *persona, std streams) *cobra.Command {
	var accept bool
	cmd := p.command(std, "refresh NAME", "List the tools of a server again; what is new or changed waits for review",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			change, err := s.RefreshMCPServer(ctx, s.p, args[0], accept)
			if err != nil {
				return noServer(err)
			}
			return tellServer(s, change)
		})
	cmd.Flags().BoolVar(&accept, "accept", false, "accept what is new or changed without looking at it")
	return cmd
}

// mcpRemove removes a server.
func mcpRemove(p *persona, std streams) *cobra.Command {
	return p.command(std, "rm NAME", "Remove a server with its tools and credentials", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if err := s.RemoveMCPServer(ctx, s.p, args[0], ""); err != nil {
				return noServer(err)
			}
			return tell(s, map[string]string{"removed": args[0]}, "removed "+args[0])
		})
}

// mcpImport adds the servers of a file as desktop clients have it.
func mcpImport(p *persona, std streams) *cobra.Command {
	var only []string
	cmd := p.command(std, "import FILE", "Add the servers of a file with mcpServers, as desktop clients have it",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			servers, err := readServers(args[0])
			if err != nil {
				return err
			}
			var changes []haft.MCPChange
			for _, m := range servers {
				if len(only) > 0 && !slices.Contains(only, m.Name) {
					continue
				}
				change, err := s.PutMCPServer(ctx, s.p, m)
				if err != nil {
					return fmt.Errorf("%s: %w", m.Name, err)
				}
				changes = append(changes, *change)
				if !s.as.json {
					if err := tellServer(s, change); err != nil {
						return err
					}
				}
			}
			if s.as.json {
				return printJSON(s.std.out, changes)
			}
			return nil
		})
	cmd.Flags().StringArrayVar(&only, "only", nil, "the `NAME` of a server to add; may be given again")
	return cmd
}

// loginTime is how long a person has.
const loginTime = 10 * time.Minute

// mcpLogin lets a person agree.
func mcpLogin(p *persona, std streams) *cobra.Command {
	var redirect string
	cmd := p.command(std, "login NAME", "Agree, in a browser, that Haft acts for you at a server", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			return login(ctx, s, args[0], redirect)
		})
	cmd.Flags().StringVar(&redirect, "listen", "127.0.0.1:0",
		"the `ADDRESS` on this machine to which the browser comes back")
	return cmd
}

// login prints the link, waits for the browser to come back and ends the login.
func login(ctx context.Context, s *session, name, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host != "127.0.0.1" && host != "localhost" && host != "::1" {
		return usage(errors.New("--listen is an address of this machine only, such as 127.0.0.1:0"))
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
		_ = srv.Close() // nobody waits for a page
		<-done
	}()
	link, err := s.LoginMCPServer(ctx, s.p, name, "http://"+ln.Addr().String()+"/callback")
	if err != nil {
		return noServer(err)
	}
	if link == "" {
		return tell(s, map[string]any{"server": name, "login": false}, name+" wants no login")
	}
	fmt.Fprintln(s.std.err, "open this in a browser:")
	fmt.Fprintln(s.std.err, "  "+safe(s.std.err, link))
	select {
	case a := <-answers:
		if err := s.FinishMCPLogin(ctx, s.p, a); err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("wait for the browser: %w", context.Cause(ctx))
	}
	if change, err := s.RefreshMCPServer(ctx, s.p, name, false); err == nil && !s.as.json {
		fmt.Fprintf(s.std.err, "%s has %d tools\n", name, change.Server.State.Tools)
	}
	return tell(s, map[string]any{"server": name, "login": true}, "logged in at "+name)
}
