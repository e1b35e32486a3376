package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/sandbox"
	"haft/sandbox/e2b"
)

// A faultProxy stands between a client and a server of E2B's API.
type faultProxy struct {
	url string
	mu  sync.Mutex
	// fault answers a request in the place of the server, if it is not nil and returns true.
	fault func(w http.ResponseWriter, r *http.Request) bool
	seen  map[string]int // by method and the last part of the path
}

// startFaultProxy starts one before a server.
func startFaultProxy(t *testing.T, server string) *faultProxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{seen: map[string]int{}}
	next := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.seen[operation(r)]++
		p.mu.Unlock()
		if fault == nil || !fault(w, r) {
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// operation names what a request does.
func operation(r *http.Request) string { return r.Method + " " + filepath.Base(r.URL.Path) }

// set changes the fault.
func (p *faultProxy) set(fault func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// count returns how many requests there were of an operation.
func (p *faultProxy) count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[op]
}

// answers makes a fault that answers an operation with a status, once or always.
func answers(op string, status int, once bool) func(http.ResponseWriter, *http.Request) bool {
	var done sync.Once
	return func(w http.ResponseWriter, r *http.Request) bool {
		hit := operation(r) == op
		if hit && once {
			hit = false
			done.Do(func() { hit = true })
		}
		if hit {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}
		return hit
	}
}

// echoSpec is a run that prints.
func echoSpec(script string) sandbox.Spec {
	return sandbox.Spec{Tenant: "acme", Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

// runs runs a script and returns what it printed.
func runs(t *testing.T, p sandbox.Provider, spec sandbox.Spec) (string, error) {
	t.Helper()
	var out strings.Builder
	spec.Stdout = &out
	exit, err := p.Run(t.Context(), spec)
	if err == nil && (exit.Cause != sandbox.CauseExit || exit.Code != 0) {
		t.Errorf("the run ended with %+v", exit)
	}
	return out.String(), err
}

// What the API answers becomes an error with a code, and nothing of it is passed on.
func TestE2BClient_faults(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	p := openE2BClient(t, proxy.url, key, nil)
	for _, c := range []struct {
		op     string
		status int
		code   haft.Code
		says   string
	}{
		{"POST sandboxes", 401, haft.CodeUnavailable, "E2B_API_KEY"},
		{"POST sandboxes", 403, haft.CodeUnavailable, "E2B_API_KEY"},
		{"POST sandboxes", 404, haft.CodeUnavailable, "HAFT_E2B_TEMPLATE"},
		{"POST sandboxes", 409, haft.CodeUnavailable, "state"},
		{"POST sandboxes", 429, haft.CodeRateLimited, "no more"},
		{"POST sandboxes", 500, haft.CodeUnavailable, "500"},
		{"POST sandboxes", 302, haft.CodeUnavailable, "302"},
		{"POST Start", 502, haft.CodeUnavailable, "ended"},
		{"POST Start", 401, haft.CodeUnavailable, "key"},
		{"POST SendInput", 500, haft.CodeUnavailable, "nobody knows"},
	} {
		proxy.set(answers(c.op, c.status, false))
		_, err := runs(t, p, echoSpec("echo ran"))
		if haft.CodeOf(err) != c.code || !strings.Contains(haft.MessageOf(err), c.says) {
			t.Errorf("%s answered %d: %v, want code %s and %q", c.op, c.status, err, c.code, c.says)
		}
		if c.status == 429 && haft.RetryAfterOf(err) != haft.Millis(7*time.Second) {
			t.Errorf("429: retry after %v", haft.RetryAfterOf(err))
		}
	}
	proxy.set(nil)
	if out, err := runs(t, p, echoSpec("echo ran")); err != nil || out != "ran\n" {
		t.Errorf("after all faults: %q, %v", out, err)
	}
}

// A machine that ended while nobody used it is replaced, and the run does not notice.
func TestE2BClient_replaces_a_machine_that_ended(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	p := openE2BClient(t, proxy.url, key, nil)
	for range 2 {
		if out, err := runs(t, p, echoSpec("echo ran")); err != nil || out != "ran\n" {
			t.Fatalf("%q, %v", out, err)
		}
	}
	if n := proxy.count("POST sandboxes"); n != 1 {
		t.Errorf("two runs made %d machines, want one", n)
	}
	proxy.set(answers("POST Start", http.StatusBadGateway, true))
	if out, err := runs(t, p, echoSpec("echo ran")); err != nil || out != "ran\n" {
		t.Errorf("with a machine that had ended: %q, %v", out, err)
	}
	if n := proxy.count("POST sandboxes"); n != 2 {
		t.Errorf("%d machines were made, want two", n)
	}
}

// Tenants never share a machine, and neither do runs without one.
func TestE2BClient_keeps_tenants_apart(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	p := openE2BClient(t, proxy.url, key, nil)
	leave := "echo secret > /tmp/left; ls /tmp/left"
	for i, tenant := range []string{"acme", "other", "", ""} {
		spec := echoSpec("ls /tmp/left 2>/dev/null; true")
		if i == 0 {
			spec = echoSpec(leave)
		}
		spec.Tenant = tenant
		out, err := runs(t, p, spec)
		if err != nil || i > 0 && out != "" {
			t.Errorf("tenant %q finds %q, %v", tenant, out, err)
		}
	}
	if n := proxy.count("POST sandboxes"); n != 4 {
		t.Errorf("%d machines were made, want one for each tenant and each run without one", n)
	}
}

// A sandbox that dies in the middle of a call, and a stream that is cut, leave it unknown what the command did, and
// nothing that runs.
func TestE2BClient_is_lost_in_the_middle(t *testing.T) {
	server, key := startE2BServer(t)
	for name, lose := range map[string]func(p *faultProxy, id string, cut context.CancelFunc){
		"killed": func(p *faultProxy, id string, _ context.CancelFunc) {
			r, _ := http.NewRequest(http.MethodDelete, p.url+"/e2b/sandboxes/"+id, nil)
			r.Header.Set("X-Api-Key", key)
			if res, err := http.DefaultClient.Do(r); err == nil {
				_ = res.Body.Close()
			}
		},
		"cut": func(_ *faultProxy, _ string, cut context.CancelFunc) { cut() },
	} {
		t.Run(name, func(t *testing.T) {
			proxy := startFaultProxy(t, server)
			p := openE2BClient(t, proxy.url, key, nil)
			streams, cut := context.WithCancel(t.Context())
			defer cut()
			id := make(chan string, 1)
			proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
				if operation(r) != "POST Start" {
					return false
				}
				id <- r.Header.Get("E2b-Sandbox-Id")
				to, _ := url.Parse(server)
				ctx, cancel := context.WithCancel(r.Context())
				defer context.AfterFunc(streams, cancel)()
				(&httputil.ReverseProxy{FlushInterval: -1,
					Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
					ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
				}).ServeHTTP(w, r.WithContext(ctx))
				return true
			})
			spec := echoSpec("echo ready; sleep 60")
			spec.Stdout = writes(func() { go lose(proxy, <-id, cut) })
			_, err := p.Run(t.Context(), spec)
			if !errors.Is(err, sandbox.ErrLost) || haft.CodeOf(err) != haft.CodeUnavailable {
				t.Errorf("Run = %v, want that the sandbox was lost", err)
			}
			if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("left over: %v, %v", list, err)
			}
		})
	}
}

