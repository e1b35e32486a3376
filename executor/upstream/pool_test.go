package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/upstream"
)

func TestPool_Execute(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", func(s *haft.MCPServer) {
		s.Env = map[string]string{"PLAIN": "as it is", "FILLED": "Bearer {{ TOKEN }}"}
	})
	vars := map[string]string{"TOKEN": "tok-ann"}
	for _, tt := range []struct {
		name, tool, args string
		status           haft.Status
		kind             haft.FailureKind
		want             string // of the value, or in the message
	}{
		{"a text", "echo", `{"x":"hi"}`, haft.StatusSuccess, "", "echo hi"},
		{"no arguments", "echo", "", haft.StatusSuccess, "", "echo None"},
		{"the tool's own failure", "fail", `{"x":"no"}`, haft.StatusError, haft.FailException, "it failed: no"},
		{"a variable", "env", `{"x":"PLAIN"}`, haft.StatusSuccess, "", "as it is"},
		{"a variable of the call", "env", `{"x":"FILLED"}`, haft.StatusSuccess, "", "Bearer tok-ann"},
		{"nothing of ours", "env", `{"x":"HOME"}`, haft.StatusSuccess, "", "not set"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request("one", tt.tool, tt.args)
			req.Env = vars
			res := w.call(req)
			if res.Status != tt.status || res.Error != nil && res.Error.Kind != tt.kind {
				t.Fatalf("status %s, error %+v, want %s %s", res.Status, res.Error, tt.status, tt.kind)
			}
			if res.Error != nil {
				if !strings.Contains(res.Error.Message, tt.want) {
					t.Errorf("the message is %q, want %q in it", res.Error.Message, tt.want)
				}
			} else if got := text(t, res); got != tt.want {
				t.Errorf("the value is %q, want %q", got, tt.want)
			}
			if res.Sandbox.Provider != "process" {
				t.Errorf("it ran in %q", res.Sandbox.Provider)
			}
		})
	}
	req := request("one", "echo", "{}")
	if res := w.call(req); res.Status != haft.StatusError || !strings.Contains(res.Error.Message, "TOKEN") {
		t.Errorf("a call without its variable: %s %+v", res.Status, res.Error)
	}
	req = request("none", "echo", "{}")
	if res := w.call(req); res.Status != haft.StatusError {
		t.Errorf("a call of no server: %s %+v", res.Status, res.Error)
	}
	req = request("one", "echo", "{}")
	req.Env, req.Origin = vars, "another"
	if res := w.call(req); res.Status != haft.StatusDenied {
		t.Errorf("a call of a tool of another origin: %s %+v", res.Status, res.Error)
	}
}

func TestPool_passes_on_progress_and_logs(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", nil)
	var mu sync.Mutex
	var progress []string
	var words strings.Builder
	req := request("one", "slow", `{"x":"short"}`)
	req.Progress = func(raw json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		progress = append(progress, string(raw))
	}
	w.call(req)
	mu.Lock()
	if len(progress) != 3 || progress[2] != `{"progress":3,"total":3}` {
		t.Errorf("progress = %v", progress)
	}
	mu.Unlock()
	req = request("one", "log", "{}")
	req.Stderr = func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		words.Write(b)
	}
	res := w.call(req)
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"[info] a log line\n", "words on stderr\n"} {
		if !strings.Contains(words.String(), want) || !strings.Contains(res.Stderr, want) {
			t.Errorf("logs are %q and %q, want %q in both", words.String(), res.Stderr, want)
		}
	}
}

