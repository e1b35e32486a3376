package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
	"haft/sandbox/cell"
)

var _ executor.Executor = (*script.Executor)(nil)

func TestExecute_refuses_before_anything_starts(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	ok := executor.Request{Org: "o", Tool: "t", Kind: haft.KindPython, Source: "def f(): pass", Function: "f"}
	for _, c := range []struct {
		name, says string
		change     func(*executor.Request)
	}{
		{"arguments_of_100_MB", "16777216 is the most", func(r *executor.Request) {
			r.Args = json.RawMessage(`{"a":"` + strings.Repeat("x", 100<<20) + `"}`)
		}},
		{"arguments_that_are_no_JSON", "not JSON", func(r *executor.Request) { r.Args = json.RawMessage(`{"a":`) }},
		{"arguments_that_are_no_object", "not an object",
			func(r *executor.Request) { r.Args = json.RawMessage(` [1]`) }},
		{"arguments_of_depth_1000", "200 deep", func(r *executor.Request) {
			r.Args = json.RawMessage(strings.Repeat(" ", 100) + `{"a":` + strings.Repeat("[", 1000) +
				strings.Repeat("]", 1000) + `}`)
		}},
		{"arguments_of_spaces", "not JSON", func(r *executor.Request) { r.Args = json.RawMessage(`   `) }},
		{"source_of_2_MB", "1048576 is the most", func(r *executor.Request) { r.Source = strings.Repeat("#", 2<<20) }},
		{"loader_variable", `the variable LD_PRELOAD is reserved`,
			func(r *executor.Request) { r.Env = map[string]string{"LD_PRELOAD": "x"} }},
		{"python_variable", `the variable PYTHONPATH is reserved`,
			func(r *executor.Request) { r.Env = map[string]string{"PYTHONPATH": "x"} }},
		{"node_variable", `the variable NODE_OPTIONS is reserved`,
			func(r *executor.Request) { r.Env = map[string]string{"NODE_OPTIONS": "x"} }},
		{"shell_variable", `the variable BASH_ENV is reserved`,
			func(r *executor.Request) { r.Env = map[string]string{"BASH_ENV": "x"} }},
		{"path", `the variable PATH is reserved`, func(r *executor.Request) { r.Env = map[string]string{"PATH": "x"} }},
		{"exported_function", "letters, digits",
			func(r *executor.Request) { r.Env = map[string]string{"BASH_FUNC_x%%": "() { :; }"} }},
		{"name_with_equals", "letters, digits", func(r *executor.Request) { r.Env = map[string]string{"A=B": "x"} }},
		{"value_with_NUL", "holds NUL", func(r *executor.Request) { r.Env = map[string]string{"A": "\x00"} }},
		{"too_many_files", "files", func(r *executor.Request) { r.Files = make([]sandbox.File, 10000) }},
		{"file_outside", "", func(r *executor.Request) { r.Files = []sandbox.File{{Name: "../x"}} }},
		{"kind_without_interpreter", "no interpreter", func(r *executor.Request) { r.Kind = haft.KindMCP }},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := ok
			c.change(&req)
			_, err := x.Execute(t.Context(), req)
			if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), c.says) {
				t.Errorf("got %v, want %s that says %q", err, haft.CodeInvalid, c.says)
			}
		})
	}
}

func TestExecute_names_of_ours_may_be_set(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	res := execute(t, x, executor.Request{
		Kind: haft.KindPython,
		Source: "import os\ndef f(): return [os.environ['HAFT_CALL_ID'], 'HAFT_REQUIRE' in os.environ, " +
			"os.environ['PATH']]",
		Env: map[string]string{"HAFT_CALL_ID": "c1"},
	})
	if want := `["c1",false,"` + script.DefaultPath + `"]`; string(res.Value) != want {
		t.Errorf("got %s %+v, want %s", res.Value, res.Error, want)
	}
}

func TestExecute_time_runs_out(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	began := time.Now()
	res := execute(t, x, executor.Request{
		Kind: haft.KindPython, Source: "import time\ndef f():\n  print('x', flush=True)\n  time.sleep(60)",
		Limits: haft.Limits{Wall: haft.Millis(300 * time.Millisecond)},
	})
	if res.Status != haft.StatusTimeout || res.Error.Kind != haft.FailTimeout || res.Stdout != "x\n" {
		t.Errorf("got %s %+v %q", res.Status, res.Error, res.Stdout)
	}
	if d := time.Since(began); d > 90*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestExecute_is_stopped(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for name, c := range map[string]struct {
		cause error
		want  haft.Status
	}{"cancelled": {errors.New("by a person"), haft.StatusCancelled},
		"deadline": {context.DeadlineExceeded, haft.StatusTimeout}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			res, err := x.Execute(ctx, executor.Request{
				Org: "o", Tool: "t", Kind: haft.KindPython, Function: "f",
				Source: "import time\ndef f():\n  print('x', flush=True)\n  time.sleep(60)",
				Stdout: func([]byte) { cancel(c.cause) },
			})
			if err != nil || res.Status != c.want || res.Sandbox.Isolation.Level == "" {
				t.Errorf("got %+v, %v, want %s", res, err, c.want)
			}
			if res, err = x.Execute(ctx, executor.Request{Org: "o", Tool: "t", Kind: haft.KindPython, Function: "f",
				Source: "def f(): pass"}); err != nil || res.Status != c.want {
				t.Errorf("a call that begins too late: %+v, %v, want %s", res, err, c.want)
			}
			if s := res.Sandbox; s.Provider != "none" || s.Isolation.Level != haft.LevelNone {
				t.Errorf("a call that begins too late was confined by %+v", s)
			}
		})
	}
}

