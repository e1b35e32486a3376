package route_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/egress/route"
	"haft/internal/secret"
	"haft/policy"
)

// guard takes every text without a space for a host.
type guard struct {
	open func(route.Request) (*route.Route, error)
}

// Open implements [route.Guard].
func (g guard) Open(_ context.Context, r route.Request) (*route.Route, error) { return g.open(r) }

// Host implements [route.Guard].
func (guard) Host(entry string) (string, error) {
	if strings.Contains(entry, " ") {
		return "", &haft.Error{Code: haft.CodeInvalid, Message: "not a host"}
	}
	host, _, _ := strings.Cut(entry, "/")
	return host, nil
}

// servers has MCP servers by name.
type servers map[string]haft.MCPServer

// MCPServer implements [route.Servers].
func (s servers) MCPServer(_ context.Context, _, name string) (*haft.MCPServer, error) {
	found, ok := s[name]
	if !ok {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such server"}
	}
	return &found, nil
}

func TestPlanner_Plan(t *testing.T) {
	here := servers{
		"http":  {Name: "http", Transport: haft.MCPHTTP, URL: "https://a.example/mcp"},
		"bad":   {Name: "bad", Transport: haft.MCPHTTP, URL: "https://%zz/"},
		"none":  {Name: "none", Transport: haft.MCPHTTP, URL: "/mcp"},
		"stdio": {Name: "stdio", Transport: haft.MCPStdio, Network: []string{"b.example"}},
	}
	script := func(hosts ...string) haft.Version {
		return haft.Version{Kind: haft.KindPython, Settings: haft.Settings{Network: hosts}}
	}
	builtin := func(hosts ...string) haft.Version {
		return haft.Version{Kind: haft.KindBuiltin, Settings: haft.Settings{Network: hosts}}
	}
	mcp := func(server string) haft.Version { return haft.Version{Kind: haft.KindMCP, Server: server} }
	only := func(hosts ...string) policy.Decision {
		return policy.Decision{Networks: []policy.Network{{Rule: "r", Hosts: hosts}}}
	}
	full := route.NetworkFull
	for _, tt := range []struct {
		name  string
		s     route.Subject
		guard route.Guard
		want  []string
		kind  haft.FailureKind // of the refusal
		code  haft.Code        // of another error
	}{
		{name: "a script without hosts", s: route.Subject{Version: script()}},
		{name: "a script", s: route.Subject{Version: script("a.example")}, guard: guard{}, want: []string{"a.example"}},
		{name: "a script by its organisation", s: route.Subject{Version: script(), Default: []string{"d.example"}},
			guard: guard{}, want: []string{"d.example"}},
		{name: "a script without a guard", s: route.Subject{Version: script("a.example")}, kind: haft.FailIsolation},
		{name: "a script with a host that cannot be read", s: route.Subject{Version: script("a b")}, guard: guard{},
			kind: haft.FailDenied},
		{name: "every host without a rule", s: route.Subject{Version: script(full)}, guard: guard{},
			kind: haft.FailDenied},
		{name: "every host by a rule for one", s: route.Subject{Version: script(full), Decision: only("a.example")},
			guard: guard{}, kind: haft.FailDenied},
		{name: "every host by a rule", s: route.Subject{Version: script(full), Decision: only("*")}, guard: guard{},
			want: []string{full}},
		{name: "a host that a rule does not name", s: route.Subject{Version: script("a.example", "b.example"),
			Decision: only("a.example")}, guard: guard{}, kind: haft.FailDenied},
		{name: "a built-in tool", s: route.Subject{Version: builtin("a.example")}, guard: guard{}},
		{name: "a built-in tool with a secret", s: route.Subject{Version: builtin("a.example"), Binds: true},
			guard: guard{}, want: []string{"a.example"}},
		{name: "a built-in tool with named secrets", s: route.Subject{Version: builtin(full), Binds: true,
			Named: []string{"n.example"}}, guard: guard{}, want: []string{"n.example"}},
		{name: "a server without rules", s: route.Subject{Version: mcp("gone")}},
		{name: "a server that fits", s: route.Subject{Version: mcp("http"), Decision: only("a.example")}},
		{name: "a server that does not fit", s: route.Subject{Version: mcp("http"), Decision: only("b.example")},
			kind: haft.FailDenied},
		{name: "a server that is gone", s: route.Subject{Version: mcp("gone"), Decision: only("*")},
			code: haft.CodeNotFound},
		{name: "a server whose address cannot be read", s: route.Subject{Version: mcp("bad"), Decision: only("*")},
			kind: haft.FailDenied},
		{name: "a server without a host", s: route.Subject{Version: mcp("none"), Decision: only("*")},
			kind: haft.FailDenied},
		{name: "a command without a guard", s: route.Subject{Version: mcp("stdio"), Decision: only("*")},
			kind: haft.FailDenied},
		{name: "a command that fits", s: route.Subject{Version: mcp("stdio"), Decision: only("b.example")},
			guard: guard{}},
		{name: "a command that does not fit", s: route.Subject{Version: mcp("stdio"), Decision: only("a.example")},
			guard: guard{}, kind: haft.FailDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := route.NewPlanner(tt.guard, here).Plan(t.Context(), tt.s)
			refusal, refused := errors.AsType[*route.Refusal](err)
			switch {
			case refused && refusal.Kind != tt.kind, !refused && tt.kind != "", !refused && haft.CodeOf(err) != tt.code:
				t.Errorf("%v, want a refusal %q or the code %q", err, tt.kind, tt.code)
			case err == nil && !slices.Equal(plan.Hosts, tt.want):
				t.Errorf("it reaches %q, want %q", plan.Hosts, tt.want)
			}
		})
	}
}

