package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
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
)

// allowAll is a policy by which users may call everything.
const allowAll = `
version: 1
roles:
  user: ["tool:*"]
  admin: ["tool:*"]
`

// An api is an engine with all that manages it.
type api struct {
	*engine.Engine
	*service.API
	*service.PolicyManager
	*service.ServerManager
	*service.SandboxManager
	*service.SecretManager
	*service.RetentionManager
	*service.DataManager
}

// openAPI opens an engine and what manages it.
func openAPI(ctx context.Context, parts engine.Parts, cfg engine.Config, sc service.Config) (*api, error) {
	e, err := engine.Open(ctx, parts, cfg)
	if err != nil {
		return nil, err
	}
	sc.Rules = authority.Rules{Managers: cfg.Managers, Operators: cfg.Operators}
	sc.Vault, _ = cfg.Vault.(service.Vault)
	sc.Egress, sc.PruneEvery, sc.Logger = cfg.Egress, cfg.Beat, cfg.Logger
	s := service.New(e, parts, sc)
	return &api{Engine: e, API: s, PolicyManager: s.Policies, ServerManager: s.Servers, SandboxManager: s.Sandboxes,
		SecretManager: s.Variables, RetentionManager: s.Retainer, DataManager: s.Data}, nil
}

// A world is an engine with a store in memory and an executor that the test
// writes.
type world struct {
	*api
	t        *testing.T
	store    *store.Store
	registry *registry.Registry
	script   *fake
}

// fake runs tools as a function of the test. It counts.
type fake struct {
	mu   sync.Mutex
	runs map[haft.CallID]int
	run  func(ctx context.Context, req executor.Request) (*haft.Result, error)
}

// Execute implements executor.Executor.
func (f *fake) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	f.mu.Lock()
	f.runs[req.Call]++
	run := f.run
	f.mu.Unlock()
	return run(ctx, req)
}

// count returns how often tools were run.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, k := range f.runs {
		n += k
	}
	return n
}

// set changes what tools do.
func (f *fake) set(run func(ctx context.Context, req executor.Request) (*haft.Result, error)) {
	f.mu.Lock()
	f.run = run
	f.mu.Unlock()
}

// ok is a result with a value.
func ok(req executor.Request, value string) *haft.Result {
	return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: json.RawMessage(value)}
}

// failing is a result without one.
func failing(req executor.Request, status haft.Status, kind haft.FailureKind) *haft.Result {
	return &haft.Result{Call: req.Call, Tool: req.Tool, Status: status, Value: json.RawMessage("null"),
		Error: &haft.Failure{Kind: kind, Message: "it failed", Retry: haft.RetrySame}}
}

// echo gives back its arguments.
func echo(_ context.Context, req executor.Request) (*haft.Result, error) {
	return ok(req, string(req.Args)), nil
}

// testLogger writes to the test's log.
func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Log(string(b)); return len(b), nil }

// setup makes a world with a store of its own.
func setup(t *testing.T, rules string, cfg engine.Config) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return open(t, s, rules, cfg)
}

// open makes a world over a store, which outlives it.
func open(t *testing.T, s *store.Store, rules string, cfg engine.Config) *world {
	t.Helper()
	w := &world{t: t, store: s, script: &fake{runs: map[haft.CallID]int{}, run: echo}}
	w.registry = registry.New(s, registry.Config{
		Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return nil, nil },
	})
	var err error
	if cfg.Policy, err = policy.Compile([]byte(rules)); err != nil {
		t.Fatal(err)
	}
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	spaces := workspace.New(s, workspace.Config{Dir: filepath.Join(t.TempDir(), "workspaces")})
	t.Cleanup(func() { check(t, spaces.Close()) })
	w.api, err = openAPI(t.Context(), engine.Parts{Store: s, Registry: w.registry, Workspaces: spaces,
		Executors: map[haft.Kind]executor.Executor{haft.KindPython: w.script}}, cfg, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, w.Engine.Close()) })
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// The people of the tests.
func admin(org string) haft.Principal {
	return haft.Principal{Org: org, User: "root", Roles: []string{"admin"}}
}

func user(org, name string) haft.Principal {
	return haft.Principal{Org: org, User: name, Roles: []string{"user"}}
}

func approver(org string) haft.Principal {
	return haft.Principal{Org: org, User: "boss", Roles: []string{"approver"}}
}

// tool registers a tool with any arguments. Change may adjust its draft.
func (w *world) tool(org, name string, change func(*haft.Draft)) *haft.Tool {
	w.t.Helper()
	d := haft.Draft{Name: name, Kind: haft.KindPython, Function: name, Description: "A tool.",
		Source: "def " + name + "(): pass",
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"x":{"type":"integer"},"password":{"type":"string"},"path":{"type":"string"}}}`)}
	if change != nil {
		change(&d)
	}
	c, err := w.PutTool(w.t.Context(), admin(org), d)
	if err != nil {
		w.t.Fatalf("PutTool(%s): %v", name, err)
	}
	return &c.Tool
}

// call calls a tool and expects a result.
func (w *world) call(p haft.Principal, tool, args string) *haft.Result {
	w.t.Helper()
	return w.do(haft.Call{Tool: tool, Args: json.RawMessage(args), Principal: p})
}

// do makes a call and expects a result.
func (w *world) do(c haft.Call) *haft.Result {
	w.t.Helper()
	res, err := w.Call(w.t.Context(), c)
	if err != nil {
		w.t.Fatalf("Call(%s): %v", c.Tool, err)
	}
	return res
}

// want checks the status of a result.
func want(t *testing.T, res *haft.Result, status haft.Status) {
	t.Helper()
	if res.Status != status {
		t.Errorf("the call is %s, want %s: %+v", res.Status, status, res.Error)
	}
}

// record returns the record of a call.
func (w *world) record(org string, id haft.CallID) *haft.Record {
	w.t.Helper()
	r, err := w.Record(w.t.Context(), admin(org), id)
	if err != nil {
		w.t.Fatalf("Record(%s): %v", id, err)
	}
	return r
}

// events returns the events of a call, in order.
func (w *world) events(org string, id haft.CallID) []haft.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	var all []haft.Event
	for e, err := range w.Watch(ctx, admin(org), haft.EventFilter{}, 0) {
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				w.t.Fatalf("call %s does not end: %v", id, all)
			}
			w.t.Fatal(err)
		}
		if e.Call != id {
			continue
		}
		if all = append(all, e); e.Type == haft.EventCompleted {
			return all
		}
	}
	return all
}