func TestExecute_output_is_streamed_and_bounded(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	var mu sync.Mutex
	var out, errs bytes.Buffer
	res := execute(t, x, executor.Request{
		Kind:   haft.KindPython,
		Source: "import sys\ndef f():\n  print('ü' * 1000)\n  print('é' * 10, file=sys.stderr)\n  return 1",
		Limits: haft.Limits{Stdout: 101, Stderr: 1000},
		Stdout: func(b []byte) { mu.Lock(); defer mu.Unlock(); out.Write(b) },
		Stderr: func(b []byte) { mu.Lock(); defer mu.Unlock(); errs.Write(b) },
	})
	if res.Stdout != strings.Repeat("ü", 50) || res.Truncated.Stdout != 2001-101 || out.Len() != 101 {
		t.Errorf("stdout %q, %d cut, %d streamed", res.Stdout, res.Truncated.Stdout, out.Len())
	}
	if res.Stderr != "éééééééééé\n" || errs.String() != res.Stderr || res.Truncated.Stderr != 0 {
		t.Errorf("stderr %q, streamed %q", res.Stderr, errs.String())
	}
}

func TestExecute_gives_back_artifacts(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	res := execute(t, x, executor.Request{Kind: haft.KindPython,
		Source: "import os\ndef f():\n  os.makedirs('out', exist_ok=True)\n  open('out/a.txt', " +
			"'w').write('hello')\n  os.symlink('/etc/passwd', 'out/b')"})
	if res.Truncated.Artifacts != 1 || len(res.Artifacts) != 1 || res.Artifacts[0].Name != "a.txt" ||
		string(res.Artifacts[0].Data) != "hello" {
		t.Errorf("artifacts %+v, %+v", res.Artifacts, res.Error)
	}
}

func TestExecute_calls_find_no_trace_of_each_other(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	src := "import builtins, os, random\nstate = []\ndef f():\n  state.append(1)\n  old = getattr(builtins, 'mark', " +
		"0)\n  builtins.mark = 1\n  open('mark', 'a').write('x')\n  return [len(state), old, " +
		"os.path.getsize('mark'), os.environ.get('MARK'), os.environ.setdefault('MARK', '1') and 0]"
	for range 5 {
		if res := execute(t, x, executor.Request{Kind: haft.KindPython, Source: src}); string(
			res.Value) != `[1,0,1,null,0]` {
			t.Fatalf("got %s %+v", res.Value, res.Error)
		}
	}
	seen := map[string]bool{}
	for range 4 {
		res := execute(t, x, executor.Request{Kind: haft.KindPython,
			Source: "import random, os\ndef f(): return [random.random(), os.getpid()]"})
		if seen[string(res.Value)] {
			t.Errorf("two calls drew the same numbers: %s", res.Value)
		}
		seen[string(res.Value)] = true
	}
}

// TestExecute_reuse_and_client: a process that has the client of one call is not used for another.
func TestExecute_reuse_and_client(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{Reuse: []string{"acme/tool"}})
	for name, second := range map[string]string{"client": "1", "sys": "2"} {
		req := executor.Request{Kind: haft.KindPython, Letta: true, Limits: haft.Limits{Wall: haft.Millis(time.Minute)},
			Source: "n = 0\ndef f():\n  global n\n  n += 1\n  " + name + "\n  return n"}
		for _, want := range []string{"1", second} {
			if res := execute(t, x, req); string(res.Value) != want {
				t.Errorf("%s: got %s %+v, want %s", name, res.Value, res.Error, want)
			}
		}
	}
}

// A file that is an argument cannot be written to, and one process would have to write it twice.
func TestExecute_reuse_and_the_same_file(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{Reuse: []string{"acme/tool"}})
	const at = ".haft/files/file_1/a.txt"
	req := executor.Request{Kind: haft.KindPython, Limits: haft.Limits{Wall: haft.Millis(time.Minute)},
		Source: "def f(x: bytes): return x.decode()", Args: json.RawMessage(`{"x":"file_1"}`),
		Files:    []sandbox.File{{Name: at, Data: []byte("hi"), Mode: 0o644}},
		FileArgs: []executor.FileArg{{At: []string{"x"}, Format: "byte", Path: at}}}
	for range 2 {
		if res := execute(t, x, req); string(res.Value) != `"hi"` {
			t.Errorf("got %s %+v", res.Value, res.Error)
		}
	}
}

