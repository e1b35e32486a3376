package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"

	"haft"
	"haft/internal/callenv"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/egress/session"
	"haft/internal/secret"
)

// tokens exchanges every secret for one token.
type tokens struct{ asked int }

// Token implements [session.Tokens].
func (k *tokens) Token(context.Context, string, callenv.Bound) (secret.Value, error) {
	k.asked++
	return secret.New("token-1234567890"), nil
}

// bound is a secret for hosts, which is exchanged for a token if the endpoint is not empty.
func bound(name, endpoint string, hosts ...string) callenv.Bound {
	b := callenv.Bound{Name: name, Value: secret.New(name + "-value-1234567890"),
		To: &secret.Binding{Hosts: hosts, Header: "Authorization", Prefix: "Bearer "}}
	if endpoint != "" {
		b.To.OAuth = &secret.OAuth{TokenURL: endpoint, Grant: "client_credentials", ClientID: "c"}
	}
	return b
}

func TestOpener_refuses(t *testing.T) {
	many := make([]callenv.Bound, egress.MaxBound+1)
	for i := range many {
		many[i] = bound("s"+string(rune('a'+i%26))+string(rune('a'+i/26)), "", "a.example")
	}
	for name, r := range map[string]route.Request{
		"a host that is none":              {Hosts: []string{"*"}},
		"a secret whose hosts are none":    {Bound: []callenv.Bound{bound("k", "", "*")}},
		"a secret whose header cannot be":  {Bound: []callenv.Bound{badHeader(bound("k", "", "a.example"))}},
		"more secrets than can be brought": {Hosts: []string{"a.example"}, Bound: many},
	} {
		o := &session.Opener{Guard: egress.New(egress.Config{}), Logger: slog.New(slog.DiscardHandler)}
		if got, err := o.Open(t.Context(), r); haft.CodeOf(err) != haft.CodeInvalid || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the call cannot reach is left out, where there is too much of it.
	o := &session.Opener{Guard: egress.New(egress.Config{}), Logger: slog.New(slog.DiscardHandler)}
	got, err := o.Open(t.Context(), route.Request{Hosts: []string{"b.example"}, Bound: many})
	if err != nil || len(got.Unreached) != len(many) {
		t.Errorf("secrets for other hosts: %v", err)
	}
}

func badHeader(b callenv.Bound) callenv.Bound {
	b.To.Header = "a b"
	return b
}

// A secret is exchanged only where the call may reach the token endpoint.
func TestOpener_exchanges(t *testing.T) {
	none := func(string, uint16) string { return "org/none" }
	for _, tt := range []struct {
		name, endpoint string
		forbids        func(string, uint16) string
		without        bool // nothing exchanges tokens
		want           haft.Code
	}{
		{"good", "https://id.example/token", nil, false, ""},
		{"forbidden", "https://id.example/token", none, false, haft.CodeDenied},
		{"without an exchange", "https://id.example/token", nil, true, haft.CodeUnavailable},
		{"an address that cannot be read", "https://%zz/", nil, false, haft.CodeInvalid},
		{"an address without a host", "/token", nil, false, haft.CodeInvalid},
		{"a port that is none", "https://id.example:99999/", nil, false, haft.CodeInvalid},
	} {
		k := &tokens{}
		o := &session.Opener{Guard: egress.New(egress.Config{}), Logger: slog.New(slog.DiscardHandler), Tokens: k}
		if tt.without {
			o.Tokens = nil
		}
		got, err := o.Open(t.Context(), route.Request{Hosts: []string{"a.example"}, Forbids: tt.forbids,
			Bound: []callenv.Bound{bound("k", tt.endpoint, "a.example")}})
		if err != nil {
			t.Fatal(err)
		}
		if failed := got.Failed["k"]; haft.CodeOf(failed) != tt.want || (k.asked > 0) != (tt.want == "") {
			t.Errorf("%s: %v, and %d tokens were fetched", tt.name, failed, k.asked)
		}
		made, leased := got.Session.Close()
		if (len(leased) == 1) != (tt.want == "") || got.Session.Refused() != (tt.forbids != nil) ||
			len(made) > 0 != (tt.forbids != nil) {
			t.Errorf("%s: %d tokens, connections %+v", tt.name, len(leased), made)
		}
	}
}

// A tool of this process has no proxy: its requests are held against the rules and recorded, and a connection of a
// sandbox is closed.
func TestOpener_local(t *testing.T) {
	var made []route.Connection
	o := &session.Opener{Guard: egress.New(egress.Config{}), Logger: slog.New(slog.DiscardHandler)}
	got, err := o.Open(t.Context(), route.Request{Local: true, Hosts: []string{"*"},
		Forbids: func(string, uint16) string { return "org/none" },
		Record:  func(c route.Connection) { made = append(made, c) }})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := got.Wrap(http.DefaultTransport).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	kept, _ := got.Session.Close()
	if haft.CodeOf(err) != haft.CodeDenied || len(made) != 1 || made[0].Refused == "" || len(kept) > 0 {
		t.Errorf("%v, recorded %+v, kept %+v", err, made, kept)
	}
	near, far := net.Pipe()
	got.Session.Serve(t.Context(), far)
	if _, err := near.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection without a proxy: %v", err)
	}
}

func TestOpener_Host(t *testing.T) {
	o := &session.Opener{}
	for entry, want := range map[string]string{"https://a.example/x": "a.example", "*": ""} {
		if got, err := o.Host(entry); !slices.Contains([]string{want, want + ":443"}, got) ||
			(err == nil) != (want != "") {
			t.Errorf("Host(%q) = %q, %v, want %q", entry, got, err, want)
		}
	}
}
