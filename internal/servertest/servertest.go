// Package servertest has what tests of HTTP APIs share: an engine whose tools are a
// function of the test, a server over it, callers whose tokens say who they are, and a
// client.
package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/workspace"
	"haft/policy"
	"haft/server"
)

// Operators is the organisation whose administrators operate the server.
const Operators = "ops"

// errCredential is the error for a token that names nobody.
var errCredential = &haft.Error{Code: haft.CodeUnauthenticated, Message: "the credential is missing or not valid"}

// Tokens authenticates tokens ORG/USER/ROLE+ROLE[/AGENT[/SCOPE]]. SCOPE has the actions
// that the credential is confined to; "signed" means a body that is not the signed one.
// The user root may act as any agent, and the credential of the user brief expires at once.
type Tokens struct{}

// Authenticate implements [server.Authenticator].
func (Tokens) Authenticate(r *http.Request, _ netip.Addr) (server.Identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, "/")
	if !ok || len(parts) < 3 {
		return server.Identity{}, errCredential
	}
	parts = append(parts, "", "")
	id := server.Identity{
		Principal: haft.Principal{Org: parts[0], User: parts[1], Roles: strings.Split(parts[2], "+"), Agent: parts[3]},
		Rules:     authority.Rules{Operators: Operators},
	}
	switch scope := parts[4]; scope {
	case "":
	case "signed":
		r.Body = io.NopCloser(io.MultiReader(r.Body, badEnd{}))
	default:
		id.Principal.Actions = []haft.Action{}
		for _, a := range haft.Actions() {
			if strings.Contains(scope, string(a)) {
				id.Principal.Actions = append(id.Principal.Actions, a)
			}
		}
	}
	switch parts[1] {
	case "root":
		id.ActAs = func(string) error { return nil }
	case "brief":
		id.Expires = time.Now().Add(50 * time.Millisecond)
	}
	return id, nil
}

// badEnd is the end of a body that is not the signed one.
type badEnd struct{}

// Read implements [io.Reader].
func (badEnd) Read([]byte) (int, error) { return 0, errCredential }

// Check reports an error of closing something.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Open opens an engine, and its management, over a database in memory. The function run
// executes all Python and built-in tools, and rules is the policy.
func Open(t testing.TB, rules string, run executor.Executor, reg registry.Config, cfg engine.Config,
	manage service.Config) (*engine.Engine, *service.API, *store.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Check(t, st.Close()) })
	if cfg.Policy, err = policy.Compile([]byte(rules)); err != nil {
		t.Fatal(err)
	}
	parts := engine.Parts{Store: st, Registry: registry.New(st, reg),
		Workspaces: workspace.New(st, workspace.Config{Dir: filepath.Join(t.TempDir(), "workspaces")}),
		Executors:  map[haft.Kind]executor.Executor{haft.KindPython: run, haft.KindBuiltin: run}}
	e, err := engine.Open(t.Context(), parts, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Check(t, errors.Join(e.Close(), parts.Workspaces.Close())) })
	return e, service.New(e, parts, manage), st
}

// Serve serves an API to [Tokens] until the test ends.
func Serve(t testing.TB, api *service.API, cfg server.Config) (*server.Server, *httptest.Server) {
	t.Helper()
	s, err := server.New(api, Tokens{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		Check(t, s.Shutdown(ctx))
		h.Close()
	})
	return s, h
}

// An Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the body of an answer.
func (a Answer) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("the answer %s is not what was expected: %v", a.Body, err)
	}
}

// Send sends a request with a token, or without one if it is empty. Headers are pairs.
func Send(t testing.TB, h *httptest.Server, token, method, path, body string, headers ...string) Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{res.StatusCode, res.Header, raw}
}
