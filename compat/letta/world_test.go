package letta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/compat/letta"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/engine"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/model"
	"haft/internal/orgconfig"
	"haft/internal/registry"
	"haft/internal/servertest"
	"haft/internal/service"
	"haft/internal/store"
	"haft/schema"
	"haft/server"
)

const rules = `
version: 1
roles:
  admin: ["tool:*"]
  reader: ["tool:read_*"]
`

// The people of the tests, as tokens of [servertest.Tokens].
const (
	admin    = "acme/root/admin"
	reader   = "acme/ann/reader"
	confined = "acme/cat/admin//tools:read"
	stranger = "evil/root/admin"
	nobody   = ""
)

// heartbeat is how often streams say something.
const heartbeat = 20 * time.Millisecond

// canary is a value that no error may repeat.
const canary = "hunter2canary"

// A world is an API to a real engine, whose tools are a function of the test.
type world struct {
	t      testing.TB
	calls  *engine.Engine
	engine *service.API
	memory *faultyMemory
	store  *store.Store
	http   *httptest.Server
	api    *letta.API

	mu     sync.Mutex
	answer func(req model.Request, emit func(model.Chunk)) *model.Answer // of the model
	run    func(req executor.Request) *haft.Result
	vars   map[string]map[string]time.Time // by organisation and name
}

// Execute implements executor.Executor.
func (w *world) Execute(_ context.Context, req executor.Request) (*haft.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run(req), nil
}

// Variables implements letta.Variables.
func (w *world) Variables(_ context.Context, p haft.Principal) ([]letta.Variable, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []letta.Variable
	for _, name := range slices.Sorted(maps.Keys(w.vars[p.Org])) {
		list = append(list, letta.Variable{Name: name, Created: w.vars[p.Org][name], Updated: w.vars[p.Org][name]})
	}
	return list, nil
}

// PutVariable implements letta.Variables.
func (w *world) PutVariable(_ context.Context, p haft.Principal, name, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.vars[p.Org] == nil {
		w.vars[p.Org] = map[string]time.Time{}
	}
	w.vars[p.Org][name] = time.Now()
	return nil
}

// RemoveVariable implements letta.Variables.
func (w *world) RemoveVariable(_ context.Context, p haft.Principal, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.vars[p.Org], name)
	return nil
}

// function finds the function of a source of the tests.
var function = regexp.MustCompile(`def (\w+)\(([^)]*)\)`)

// signature reads sources of the tests: def name(a, b).
func signature(source string) (name string, parameters *schema.Object, err error) {
	m := function.FindStringSubmatch(source)
	if m == nil {
		return "", nil, &schema.SourceError{Line: 1, Message: "there is no function"}
	}
	properties, required := schema.Obj(), []any{}
	for _, arg := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' }) {
		arg, _, _ = strings.Cut(strings.TrimSpace(arg), ":")
		properties.Set(arg, schema.Obj("type", "integer"))
		required = append(required, arg)
	}
	return m[1], schema.Obj("type", "object", "properties", properties, "required", required), nil
}