func TestPool_shares_a_session_and_starts_it_again(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", func(s *haft.MCPServer) { s.Env = map[string]string{"WHO": "{{ WHO }}"} })
	pid := func(who string) string {
		req := request("one", "pid", "{}")
		req.Env = map[string]string{"WHO": who}
		return text(t, w.call(req))
	}
	first := pid("a")
	if again := pid("a"); again != first {
		t.Errorf("a second call got another process: %s, then %s", first, again)
	}
	if other := pid("b"); other == first {
		t.Error("calls with other credentials share a process")
	}
	req := request("one", "die", "{}")
	req.Env = map[string]string{"WHO": "a"}
	if _, err := w.pool.Execute(t.Context(), req); !errors.Is(err, executor.ErrMaybeRan) {
		t.Errorf("a server that dies in a call: %v, want ErrMaybeRan", err)
	}
	// It is left alone for a moment, and then started again.
	for {
		req := request("one", "pid", "{}")
		req.Env = map[string]string{"WHO": "a"}
		res, err := w.pool.Execute(t.Context(), req)
		if err == nil && res.Status == haft.StatusSuccess {
			if text(t, res) == first {
				t.Error("the dead process answered")
			}
			break
		}
		if err == nil && res.Error.Kind != haft.FailBroken {
			t.Fatalf("after its death: %+v", res.Error)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // polls a state that tells nobody when it changes
	}
	w.pool.Drop("acme", "mcp_one")
	if n := w.pool.Sessions(); n != 0 {
		t.Errorf("%d sessions are left of a server that was dropped", n)
	}
}

func TestPool_cancels_there_too(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", nil)
	w.call(request("one", "echo", "{}"))
	ctx, cancel := context.WithCancel(t.Context())
	req := request("one", "slow", `{"x":"cut-me"}`)
	req.Progress = func(json.RawMessage) { cancel() }
	res, err := w.pool.Execute(ctx, req)
	if err != nil || res.Status != haft.StatusCancelled {
		t.Fatalf("Execute = %+v, %v, want cancelled", res, err)
	}
	for !strings.Contains(w.pool.Said(), "cancelled cut-me") {
		if t.Context().Err() != nil {
			t.Fatal("the server was not told")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // polls a state that tells nobody when it changes
	}
	req = request("one", "slow", "{}")
	req.Limits.Wall = haft.Millis(100 * time.Millisecond)
	if res := w.call(req); res.Status != haft.StatusTimeout {
		t.Errorf("a call that takes too long: %s", res.Status)
	}
}

func TestPool_hostile_servers_are_alone_with_it(t *testing.T) {
	w := newWorld(t, upstream.Config{MaxMessage: 4 << 20})
	modes := []string{"huge-list", "circle", "huge-tool", "huge-message", "no-answer", "no-call-answer", "wrong-ids",
		"invalid-json", "stderr-flood", "notification-flood", "die-mid-call", "exit"}
	for _, m := range modes {
		w.add(m, m, func(s *haft.MCPServer) {
			if m == "no-answer" {
				s.Connect = haft.Millis(time.Second)
			}
			s.Env = map[string]string{"KEY": "SECRETKEY123456"}
		})
	}
	const good = 15 // with ten tools each
	for i := range good {
		w.add(fmt.Sprintf("good%d", i), "honest", nil)
	}
	var all sync.WaitGroup
	kinds := make([]haft.FailureKind, len(modes))
	for i, m := range modes {
		all.Go(func() {
			req := request(m, "echo", `{"x":"1"}`)
			req.Limits.Wall = haft.Millis(20 * time.Second)
			if m == "wrong-ids" || m == "no-call-answer" {
				w.call(request("good0", "echo", "{}")) // whatever it takes to start one
				req.Limits.Wall = haft.Millis(5 * time.Second)
			}
			res, err := w.pool.Execute(t.Context(), req)
			switch {
			case errors.Is(err, executor.ErrMaybeRan):
				kinds[i] = haft.FailUnknown
			case err != nil:
				t.Errorf("%s: %v", m, err)
			case res.Error != nil:
				kinds[i] = res.Error.Kind
				if strings.Contains(res.Error.Message, "SECRETKEY") {
					t.Errorf("%s tells a secret: %s", m, res.Error.Message)
				}
			}
		})
	}
	for i := range good {
		all.Go(func() {
			for range 20 {
				if got := text(t, w.call(request(fmt.Sprintf("good%d", i), "echo", `{"x":"on"}`))); got != "echo on" {
					t.Errorf("an honest server said %q", got)
				}
			}
		})
	}
	all.Wait()
	want := map[string][]haft.FailureKind{
		"huge-list": {""}, "circle": {""}, "huge-tool": {""}, "stderr-flood": {""},
		"huge-message":   {haft.FailProtocol, haft.FailUnknown, haft.FailNetwork, haft.FailTimeout},
		"no-answer":      {haft.FailNetwork},
		"no-call-answer": {haft.FailTimeout}, "wrong-ids": {haft.FailTimeout},
		"invalid-json":       {haft.FailUnknown, haft.FailTimeout},
		"notification-flood": {"", haft.FailUnknown, haft.FailTimeout}, "die-mid-call": {haft.FailUnknown},
		"exit": {haft.FailRuntime},
	}
	for i, m := range modes {
		if !slices.Contains(want[m], kinds[i]) {
			t.Errorf("%s: the call ended with %q, want one of %q", m, kinds[i], want[m])
		}
	}
}

func TestPool_List(t *testing.T) {
	w := newWorld(t, upstream.Config{MaxTools: 300, MaxPages: 5})
	for _, tt := range []struct {
		mode     string
		tools    int
		problems string
	}{
		{"honest", 10, ""},
		{"circle", 1, "lead in a circle"},
		{"huge-tool", 1, "bytes"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			w.add(tt.mode, tt.mode, nil)
			l, err := w.pool.List(t.Context(), ann, tt.mode, nil)
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(l.Problems)
			if len(l.Tools) != tt.tools || tt.problems != "" && !strings.Contains(said, tt.problems) ||
				tt.problems == "" && len(l.Problems) > 0 {
				t.Errorf("%d tools and %.300s, want %d and %q", len(l.Tools), said, tt.tools, tt.problems)
			}
			if l.Title != "fixture 1" || l.Protocol == "" {
				t.Errorf("it calls itself %q and speaks %q", l.Title, l.Protocol)
			}
		})
	}
	w.add("huge-list", "huge-list", nil)
	if _, err := w.pool.List(t.Context(), ann, "huge-list", nil); !strings.Contains(haft.MessageOf(err),
		"more than 300 tools: the list is not taken") {
		t.Errorf("List of a server that lists too much: %v", err)
	}
	w.add("gone", "exit", func(s *haft.MCPServer) { s.Env = map[string]string{"KEY": "SECRETKEY123456"} })
	_, err := w.pool.List(t.Context(), ann, "gone", nil)
	if haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), "code 7") ||
		!strings.Contains(haft.MessageOf(err), "cannot start") || strings.Contains(err.Error(), "SECRETKEY") {
		t.Errorf("List of a server that ends at once: %v", err)
	}
}