// writes calls a function at each write.
type writes func()

// Write implements [io.Writer].
func (w writes) Write(p []byte) (int, error) { w(); return len(p), nil }

// Machines that a process left behind are used by the next of the same owner if nothing runs there, and by no other.
func TestE2BClient_takes_over_what_was_left(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	owned := func(c *e2b.Config) { c.Owner = "one" }
	first := openE2BClient(t, proxy.url, key, owned)
	if _, err := runs(t, first, echoSpec("true")); err != nil {
		t.Fatal(err)
	}
	stranger := openE2BClient(t, proxy.url, key, func(c *e2b.Config) { c.Owner = "two" })
	if _, err := runs(t, stranger, echoSpec("true")); err != nil {
		t.Fatal(err)
	}
	second := openE2BClient(t, proxy.url, key, owned) // first is still there, as if it had been killed
	if _, err := runs(t, second, echoSpec("true")); err != nil {
		t.Fatal(err)
	}
	if n := proxy.count("POST sandboxes"); n != 2 {
		t.Errorf("%d machines were made, want one for each owner", n)
	}
	list, err := second.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("List = %v, %v", list, err)
	}
	if err := second.Remove(t.Context(), list[0].ID); err != nil {
		t.Error(err)
	}
	if err := second.Remove(t.Context(), list[0].ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Remove again = %v", err)
	}
}

// A directory of packages is sent to a machine once.
func TestE2BClient_sends_packages_once(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	p := openE2BClient(t, proxy.url, key, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "module.py"), []byte("x = 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := echoSpec("cat /tmp/packages/abc/python/module.py")
	spec.Mounts = []sandbox.Mount{{Host: dir, Inside: "/tmp/packages/abc/python"}, {Host: "/usr", Inside: "/usr"}}
	for range 3 {
		if out, err := runs(t, p, spec); err != nil || out != "x = 7\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if n := proxy.count("POST files"); n != 1 {
		t.Errorf("packages were sent %d times, want once", n)
	}
}

// The level of E2B itself is known: an operator cannot raise it.
func TestE2BClient_has_the_level_of_its_server(t *testing.T) {
	if _, err := e2b.New(t.Context(), e2b.Config{Key: "key", Level: haft.LevelMachine}); haft.CodeOf(err) !=
		haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), "HAFT_E2B_ISOLATION") {
		t.Errorf("a level of E2B itself: %v", err)
	}
}

