package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/sandbox"
)

// executorFunc is an executor that is a function.
type executorFunc func(ctx context.Context, req executor.Request) (*haft.Result, error)

// Execute implements [executor.Executor].
func (f executorFunc) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	return f(ctx, req)
}

// runnerOver returns run_code over f.
func runnerOver(t testing.TB, f executorFunc) *builtin.Set {
	t.Helper()
	s := builtin.New()
	if err := builtin.RunCode(s, f, builtin.CodeConfig{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRunCode_refuses(t *testing.T) {
	s := runnerOver(t, func(context.Context, executor.Request) (*haft.Result, error) {
		t.Error("it was run")
		return nil, errors.New("it was run")
	})
	file := func(name, content string) []map[string]any {
		return []map[string]any{{"name": name, "content": content}}
	}
	for name, c := range map[string]struct {
		args map[string]any
		says string
	}{
		"language":      {map[string]any{"language": "perl", "code": "1"}, "python, javascript"},
		"too_much_code": {map[string]any{"language": "python", "code": strings.Repeat("#", 2<<20)}, "is the most"},
		"negative_time": {map[string]any{"language": "python", "code": "1", "timeout_seconds": -1}, "timeout_seconds"},
		"endless_time": {map[string]any{"language": "python", "code": "1", "timeout_seconds": 1e300},
			"timeout_seconds"},
		"too_many_files": {map[string]any{"language": "python", "code": "1", "files": make([]map[string]any, 65)},
			"65 files"},
		"no_base64": {map[string]any{"language": "python", "code": "1",
			"files": []map[string]any{{"name": "a", "content": "%", "base64": true}}}, "not base64"},
		"our_files": {map[string]any{"language": "bash", "code": "1", "files": file("./.haft/code.sh", "x")},
			"reserved"},
		"our_directory": {map[string]any{"language": "bash", "code": "1", "files": file("a/../.haft", "x")},
			"reserved"},
		"too_much_input": {map[string]any{"language": "bash", "code": "1", "stdin": strings.Repeat("x", 9<<20)},
			"is the most"},
		"unknown": {map[string]any{"language": "bash", "code": "1", "shell": true}, "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(c.args)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Execute(t.Context(), executor.Request{Tool: "run_code", Args: raw})
			if err != nil || res.Status != haft.StatusValidation || !strings.Contains(res.Error.Message, c.says) {
				t.Errorf("got %+v, %v, want %q", res, err, c.says)
			}
		})
	}
}

func TestRunCode_hands_on_what_the_call_is_about(t *testing.T) {
	var got executor.Request
	s := runnerOver(t, func(_ context.Context, req executor.Request) (*haft.Result, error) {
		got = req
		return &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`{"value":5}`)}, nil
	})
	const code = "'; drop \"\"\" $(x) `y` ${z}"
	for language, kind := range map[string]haft.Kind{"python": haft.KindPython, "javascript": haft.KindJavaScript,
		"typescript": haft.KindJavaScript, "bash": haft.KindBash} {
		res := execute(t, s, "run_code", map[string]any{"language": language, "code": code, "stdin": "in"},
			func(r *executor.Request) {
				r.Env, r.Network, r.Need = map[string]string{"A": "1"}, sandbox.NetworkFull,
					sandbox.Need{Level: haft.LevelKernel}
				r.Limits, r.Principal.User = haft.Limits{Memory: 7}, "ann"
			})
		if got.Kind != kind || got.Org != "acme" || got.Principal.User != "ann" || got.Call != "c_1" ||
			got.Env["A"] != "1" ||
			got.Network != sandbox.NetworkFull || got.Need.Level != haft.LevelKernel ||
			got.Limits != (haft.Limits{Memory: 7}) {
			t.Errorf("%s: the request is %+v", language, got)
		}
		if strings.Contains(got.Source, "drop") {
			t.Errorf("%s: the code is part of the driver", language)
		}
		if string(res.Value) != `{"status":"success","value":5,"stdout":"","stderr":""}` {
			t.Errorf("%s: the value is %s", language, res.Value)
		}
	}
}

