package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
	"haft/internal/authority"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/webhook"
	"haft/policy"
	"haft/server"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// rules allow users and administrators everything, ask a person for one tool, and
// refuse another.
const rules = `
version: 1
roles:
  user: ["tool:*"]
  admin: ["tool:*"]
`

// canary is a value that no problem may repeat.
const canary = "hunter2canary"

// A world is a server over a real engine, whose tools are a function of the test.
type world struct {
	t      testing.TB
	core   *engine.Engine
	engine *service.API
	store  *store.Store
	server *server.Server
	http   *httptest.Server
	log    *buffer

	mu   sync.Mutex
	run  func(ctx context.Context, req executor.Request) (*haft.Result, error)
	last map[string]haft.Limits // by tool
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Execute implements executor.Executor.
func (w *world) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	w.mu.Lock()
	run := w.run
	if w.last == nil {
		w.last = map[string]haft.Limits{}
	}
	w.last[req.Tool] = req.Limits
	w.mu.Unlock()
	return run(ctx, req)
}

// limits returns what a tool was last run with.
func (w *world) limits(tool string) haft.Limits {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[tool]
}

// set changes what tools do.
func (w *world) set(run func(ctx context.Context, req executor.Request) (*haft.Result, error)) {
	w.mu.Lock()
	w.run = run
	w.mu.Unlock()
}

// echo gives back its arguments.
func echo(_ context.Context, req executor.Request) (*haft.Result, error) {
	return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: json.RawMessage(req.Args)},
		nil
}

// people knows who a token of the tests is: ORG/USER/ROLE+ROLE[/AGENT]. A fifth
// part is what the credential is confined to, and "signed" a body that is not what
// was signed.
type people struct{}

// Authenticate implements server.Authenticator.
func (people) Authenticate(r *http.Request, _ netip.Addr) (server.Identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, "/")
	if !ok || len(parts) < 3 {
		return server.Identity{}, &haft.Error{Code: haft.CodeUnauthenticated,
			Message: "the credential is missing or not valid"}
	}
	p := haft.Principal{Org: parts[0], User: parts[1], Roles: strings.Split(parts[2], "+")}
	id := server.Identity{Principal: p, Rules: authority.Rules{Operators: "ops"}}
	scope := ""
	if len(parts) > 3 {
		id.Principal.Agent = parts[3]
	}
	if len(parts) > 4 {
		scope = parts[4]
	}
	if scope == "signed" {
		r.Body = io.NopCloser(io.MultiReader(r.Body, badEnd{}))
		scope = ""
	}
	if scope != "" {
		id.Principal.Actions = []haft.Action{}
		for _, a := range haft.Actions() {
			if strings.Contains(scope, string(a)) {
				id.Principal.Actions = append(id.Principal.Actions, a)
			}
		}
	}
	if p.User == "root" {
		id.ActAs = func(string) error { return nil }
	}
	if p.User == "brief" {
		id.Expires = time.Now().Add(50 * time.Millisecond)
	}
	return id, nil
}

// badEnd is the end of a body that is not what was signed.
type badEnd struct{}

func (badEnd) Read([]byte) (int, error) {
	return 0, &haft.Error{Code: haft.CodeUnauthenticated, Message: "the credential is missing or not valid"}
}

// The people of the tests.
const (
	admin    = "acme/root/admin"
	user     = "acme/ann/user"
	other    = "acme/bob/user"
	boss     = "acme/boss/approver"
	operator = "ops/root/admin"  // of the organisation that operates the server
	stranger = "evil/root/admin" // an administrator of another organisation
	nobody   = ""
)