func TestPool_says_that_a_list_changed(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", func(s *haft.MCPServer) { s.State.Listing = "sha256:other" })
	w.call(request("one", "echo", "{}"))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.changed, "mcp_one") {
		t.Error("nobody was told that the tools are others")
	}
}

func TestPool_bounds_its_sessions(t *testing.T) {
	w := newWorld(t, upstream.Config{PerOrg: 2})
	for i := range 4 {
		name := fmt.Sprintf("s%d", i)
		w.add(name, "honest", nil)
		w.call(request(name, "echo", "{}"))
		if n := w.pool.Sessions(); n > 2 {
			t.Fatalf("there are %d sessions, 2 is the most", n)
		}
	}
}

// TestPool_leaves_no_process connects and disconnects, as often as
// HAFT_MCP_CYCLES says.
func TestPool_leaves_no_process(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are counted in /proc")
	}
	cycles := 20
	if n, err := strconv.Atoi(os.Getenv("HAFT_MCP_CYCLES")); err == nil {
		cycles = n
	}
	w := newWorld(t, upstream.Config{})
	w.add("one", "honest", nil)
	before := children(t)
	seen := map[string]bool{}
	for range cycles {
		seen[text(t, w.call(request("one", "pid", "{}")))] = true
		w.pool.Drop("acme", "mcp_one")
	}
	if len(seen) != cycles {
		t.Errorf("%d cycles had %d processes", cycles, len(seen))
	}
	if after := children(t); after > before {
		t.Errorf("there were %d processes before, and %d after", before, after)
	}
}

// children counts our processes.
func children(t *testing.T) int {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		stat, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

func TestPool_hammer(t *testing.T) {
	w := newWorld(t, upstream.Config{PerOrg: 3})
	for i := range 3 {
		w.add(fmt.Sprintf("s%d", i), "honest", nil)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 20 {
				name := fmt.Sprintf("s%d", (g+i)%3)
				if g == 0 && i%10 == 9 {
					w.pool.Drop("acme", "mcp_"+name)
					continue
				}
				res, err := w.pool.Execute(t.Context(), request(name, "echo", `{"x":"y"}`))
				// One that was dropped in the middle of a call may have run it.
				if err != nil && !errors.Is(err, executor.ErrMaybeRan) {
					t.Errorf("Execute: %v", err)
				}
				if err == nil && res.Status != haft.StatusSuccess && res.Error.Kind != haft.FailBroken &&
					res.Error.Kind != haft.FailNetwork && res.Error.Kind != haft.FailDenied {
					t.Errorf("a call ended with %+v", res.Error)
				}
			}
		})
	}
	all.Wait()
}