func TestRunCode_separates_failures_of_the_code_from_others(t *testing.T) {
	for kind, want := range map[haft.FailureKind]haft.Status{
		haft.FailException: haft.StatusSuccess, haft.FailMemory: haft.StatusSuccess,
		haft.FailTimeout: haft.StatusSuccess, haft.FailProtocol: haft.StatusSuccess,
		haft.FailRuntime: haft.StatusError, haft.FailIsolation: haft.StatusError, haft.FailCancelled: haft.StatusError,
		haft.FailInternal: haft.StatusError,
	} {
		s := runnerOver(t, func(context.Context, executor.Request) (*haft.Result, error) {
			return &haft.Result{Status: haft.StatusError, Value: json.RawMessage("null"),
				Error: &haft.Failure{Kind: kind, Message: "m"}}, nil
		})
		if res := execute(t, s, "run_code", map[string]any{"language": "python", "code": "1"},
			nil); res.Status != want {
			t.Errorf("%s: got %s %s, want %s", kind, res.Status, res.Value, want)
		}
	}
	away := &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
	s := runnerOver(t, func(context.Context, executor.Request) (*haft.Result, error) { return nil, away })
	if res, err := s.Execute(t.Context(), executor.Request{Tool: "run_code",
		Args: json.RawMessage(`{"language":"bash","code":""}`)}); res != nil || !errors.Is(err, away) {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestRunCode_time(t *testing.T) {
	wait := func(ctx context.Context, _ executor.Request) (*haft.Result, error) {
		<-ctx.Done()
		status, kind := haft.StatusCancelled, haft.FailCancelled
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			status, kind = haft.StatusTimeout, haft.FailTimeout
		}
		return &haft.Result{Status: status, Value: json.RawMessage("null"), Stdout: "so far",
			Error: &haft.Failure{Kind: kind, Message: "m"}}, nil
	}
	args := map[string]any{"language": "python", "code": "1", "timeout_seconds": 2.5}
	t.Run("its_own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			res := execute(t, runnerOver(t, wait), "run_code", args, nil)
			if res.Status != haft.StatusSuccess || !strings.Contains(string(res.Value), "the 2.5 seconds") ||
				!strings.Contains(string(res.Value), `"status":"timeout"`) ||
				time.Since(began) != 2500*time.Millisecond {
				t.Errorf("got %s %s after %v", res.Status, res.Value, time.Since(began))
			}
		})
	})
	for name, cause := range map[string]error{"deadline": context.DeadlineExceeded, "stop": errors.New("stop")} {
		t.Run("the_call_s_"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				raw, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				res, err := runnerOver(t, wait).Execute(ctx, executor.Request{Tool: "run_code", Args: raw})
				want := map[string]haft.Status{"deadline": haft.StatusTimeout, "stop": haft.StatusCancelled}[name]
				if err != nil || res.Status != want || res.Stdout != "so far" {
					t.Errorf("got %+v, %v, want %s", res, err, want)
				}
			})
		})
	}
}

func TestRunCode_keeps_what_the_sandbox_says(t *testing.T) {
	need(t, "python")
	s := newRunner(t, openProcess(t), "process")
	var mu sync.Mutex
	var streamed bytes.Buffer
	res := execute(t, s, "run_code", map[string]any{
		"language": "python",
		"code": "import os, sys\nos.makedirs('out', exist_ok=True)\nopen('out/a.txt', " +
			"'w').write('hello')\nos.symlink('/etc/passwd', 'out/b')\nprint('x' * 50000)\nprint('e', " +
			"file=sys.stderr)\nos.environ['WHO']",
	}, func(r *executor.Request) {
		r.Env = map[string]string{"WHO": "ann"}
		r.Stdout = func(b []byte) { mu.Lock(); defer mu.Unlock(); streamed.Write(b) }
	})
	var got codeResult
	if err := json.Unmarshal(res.Value, &got); err != nil {
		t.Fatal(err)
	}
	if string(got.Value) != `"ann"` || got.Stderr != "e\n" || len(got.Stdout) > 17<<10 || len(got.Files) != 1 ||
		got.Files[0] != "a.txt" {
		t.Errorf("got %.500s", res.Value)
	}
	if n := strings.Join(got.Notes, "; "); !strings.Contains(n, "in the middle of stdout") ||
		!strings.Contains(n, "1 files in the directory out") {
		t.Errorf("the notes are %q", n)
	}
	if len(res.Stdout) != 50001 || streamed.Len() != 50001 || len(res.Artifacts) != 1 || res.Usage.Wall == 0 ||
		res.Sandbox.Isolation.Level != haft.LevelNone {
		t.Errorf("the result has %d bytes of stdout, %d streamed, %+v, %+v", len(res.Stdout), streamed.Len(),
			res.Artifacts, res.Sandbox)
	}
}

func TestRunCode_shares_nothing_between_calls(t *testing.T) {
	need(t, "python")
	s := newRunner(t, openProcess(t), "process")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for range 4 {
				res := execute(t, s, "run_code", map[string]any{
					"language": "python",
					"code": "import builtins, os\nold = getattr(builtins, 'mine', None), " +
						"os.path.exists('mine')\nbuiltins.mine = input()\nopen('mine', 'w').close()\n[old[0], " +
						"old[1], builtins.mine]",
					"stdin": strings.Repeat("x", i+1) + "\n",
				}, nil)
				if want := `"value":[null,false,"` + strings.Repeat("x", i+1) +
					`"]`; !strings.Contains(string(res.Value), want) {
					t.Errorf("got %s, want %s", res.Value, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestRunCode_typescript_by_node_itself(t *testing.T) {
	need(t, "typescript")
	s := builtin.New()
	if err := builtin.RunCode(s, newScript(t, openProcess(t), "process"), builtin.CodeConfig{}); err != nil {
		t.Fatal(err)
	}
	res := execute(t, s, "run_code", map[string]any{"language": "typescript", "code": "const x: number = 2; x + 1"},
		nil)
	if v := string(res.Value); !strings.Contains(v, `"value":3`) && !strings.Contains(v, "too old to run TypeScript") {
		t.Errorf("got %s", v)
	}
}
