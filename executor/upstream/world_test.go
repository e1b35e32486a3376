package upstream_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/executor/upstream"
	"haft/sandbox"
	"haft/sandbox/process"
	"haft/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); scenario != "" {
		os.Exit(conform(scenario, os.Args[len(os.Args)-1]))
	}
	// The SDK's servers keep sessions that were cut, which are not ours.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// world is a pool and the servers that it knows.
type world struct {
	t      *testing.T
	pool   *upstream.Pool
	python string
	run    sandbox.Provider

	mu      sync.Mutex
	servers map[string]haft.MCPServer
	grants  map[string][]byte
	changed []string
}

func newWorld(t *testing.T, cfg upstream.Config) *world {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		sandboxtest.Require(t, "python", "there is no python3")
	}
	run, err := process.Open(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, python: python, run: run, servers: map[string]haft.MCPServer{}, grants: map[string][]byte{}}
	cfg.Directory, cfg.Vault, cfg.Place = w, w, w.place
	cfg.Changed = func(_, server string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed = append(w.changed, server)
	}
	if cfg.Client == nil {
		transport := &http.Transport{}
		cfg.Client = &http.Client{Transport: transport}
		t.Cleanup(transport.CloseIdleConnections)
	}
	w.pool = upstream.New(t.Context(), cfg)
	t.Cleanup(w.pool.Close)
	return w
}

// add adds a server that is the fixture in a mode.
func (w *world) add(name, mode string, change func(*haft.MCPServer)) {
	s := haft.MCPServer{ID: "mcp_" + name, Org: "acme", Name: name, Transport: haft.MCPStdio,
		Command: []string{"fixture", mode}}
	if change != nil {
		change(&s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[name], w.servers[s.ID] = s, s
}

// Server implements upstream.Directory.
func (w *world) Server(_ context.Context, org, ref string) (haft.MCPServer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.servers[ref]
	if !ok || s.Org != org {
		return s, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such server"}
	}
	return s, nil
}

// Grant implements upstream.Vault.
func (w *world) Grant(_ context.Context, org, server, user string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.grants[org+"/"+server+"/"+user]; g != nil {
		return g, nil
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such grant"}
}

// PutGrant implements upstream.Vault.
func (w *world) PutGrant(_ context.Context, org, server, user string, grant []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants[org+"/"+server+"/"+user] = grant
	return nil
}

// place runs the fixture as a plain process: what confines commands is tried with
// the whole system.
func (w *world) place(_ context.Context, s haft.MCPServer, env map[string]string) (*upstream.Place, error) {
	source, err := os.ReadFile("testdata/server.py")
	if err != nil {
		return nil, err
	}
	p := &upstream.Place{Provider: w.run, Name: "process"}
	p.Spec.Files = []sandbox.File{{Name: "server.py", Data: source}} // the checkout may be in a /work of the host
	p.Spec.Argv = []string{w.python, "-I", "/work/server.py", s.Command[1]}
	p.Spec.Env = []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		p.Spec.Env = append(p.Spec.Env, k+"="+v)
	}
	p.Spec.Limits = haft.DefaultLimits()
	return p, nil
}

// ann is who calls.
var ann = haft.Principal{Org: "acme", User: "ann"}

// request is a call of a tool.
func request(server, tool, args string) executor.Request {
	return executor.Request{
		Call: "c_1", Tool: haft.MCPToolName(server, tool), Org: "acme", Principal: ann, Kind: haft.KindMCP,
		Server: server, Function: tool,
		Args: json.RawMessage(args), Limits: haft.Limits{Wall: haft.Millis(time.Minute)},
	}
}

// call calls a tool, and fails the test if there is no result.
func (w *world) call(req executor.Request) *haft.Result {
	w.t.Helper()
	res, err := w.pool.Execute(w.t.Context(), req)
	if err != nil {
		w.t.Fatalf("Execute(%s): %v", req.Tool, err)
	}
	return res
}

// text is the value of a result as a text.
func text(t *testing.T, res *haft.Result) string {
	t.Helper()
	var s string
	if err := json.Unmarshal(res.Value, &s); err != nil {
		t.Fatalf("the value of %s is %s, and not a text: %+v", res.Tool, res.Value, res.Error)
	}
	return s
}
