package script_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

// prepared makes ready for one request and executes another, which is the same but
// for what change does.
func prepared(t *testing.T, x *script.Executor, source string, change func(*executor.Request)) *haft.Result {
	t.Helper()
	req := executor.Request{Org: "acme", Tool: "tool", Kind: haft.KindPython, Function: "f", Source: source}
	p := x.Prepare(t.Context(), req)
	defer p.Drop()
	script.Await(p)
	if change != nil {
		change(&req)
	}
	res, err := p.Execute(t.Context(), req)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	return res
}

func TestExecutor_Prepare(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for _, tt := range []struct {
		name, source string
		change       func(*executor.Request)
		value        string
		status       haft.Status
		stderr       string
	}{
		{"a source that is known", "def f(): return 42", nil, "42", haft.StatusSuccess, ""},
		{"arguments that come later", "def f(n: int): return n + 1",
			func(r *executor.Request) { r.Args = json.RawMessage(`{"n": 1}`) }, "2", haft.StatusSuccess, ""},
		{"another source after all", "def f(): return 1", func(r *executor.Request) { r.Source = "def f(): return 2" },
			"2", haft.StatusSuccess, ""},
		{"other limits after all", "def f(): return 3", func(r *executor.Request) { r.Limits.Memory = 300 << 20 }, "3",
			haft.StatusSuccess, ""},
		{"another name of the file", "def f(): return __file__", func(r *executor.Request) { r.Tool = "other" },
			`"other.py"`, haft.StatusSuccess, ""},
		{"what the compiler warns of", "def f():\n  assert (1, 'always')\n  return 4", nil, "4", haft.StatusSuccess,
			"SyntaxWarning"},
		{"a mark before the source", "\ufeffdef f(): return 5", nil, "5", haft.StatusSuccess, ""},
		{"what does not compile", "def f(:", nil, "null", haft.StatusError, ""},
		{"what kills the compiler", "def f(): return " + strings.Repeat("(", 50_000), nil, "null", haft.StatusError,
			""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := prepared(t, x, tt.source, tt.change)
			if string(res.Value) != tt.value || res.Status != tt.status || !strings.Contains(res.Stderr, tt.stderr) {
				t.Errorf("%s %s, error %+v, stderr %q, want %s %s, stderr %q", res.Status, res.Value, res.Error,
					res.Stderr, tt.status, tt.value, tt.stderr)
			}
			if tt.status == haft.StatusError && res.Error.Kind != haft.FailSource {
				t.Errorf("the error is %+v", res.Error)
			}
		})
	}
}

// TestExecutor_Prepare_runs_nothing: a module that notes when it was loaded was
// loaded after it was executed.
func TestExecutor_Prepare_runs_nothing(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	var asked time.Time
	res := prepared(t, x, "import time\nprint('loaded')\nloaded = time.time()\ndef f(): return loaded",
		func(*executor.Request) { asked = time.Now() })
	var loaded float64
	if err := json.Unmarshal(res.Value, &loaded); err != nil || loaded < float64(asked.UnixMicro())/1e6 ||
		res.Stdout != "loaded\n" {
		t.Errorf("loaded at %f, executed at %s, printed %q, %v", loaded, asked, res.Stdout, err)
	}
}

// TestExecutor_Prepare_a_whole_call: what was told ahead is what runs, and nothing
// of it is left in a call that turns out to be another.
func TestExecutor_Prepare_a_whole_call(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	req := executor.Request{Org: "acme", Tool: "tool", Kind: haft.KindPython, Function: "f",
		Source: "import os\ndef f(n: int): return [n, os.environ.get('A'), os.environ.get('B')]",
		Args:   json.RawMessage(`{"n": 1}`), Env: map[string]string{"A": "a"}}
	for _, tt := range []struct {
		name, value string
		change      func(*executor.Request)
	}{
		{"as it was", `[1,"a",null]`, nil},
		{"other arguments", `[2,"a",null]`, func(r *executor.Request) { r.Args = json.RawMessage(`{"n": 2}`) }},
		{"another environment", `[1,null,"b"]`, func(r *executor.Request) { r.Env = map[string]string{"B": "b"} }},
		{"another organisation", `[1,"a",null]`, func(r *executor.Request) { r.Org = "other" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := req
			p := x.Prepare(t.Context(), req)
			defer p.Drop()
			script.Await(p)
			if tt.change != nil {
				tt.change(&req)
			}
			res, err := p.Execute(t.Context(), req)
			if err != nil || string(res.Value) != tt.value {
				t.Errorf("%+v, %v, want %s", res, err, tt.value)
			}
		})
	}
}

// TestExecutor_Prepare_in_vain: what is not executed leaves nothing, whatever it is
// that was made ready.
func TestExecutor_Prepare_in_vain(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for _, req := range []executor.Request{
		{Kind: haft.KindPython, Source: "def f(): return 1"},
		{Kind: haft.KindBash, Source: "echo 1"},
		{Kind: haft.KindPython, Source: "x", Args: json.RawMessage("nonsense")},
		{Kind: "no such kind"},
	} {
		req.Org, req.Tool, req.Function = "acme", "tool", "f"
		p := x.Prepare(t.Context(), req)
		p.Drop()
		p.Drop()
	}
	p := x.Prepare(t.Context(), executor.Request{Org: "acme", Tool: "tool", Kind: haft.KindPython,
		Source: "def f(): return 1", Function: "f"})
	x.Close() // whatever is under way
	p.Drop()
}

// TestExecutor_recent: idle cells know the source of the last call that succeeded,
// and nothing of it is left in a call of another.
func TestExecutor_recent(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	// It calls so often that the last one has a cell that was idle after the first.
	stored := true
	call := func(org, source string) (res *haft.Result) {
		t.Helper()
		for range 4 {
			res = prepared(t, x, source, func(r *executor.Request) { r.Org, r.Stored = org, stored })
			for deadline := time.Now().Add(time.Minute); x.IdleCells(org) < 2; {
				if time.Now().After(deadline) {
					t.Fatal("no cells are idle")
				}
				<-time.After(time.Millisecond)
			}
		}
		return res
	}
	one, two := "x = 1\ndef f(): return sorted(n for n in globals() if n in 'xy')",
		"y = 2\ndef f(): return sorted(n for n in globals() if n in 'xy')"
	for _, source := range []string{one, two, one} {
		if res := call("acme", source); string(res.Value) != `["`+source[:1]+`"]` || res.Timeline.Cell != "hit" {
			t.Errorf("%s gave %s in a %s, %+v", source, res.Value, res.Timeline.Cell, res.Error)
		}
		if !x.Remembers("acme", source[:5]) {
			t.Errorf("%s is not remembered", source)
		}
	}
	call("acme", "z = 3\ndef f(): raise ValueError")
	call("acme", "z = 3\ndef f(: pass")
	call("acme", "z = 3 #"+strings.Repeat("#", 20<<10)+"\ndef f(): return 1")
	call("other", "z = 3\ndef f(): return 1")
	stored = false
	call("acme", "z = 3\ndef f(): return 2") // others of the organisation must not find it
	if x.Remembers("acme", "z = 3") || !x.Remembers("acme", "x = 1") || !x.Remembers("other", "z = 3") {
		t.Error("remembered is another call than the last that succeeded")
	}
	x.Drop("acme")
	if x.Remembers("acme", "x = 1") || !x.Remembers("other", "z = 3") {
		t.Error("Drop forgets the wrong ones")
	}
}