func TestExecute_reuse_keeps_one_process(t *testing.T) {
	for kind, src := range map[haft.Kind]string{
		haft.KindPython: "import time\nn = 0\ndef f(wait=0):\n  global n\n  n += 1\n  time.sleep(wait)\n  if n " +
			"== 3: raise ValueError('third')\n  return n",
		haft.KindJavaScript: "let n = 0;\nexport async function f({wait}) { n++; if (wait) await new Promise(r => " +
			"setTimeout(r, wait * 1000)); if (n == 3) throw new Error('third'); return n }",
	} {
		t.Run(string(kind), func(t *testing.T) {
			x := setup(t, kind, script.Config{Reuse: []string{"acme/tool"}})
			req := executor.Request{Kind: kind, Source: src, Limits: haft.Limits{Wall: haft.Millis(10 * time.Second)}}
			for i := 1; i <= 5; i++ {
				res := execute(t, x, req)
				unknownUsage(t, res)
				if i == 3 {
					if res.Error == nil || res.Error.Kind != haft.FailException {
						t.Fatalf("call 3: %s %+v", res.Value, res.Error)
					}
				} else if string(res.Value) != fmt.Sprint(i) {
					t.Fatalf("call %d: got %s %+v", i, res.Value, res.Error)
				}
			}
			other := req
			other.Org = "other"
			if res := execute(t, x, other); string(res.Value) != "1" {
				t.Errorf("another tenant got %s %+v", res.Value, res.Error)
			}
			slow := executor.Request{Kind: kind, Source: src, Args: json.RawMessage(`{"wait":60}`),
				Limits: haft.Limits{Wall: haft.Millis(200 * time.Millisecond)}}
			if res := execute(t, x, slow); res.Status != haft.StatusTimeout {
				t.Errorf("a slow call: %s %+v", res.Status, res.Error)
			} else {
				unknownUsage(t, res)
			}
			if res := execute(t, x, req); string(res.Value) != "1" {
				t.Errorf("after a process that was stopped: %s %+v", res.Value, res.Error)
			}
		})
	}
}

// unknownUsage checks the usage of a call whose process was not its own.
func unknownUsage(t *testing.T, res *haft.Result) {
	t.Helper()
	if cpu, rss := res.Usage.Measured(); cpu != nil || rss != nil || res.Usage.Wall <= 0 {
		t.Errorf("usage is %+v, want a wall-clock time and nothing else", res.Usage)
	}
}

func TestExecute_many_at_once(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{Cells: cell.Config{Most: 4}})
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			res, err := x.Execute(t.Context(), executor.Request{
				Org: fmt.Sprint("org", i%3), Tool: "t", Kind: haft.KindPython, Function: "f",
				Source: "def f(n: int): return n", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)),
			})
			if err != nil || string(res.Value) != fmt.Sprint(i) {
				t.Errorf("call %d: %+v %v", i, res, err)
			}
		})
	}
	wg.Wait()
}

func TestExecute_demands_isolation(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	_, err := x.Execute(t.Context(), executor.Request{
		Org: "o", Tool: "t", Kind: haft.KindPython, Function: "f", Source: "def f(): pass",
		Need: sandbox.Need{Level: haft.LevelNamespaces},
	})
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("got %v, want %s", err, haft.CodeDenied)
	}
}

func TestExecute_an_interpreter_that_stops_working_is_reported_once(t *testing.T) {
	good := pythons(t)[0]
	state := filepath.Join(t.TempDir(), "broken")
	// A provider whose interpreter breaks after it was found.
	provider := breaking{openProcess(t), state}
	var log bytes.Buffer
	x := script.New(t.Context(), provider, "process", newFinder(t), script.Config{
		Hints: map[haft.Kind]string{haft.KindPython: good}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Cells: cell.Config{Starting: 2}, // whatever the number of processors
	})
	defer x.Close()
	began := time.Now()
	for range 10 {
		res := execute(t, x, executor.Request{Kind: haft.KindPython, Source: "def f(): pass"})
		if res.Error == nil || res.Error.Kind != haft.FailRuntime || strings.Contains(res.Error.Message, "/") {
			t.Fatalf("got %s %+v, want %s", res.Status, res.Error, haft.FailRuntime)
		}
	}
	// On a machine that is slow enough it is tried, and reported, again.
	again := int(time.Since(began) / time.Second)
	if n := strings.Count(log.String(), "interpreter does not start"); n < 1 || n > 1+again ||
		!strings.Contains(log.String(), "library is gone") {
		t.Errorf("%d reports:\n%s", n, log.String())
	}
	b, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b); n > 3+2*again {
		t.Errorf("%d starts of a broken interpreter for ten calls", n)
	}
}

// breaking runs something else instead of the interpreter.
type breaking struct {
	sandbox.Provider
	state string
}

// Run implements [sandbox.Provider].
func (b breaking) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	spec.Argv = []string{"/bin/sh", "-c", "printf x >>" + b.state + "; echo library is gone >&2; exit 127"}
	return b.Provider.Run(ctx, spec)
}
