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
	"sync"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
	"haft/internal/engine"
	"haft/internal/orgconfig"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/servertest"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/webhook"
	"haft/server"
	"haft/server/agentapi"
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
	talk   *servertest.Conversations

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

// people authenticates the tokens of the tests.
type people = servertest.Tokens

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
	secrets := &vault{values: map[string]secret.Value{}}
	w.core, w.engine, w.store = servertest.Open(t, rules, w, registry.Config{
		Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return nil, nil },
	}, engine.Config{Sandboxes: orgconfig.Places(haft.SandboxLocal, haft.SandboxGVisor, haft.SandboxE2B,
		haft.SandboxModal), Vault: secrets}, service.Config{Vault: secrets})
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
	w.talk = &servertest.Conversations{Agents: w.engine}
	cfg := server.Config{
		Resources: []server.Resource{agentapi.New(agentapi.Config{Agents: w.engine, Memory: w.engine.Memory,
			Blocks: w.engine.Memory, Archive: w.engine.Memory, Conversations: w.talk, Models: servertest.Models{}})},
		Workspaces: w.engine.Workspaces,
		Files:      w.engine.Files,
		Sessions:   w.engine.Sessions,
		Sandboxes:  w.engine.Sandboxes, MCPServers: w.engine.Servers, Meter: w.engine, Retainer: w.engine.Retainer,
		Eraser:  w.engine.Data,
		Secrets: w.engine.Variables, Webhooks: hooks,
		Keys:   keyring{ring},
		Engine: w.core, Policies: w.engine.Policies, Audit: w, Events: w.engine,
		Health: health(func() error { return nil }),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			fmt.Fprintln(w, "haft_calls_total 1")
		}),
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	w.server, w.http = servertest.Serve(t, w.engine, cfg)
	return w
}

// AuditEntries implements server.Audit.
func (w *world) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) (any, *haft.AuditPlace, error) {
	if err := auditor(p); err != nil {
		return nil, nil, err
	}
	return w.store.Audit.FindAudit(ctx, p.Org, f, after)
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
		list, err := w.store.Audit.AuditEntries(ctx, p.Org, 0, 1000)
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
	servertest.Check(t, err)
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
	servertest.Answer{Body: a.body}.Into(t, v)
}

// ask sends a request. Headers are pairs.
func (w *world) ask(who, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a := servertest.Send(w.t, w.http, who, method, path, body, headers...)
	return answer{a.Status, a.Header, a.Body}
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

// health is the state of a service whose canary call ends with an error.
type health func() error

func (h health) Healthy(context.Context) error { return h() }

func (health) Warnings() []string { return nil }