// What is refused does not reach the server.
func TestE2BClient_refuses(t *testing.T) {
	p := openE2BClient(t, "http://127.0.0.1:1", "key", func(c *e2b.Config) { c.Level = "" })
	for name, change := range map[string]func(*sandbox.Spec){
		"named hosts": func(s *sandbox.Spec) {
			s.Network = sandbox.NetworkEgress
			s.ServeEgress = func(context.Context, net.Conn) {}
		},
		"a workspace": func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Host: "/tmp", Inside: "/workspace", Writable: true}}
		},
		"a level that is not known": func(s *sandbox.Spec) { s.Need.Level = haft.LevelReduced },
		"a control":                 func(s *sandbox.Spec) { s.Need.Controls = []haft.Control{haft.ControlPIDs} },
	} {
		spec := echoSpec("true")
		change(&spec)
		if _, err := p.Run(t.Context(), spec); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s: %v, want code denied", name, err)
		}
	}
	if _, err := p.Run(t.Context(), echoSpec("true")); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("a server that is not there: %v", err)
	}
}

// No more machines are made than allowed, and an idle one makes room.
func TestE2BClient_has_quotas(t *testing.T) {
	server, key := startE2BServer(t)
	p := openE2BClient(t, server, key, func(c *e2b.Config) { c.Max, c.MaxOfTenant = 1, 1 })
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	spec := echoSpec("echo ready; sleep 60")
	var once sync.Once
	spec.Stdout = writes(func() { once.Do(func() { close(ready) }) })
	go func() {
		_, err := p.Run(ctx, spec)
		ended <- err
	}()
	<-ready
	other := echoSpec("echo ran")
	other.Tenant = "other"
	if _, err := runs(t, p, other); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("one machine too many: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out, err := runs(t, p, other); err != nil || out != "ran\n" {
		t.Errorf("with an idle machine of another: %q, %v", out, err)
	}
}

// A tool runs at E2B if its organisation allows that, and else not. The result says where it ran and why.
func TestE2BClient_runs_tools(t *testing.T) {
	server, key := startE2BServer(t)
	proxy := startFaultProxy(t, server)
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Data: t.TempDir(), Config: app.Config{AllowReduced: true,
		E2B: &e2b.Config{Key: key, APIURL: proxy.url + "/e2b", SandboxURL: proxy.url + "/e2b/sandbox",
			Level: haft.LevelMachine}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	draft := haft.Draft{Kind: haft.KindPython, Source: "import pathlib\n\ndef add(a: int, b: int) -> int:\n" +
		"    \"\"\"Add.\n\n    Args:\n        a: one\n        b: two\n    \"\"\"\n    print('adding')\n" +
		"    pathlib.Path('out/sum.txt').write_text(str(a + b))\n    return a + b\n"}
	if _, err := s.PutTool(ctx, root(), draft); err != nil {
		t.Fatal(err)
	}
	modal := draft
	modal.Settings.Sandbox = "modal"
	if _, err := s.PutTool(ctx, root(), modal); haft.CodeOf(err) != haft.CodeInvalid ||
		!strings.Contains(haft.MessageOf(err), "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") {
		t.Errorf("a tool for modal: %v", err)
	}
	call := func(sandbox string) *haft.Result {
		res, err := s.Call(ctx, haft.Call{Tool: "add", Args: json.RawMessage(`{"a":2,"b":40}`), Principal: root(),
			Sandbox: sandbox})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	ran := func(name string, res *haft.Result, provider, reason string) {
		t.Helper()
		if res.Status != haft.StatusSuccess || string(res.Value) != "42" || res.Stdout != "adding\n" ||
			len(res.Artifacts) != 1 || res.Sandbox.Provider != provider ||
			!strings.Contains(res.Sandbox.Reason, reason) {
			t.Errorf("%s: %s %s in %q because %q, %d files: %+v", name, res.Status, res.Value, res.Sandbox.Provider,
				res.Sandbox.Reason, len(res.Artifacts), res.Error)
		}
	}
	if res := call("e2b"); res.Status != haft.StatusDenied || !strings.Contains(res.Error.Message, "allow_remote") {
		t.Errorf("without leave of the organisation: %s %+v", res.Status, res.Error)
	}
	ran("auto without leave", call(""), "local", "e2b is passed over")
	if n := proxy.count("POST sandboxes"); n != 0 {
		t.Errorf("%d machines were made without leave", n)
	}
	put := haft.SandboxConfig{Type: haft.SandboxE2B, AllowRemote: true}
	if _, err := s.PutSandboxConfig(ctx, root(), put); err != nil {
		t.Fatal(err)
	}
	ran("named", call("e2b"), "e2b", "named by the call")
	ran("auto", call(""), "e2b", "auto")
	ran("local by name", call("local"), "local", "named by the call")
	proxy.set(answers("POST Start", http.StatusServiceUnavailable, false))
	ran("auto when E2B is away", call(""), "local", "e2b was not available")
	if res := call("e2b"); res.Status == haft.StatusSuccess {
		t.Error("a named sandbox that is away was replaced by another")
	}
	if res := call("moon"); res.Status != haft.StatusValidation {
		t.Errorf("an unknown name: %s", res.Status)
	}
}