func TestPlanner_Covers(t *testing.T) {
	for _, tt := range []struct {
		have, entry string
		guard       route.Guard
		want        bool
	}{
		{route.NetworkFull, "a.example", nil, true},
		{"a.example", "a.example", nil, true},
		{"a.example", "a.example/x", guard{}, true},
		{"a.example", "a.example/x", nil, false},
		{"a.example/x", "a.example", guard{}, false},
		{"a.example", route.NetworkFull, guard{}, false},
		{"a.example", "b.example", guard{}, false},
		{"a b", "a b/x", guard{}, false},
	} {
		if got := route.NewPlanner(tt.guard, nil).Covers(tt.have, tt.entry); got != tt.want {
			t.Errorf("Covers(%q, %q) = %t, guard %v", tt.have, tt.entry, got, tt.guard != nil)
		}
	}
}

func TestLocal_sends_nothing_without_a_route(t *testing.T) {
	sent := 0
	next := transport(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	send := func(l *route.Local) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.example",
			strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.Wrap(next).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	opened := 0
	fails := true
	g := guard{func(route.Request) (*route.Route, error) {
		if fails {
			return nil, io.ErrUnexpectedEOF
		}
		opened++
		return &route.Route{Session: &session{}, Wrap: func(n http.RoundTripper) http.RoundTripper { return n }}, nil
	}}
	l := route.NewLocal(t.Context(), g, haft.Call{}, slog.New(slog.DiscardHandler))
	if err := send(l); haft.CodeOf(err) != haft.CodeDenied || sent > 0 || l.Opened() || l.Refused() {
		t.Errorf("without a route: %v, %d sent", err, sent)
	}
	fails = false
	for range 2 {
		if err := send(l); err != nil {
			t.Fatal(err)
		}
	}
	if opened != 1 || sent != 2 || !l.Opened() || !l.Refused() || len(l.Close()) != 1 {
		t.Errorf("%d routes, %d sent", opened, sent)
	}
	if err := send(l); haft.CodeOf(err) != haft.CodeDenied || sent != 2 {
		t.Errorf("after the end: %v, %d sent", err, sent)
	}
	never := route.NewLocal(t.Context(), g, haft.Call{}, slog.New(slog.DiscardHandler))
	if got := never.Close(); got != nil {
		t.Errorf("a route that was never opened has %v", got)
	}
	if err := send(never); haft.CodeOf(err) != haft.CodeDenied || opened != 1 {
		t.Errorf("a route that is opened after the end: %v", err)
	}
	var none *route.Local
	if none.Opened() || none.Refused() || none.Close() != nil {
		t.Error("no route has one")
	}
}

// transport is a function that is a transport.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// session is one with a refused connection.
type session struct{}

func (*session) Serve(context.Context, net.Conn) {}

func (*session) Refused() bool { return true }

func (*session) Close() ([]route.Connection, []secret.Named) {
	return []route.Connection{{To: "a.example", Refused: "no"}}, nil
}