// builtinTool is a tool that comes with the server.
func builtinTool(name string) haft.Tool {
	return haft.Tool{Name: name, Version: haft.Version{Description: "Runs.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"message":{"type":"string"}}}`)}}
}

// A faultyMemory fails to attach blocks of a label.
type faultyMemory struct {
	*memory.API
	fails string
}

// AttachBlock implements [haft.BlockSharer].
func (m *faultyMemory) AttachBlock(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error {
	if b, err := m.Block(ctx, p, id); err == nil && b.Label == m.fails {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the disk is full"}
	}
	return m.API.AttachBlock(ctx, p, agent, id)
}

// setup makes a world. Its tools run in these sandboxes, or in the local one.
func setup(t testing.TB, sandboxes ...haft.SandboxType) *world {
	t.Helper()
	w := &world{t: t, vars: map[string]map[string]time.Time{}, run: func(req executor.Request) *haft.Result {
		return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess, Value: req.Args}
	}}
	var st *store.Store
	w.calls, w.engine, st = servertest.Open(t, rules, w, registry.Config{
		Builtin: []haft.Tool{builtinTool("run_code"), builtinTool("memory_insert"), builtinTool("send_message")},
		Review: func(_ context.Context, _ haft.Kind, source string, _ bool) ([]haft.Finding, error) {
			if strings.Contains(source, "suspicious") {
				return []haft.Finding{{Rule: "test", Severity: haft.SeverityHigh, Message: "looks suspicious"}}, nil
			}
			return nil, nil
		},
		Derive: func(_ context.Context, src registry.Source) (*registry.Derived, error) {
			name, parameters, err := signature(string(src.Text))
			if err != nil {
				return nil, err
			}
			return &registry.Derived{Signature: &schema.Signature{Name: name, Parameters: parameters}, Function: name},
				nil
		},
	}, engine.Config{Sandboxes: orgconfig.Places(sandboxes...)}, service.Config{})
	w.store, w.memory = st, &faultyMemory{API: &memory.API{Store: memorystore.New(st), Agents: st.Agents,
		Rules: authority.Rules{Operators: servertest.Operators},
		Log:   func(context.Context, haft.Principal, string, any) error { return nil }}}
	w.api = letta.New(w.engine, letta.Config{
		Memory: w.memory, Sharer: w.memory, Archive: w.memory, Conversations: w.converse(st), Heartbeat: heartbeat,
		Models:     talkModels{w},
		SourceTool: "run_code", Variables: w, Sandboxes: w.engine.Sandboxes, Servers: w.engine.Servers, Version: "1",
		Derive: func(_ context.Context, _ haft.Kind, source string, _ bool) (*letta.Signature, error) {
			name, parameters, err := signature(source)
			if err != nil {
				return nil, &haft.Error{Code: haft.CodeInvalid, Message: err.Error(), Err: err}
			}
			text, err := schema.Encode(parameters)
			return &letta.Signature{Name: name, Parameters: text}, err
		},
	})
	_, w.http = servertest.Serve(t, w.engine, server.Config{APIs: map[string]server.API{letta.Prefix + "/": w.api}})
	return w
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. Headers are pairs.
func (w *world) ask(who, method, path, body string, headers ...string) answer {
	w.t.Helper()
	got := servertest.Send(w.t, w.http, who, method, letta.Prefix+"/v1"+path, body, headers...)
	a := answer{got.Status, got.Header, string(got.Body)}
	if a.status >= 400 {
		if strings.Contains(a.body, canary) {
			w.t.Errorf("%s %s: the error repeats what was sent: %s", method, path, a.body)
		}
		var e struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(got.Body, &e); err != nil || e.Detail == "" {
			w.t.Errorf("%s %s: %d without a detail: %s", method, path, a.status, a.body)
		}
	}
	return a
}

// must sends a request by the administrator, expects a status and reads the answer.
func must[T any](w *world, status int, method, path, body string) T {
	w.t.Helper()
	a := w.ask(admin, method, path, body)
	if a.status != status {
		w.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	var v T
	if a.body != "" {
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			w.t.Fatalf("%s %s: %s: %v", method, path, a.body, err)
		}
	}
	return v
}

// tool is what the tests look at of one.
type tool struct {
	ID       string                    `json:"id"`
	Name     string                    `json:"name"`
	Type     string                    `json:"tool_type"`
	Desc     string                    `json:"description"`
	Tags     []string                  `json:"tags"`
	Source   string                    `json:"source_code"`
	Schema   map[string]any            `json:"json_schema"`
	Limit    int                       `json:"return_char_limit"`
	Pip      []map[string]string       `json:"pip_requirements"`
	NPM      []map[string]string       `json:"npm_requirements"`
	Approval bool                      `json:"default_requires_approval"`
	Parallel bool                      `json:"enable_parallel_execution"`
	Metadata map[string]map[string]any `json:"-"`
}

// add registers a tool.
func (w *world) add(name string) tool {
	w.t.Helper()
	return must[tool](w, 200, "POST", "/tools/", fmt.Sprintf(`{"source_code":"def %s(a): pass"}`, name))
}

// walk lists to the end as clients do, and fails if there is none.
func (w *world) walk(path string) []tool {
	w.t.Helper()
	var all []tool
	after := ""
	for range 100 {
		page := must[[]tool](w, 200, "GET", path+after, "")
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = "&after=" + page[len(page)-1].ID
	}
	w.t.Fatalf("%s: the list does not end", path)
	return nil
}

func namesOf(list []tool) string {
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}