// setup makes a world. Change may adjust the server.
func setup(t testing.TB, change func(*server.Config)) *world {
	t.Helper()
	w := &world{t: t, run: echo, log: &buffer{}}
	var err error
	if w.store, err = sqlite.Open(t.Context(), sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, w.store.Close()) })
	reg := registry.New(w.store, registry.Config{
		Review: func(context.Context, haft.Kind, string) ([]haft.Finding, error) { return nil, nil },
	})
	pol, err := policy.Compile([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	parts := engine.Parts{Store: w.store, Registry: reg,
		Executors: map[haft.Kind]executor.Executor{haft.KindPython: w}}
	secrets := &vault{values: map[string]secret.Value{}}
	w.core, err = engine.Open(t.Context(), parts,
		engine.Config{Policy: pol, Sandboxes: []haft.SandboxType{haft.SandboxLocal, haft.SandboxGVisor, haft.SandboxE2B,
			haft.SandboxModal}, Vault: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, w.core.Close()) })
	w.engine = service.New(w.core, parts, service.Config{Vault: secrets})
	hooks, err := webhook.Open(t.Context(), w.store, webhook.Config{
		Idle: true, Client: http.DefaultClient, Manage: w.engine.Manage, May: w.engine.May, Cursor: w.engine.Cursor,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, hooks.Close()) })
	ring, err := auth.NewKeyring(&authtest.Memory{}, bytes.Repeat([]byte("p"), 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{
		Sandboxes: w.engine.Sandboxes, Meter: w.engine, Retainer: w.engine.Retainer, Eraser: w.engine.Data,
		Secrets: w.engine.Variables, Webhooks: hooks,
		Keys: keyring{ring},
		Wait: w.core.Wait, Policies: w.engine.Policies, Audit: w, Events: w.engine,
		Explain: func(ctx context.Context, c haft.Call) (any, error) { return w.core.Explain(ctx, c) },
		Render: func(format string, strict bool, tools []haft.Tool) (json.RawMessage, error) {
			return json.Marshal([]any{format, strict, len(tools)})
		},
		ToolCalls: func(_ context.Context, req server.ToolCalls) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"org": req.Principal.Org, "agent": req.Principal.Agent,
				"body": req.Body})
		},
		Ready: func(context.Context) error { return nil },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			fmt.Fprintln(w, "haft_calls_total 1")
		}),
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	if w.server, err = server.New(w.engine, people{}, cfg); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(w.server.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		check(t, w.server.Shutdown(ctx))
		w.http.Close()
	})
	return w
}

// AuditEntries implements server.Audit.
func (w *world) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) (any, *haft.AuditPlace, error) {
	if err := auditor(p); err != nil {
		return nil, nil, err
	}
	return w.store.FindAudit(ctx, p.Org, f, after)
}

// AuditKeys implements server.Audit.
func (w *world) AuditKeys(_ context.Context, p haft.Principal) ([]byte, error) {
	return []byte("PEM\n"), auditor(p)
}

// auditor reports why somebody may not see the audit.
func auditor(p haft.Principal) error {
	if p.Roles[0] != haft.RoleAdmin {
		return &haft.Error{Code: haft.CodeDenied, Message: "the audit is for administrators"}
	}
	return nil
}

// ExportAudit implements server.Audit as app does.
func (w *world) ExportAudit(ctx context.Context, p haft.Principal, _ haft.AuditFilter, out io.Writer) error {
	if err := auditor(p); err != nil {
		return err
	}
	_, err := audit.Export(out, func(yield func(audit.Entry, error) bool) {
		list, err := w.store.AuditEntries(ctx, p.Org, 0, 1000)
		if err != nil {
			yield(audit.Entry{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}, audit.Extract{From: audit.Head{Org: p.Org}})
	return err
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into reads the body of an answer.
func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("the answer %s is not what was expected: %v", a.body, err)
	}
}

// ask sends a request. Headers are pairs.
func (w *world) ask(who, method, path, body string, headers ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if who != nobody {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.http.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, raw}
}

// must sends a request and expects a status.
func (w *world) must(status int, who, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a := w.ask(who, method, path, body, headers...)
	if a.status != status {
		w.t.Fatalf("%s %s by %q: status %d, want %d: %s", method, path, who, a.status, status, a.body)
	}
	return a
}

// draft is a tool with any arguments. More are members of the draft.
func draft(name, more string) string {
	return fmt.Sprintf(
		`{"name":%q,"source_type":"python","function":%q,"description":"A tool.","source_code":"def %s(): pass",
		"parameters":{"type":"object","properties":{"x":{"type":"integer"},"path":{"type":"string"}}}%s}`, name, name, name, more)
}

// tool registers a tool in acme.
func (w *world) tool(name, more string) haft.Tool {
	w.t.Helper()
	var t haft.Tool
	w.must(http.StatusCreated, admin, "POST", "/v1/tools", draft(name, more)).into(w.t, &t)
	return t
}

// call calls a tool and returns its result.
func (w *world) call(who, body string) haft.Result {
	w.t.Helper()
	var res haft.Result
	w.must(http.StatusOK, who, "POST", "/v1/calls", body).into(w.t, &res)
	return res
}

// problemOf reads a problem and looks at what all have in common.
func problemOf(t *testing.T, a answer) server.Problem {
	t.Helper()
	var p server.Problem
	a.into(t, &p)
	if a.header.Get("Content-Type") != "application/problem+json" || p.Status != a.status || p.Code == "" ||
		p.Request != a.header.Get("X-Request-Id") || p.Type != "urn:haft:error:"+string(p.Code) {
		t.Errorf("not a problem: %d %v %s", a.status, a.header, a.body)
	}
	if bytes.Contains(a.body, []byte(canary)) {
		t.Errorf("the problem repeats a value: %s", a.body)
	}
	return p
}

var errBroken = errors.New("broken " + canary)

func logger(b *buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
