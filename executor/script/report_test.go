package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
)

// reported runs f of a source and returns its reports.
func reported(t *testing.T, x *script.Executor, req executor.Request) (*haft.Result, []string) {
	t.Helper()
	var all []string
	req.Progress = func(raw json.RawMessage) { all = append(all, string(raw)) }
	return execute(t, x, req), all
}

// reportCases are tools that report. The first and the last report are passed on.
var reportCases = []struct {
	name   string
	kind   haft.Kind
	source string
	value  string
	want   []string // nil means that only the last counts
	last   string
}{
	{name: "python", kind: haft.KindPython, source: "import haft\ndef f():\n  haft.progress(1, 4, 'a\\x00\"ä')\n" +
		"  haft.progress(2)\n  haft.progress(4.5, 9)\n  return 1", value: `1`,
		want: []string{`{"progress":1,"total":4,"message":"a�\"ä"}`, `{"progress":4.5,"total":9}`}},
	{name: "python_long_text", kind: haft.KindPython, source: "from haft import progress\ndef f():\n" +
		"  progress(1, text='x' * 5000)", value: `null`,
		want: []string{`{"progress":1,"message":"(a text of 5000 characters)"}`}},
	{name: "python_not_a_number", kind: haft.KindPython, source: "import haft\ndef f():\n" +
		"  for x in ('x', float('nan')):\n    try: haft.progress(x)\n    except ValueError: print('no')", value: `null`},
	{name: "python_threads", kind: haft.KindPython, source: "import haft, threading\ndef f():\n" +
		"  def g():\n    for i in range(200): haft.progress(i)\n  all = " +
		"[threading.Thread(target=g) for _ in range(4)]\n  [t.start() for t in all]; [t.join() for t in all]\n  haft.progress(7, 7)", value: `null`,
		last: `{"progress":7,"total":7}`},
	{name: "python_thread_that_stays", kind: haft.KindPython, source: "import haft, threading\ndef f():\n" +
		"  def g():\n    while True: haft.progress(1)\n  threading.Thread(target=g, daemon=True).start()\n  return 5",
		value: `5`, last: `{"progress":1}`},
	{name: "python_child", kind: haft.KindPython, source: "import haft, os\ndef f():\n  pid = os.fork()\n" +
		"  if not pid:\n    haft.progress(1); os._exit(7)\n  return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", value: `7`},
	{name: "python_generator", kind: haft.KindPython, source: "def f():\n  yield 1\n  yield None\n  yield {'a': [2.5]}",
		value: `[1,null,{"a":[2.5]}]`, want: []string{`{"progress":1,"item":1}`, `{"progress":2,"item":null}`,
			`{"progress":3,"item":{"a":[2.5]}}`}},
	{name: "python_async_generator", kind: haft.KindPython, source: "import asyncio\nasync def f():\n" +
		"  for i in range(2):\n    await asyncio.sleep(0)\n    yield i", value: `[0,1]`,
		want: []string{`{"progress":1,"item":0}`, `{"progress":2,"item":1}`}},
	{name: "python_empty_generator", kind: haft.KindPython, source: "def f():\n  return\n  yield", value: `[]`},
	{name: "python_many_items", kind: haft.KindPython, source: "def f(): return ('x' for _ in range(5000))",
		value: "[" + strings.Repeat(`"x",`, 4999) + `"x"]`, last: `{"progress":1000,"item":"x"}`},
	{name: "python_large_item", kind: haft.KindPython, source: "def f():\n  yield 'x' * 40000\n  yield 1",
		value: `["` + strings.Repeat("x", 40000) + `",1]`, want: []string{`{"progress":2,"item":1}`}},
	{name: "javascript", kind: haft.KindJavaScript, source: "const { progress } = require('haft');\n" +
		"exports.f = () => { progress(1, 2, 'a'); progress(2, 2); try { progress('x') } catch (e) { return e.name } }",
		value: `"RangeError"`, want: []string{`{"progress":1,"total":2,"message":"a"}`, `{"progress":2,"total":2}`}},
	{name: "typescript_module", kind: haft.KindTypeScript, source: "import { progress } from \"haft\";\n" +
		"const one = await Promise.resolve(1);\nexport function f(): number { progress(one); return one }", value: `1`,
		want: []string{`{"progress":1}`}},
	{name: "javascript_global", kind: haft.KindJavaScript, source: "exports.f = () => haft.progress(3)", value: `null`,
		want: []string{`{"progress":3}`}},
	{name: "javascript_generator", kind: haft.KindJavaScript, value: `[1,null]`,
		source: "exports.f = function* () { yield 1; yield null }", want: []string{`{"progress":1,"item":1}`, `{"progress":2,"item":null}`}},
	{name: "typescript_async_generator", kind: haft.KindTypeScript, source: "export async function* f() { yield 1; " +
		"await null; yield 'ä' }", value: `[1,"ä"]`,
		want: []string{`{"progress":1,"item":1}`, `{"progress":2,"item":"ä"}`}},
	{name: "bash", kind: haft.KindBash, source: "haft-progress 1 3 two  words\n(haft-progress 2 3 $'a\\nb\\036c')\n" +
		"printf '{\"a\":' >&$HAFT_RESULT\nbash -c 'haft-progress 3 3'\necho '1}' >&$HAFT_RESULT\n", value: `{"a":1}`,
		want: []string{`{"progress":1,"total":3,"message":"two words"}`, `{"progress":3,"total":3}`}},
	{name: "bash_nonsense", kind: haft.KindBash, source: "haft-progress\nhaft-progress x y z\nhaft-progress inf\n" +
		"printf '\\036\\n\\036' >&$HAFT_RESULT\necho done", value: `"done"`},
	{name: "bash_long_text", kind: haft.KindBash,
		source: "haft-progress 1 2 $(printf 'x%.0s' {1..9000})\necho 1 >&$HAFT_RESULT", value: `1`, want: []string{`{"progress":1,"total":2,"message":"(a text that is too long)"}`}},
}

func TestReports(t *testing.T) {
	for _, c := range reportCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, got := reported(t, setup(t, c.kind, script.Config{}), executor.Request{Kind: c.kind, Source: c.source})
			if res.Status != haft.StatusSuccess || string(res.Value) != c.value {
				t.Errorf("got %s %.100s %+v", res.Status, res.Value, res.Error)
			}
			if c.last != "" {
				if len(got) == 0 || got[len(got)-1] != c.last {
					t.Errorf("the last of %d reports is not %s", len(got), c.last)
				}
				return
			}
			// On a loaded machine none may be left out.
			for _, w := range c.want {
				if !slices.Contains(got, w) {
					t.Errorf("reports are %q, want %s", got, w)
				}
			}
			if len(c.want) == 0 && len(got) > 0 {
				t.Errorf("reports are %q, want none", got)
			}
		})
	}
}

// Reports are bounded, whatever the tool does, and a tool that writes nonsense fails.
func TestReports_of_an_attacker(t *testing.T) {
	const send = "import os\ndef send(b):\n  b = b'{\"type\":\"progress\"' + b + b'}'\n" +
		"  os.write(100, len(b).to_bytes(4, 'big') + b)\n"
	for name, c := range map[string]struct {
		source string
		kind   haft.FailureKind // "" means success
	}{
		"flood": {source: "import haft, time\ndef f():\n  end = time.time() + 0.5\n  n = 0\n" +
			"  while time.time() < end:\n    haft.progress(n); n += 1\n  haft.progress(-1)"},
		"items":     {source: send + "def f():\n  for i in range(5000): send(b',\"progress\":1,\"value\":1')"},
		"no number": {source: send + "def f(): send(b'')", kind: haft.FailProtocol},
		"a text":    {source: send + "def f(): send(b',\"progress\":\"1\"')", kind: haft.FailProtocol},
		"infinite":  {source: send + "def f(): send(b',\"progress\":1e999')", kind: haft.FailProtocol},
		"large": {source: send + "def f(): send(b',\"progress\":1,\"message\":\"' + b'x' * 9000 + b'\"')",
			kind: haft.FailProtocol},
		"large item": {source: send + "def f(): send(b',\"progress\":1,\"value\":\"' + b'x' * 40000 + b'\"')",
			kind: haft.FailProtocol},
		"half a frame": {source: send + "def f(): os.write(100, b'\\x00\\x00')", kind: haft.FailProtocol},
		"endless":      {source: "def f():\n  while True: yield 'x' * 100000", kind: haft.FailResult},
		"raises":       {source: "def f():\n  yield 1\n  raise ValueError('v')", kind: haft.FailException},
		"no data":      {source: "def f(): yield object()", kind: haft.FailValue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			res, got := reported(t, setup(t, haft.KindPython, script.Config{}),
				executor.Request{Kind: haft.KindPython, Source: c.source})
			if kind := kindOf(res); kind != c.kind {
				t.Errorf("got %s %.100s %+v, want %q", res.Status, res.Value, res.Error, c.kind)
			}
			if most := 1002 + int(time.Since(began)/(40*time.Millisecond)); len(got) > most {
				t.Errorf("%d reports were passed on, want at most %d", len(got), most)
			}
			if name == "flood" && (len(got) > 2+int(time.Since(began)/(40*time.Millisecond)) ||
				got[len(got)-1] != `{"progress":-1}`) {
				t.Errorf("%d reports of a flood, the last is %s", len(got), got[len(got)-1])
			}
		})
	}
}

// kindOf returns why a call failed.
func kindOf(res *haft.Result) haft.FailureKind {
	if res.Error == nil {
		return ""
	}
	return res.Error.Kind
}

// Output is passed on in whole characters.
func TestOutput_is_passed_on_in_whole_characters(t *testing.T) {
	var got []string
	res := execute(t, setup(t, haft.KindPython, script.Config{}), executor.Request{Kind: haft.KindPython,
		Source: "import os, time\ndef f():\n  for b in '€ä'.encode() + b'\\xe2':\n    os.write(1, bytes([b]))\n" +
			"    time.sleep(0.01)",
		Stdout: func(b []byte) { got = append(got, string(b)) }})
	if all := strings.Join(got, "|"); strings.Trim(strings.ReplaceAll(all, "€|ä", "€ä"), "|") != "€ä|\xe2" {
		t.Errorf("got %q, result %q", all, res.Stdout)
	}
}

// A tool that is stopped cleans up in its grace time, and its call is a timeout all the same. The tools wait in
// short steps: a signal that comes just before a system call does not interrupt it, nor does one that comes before
// a shell starts its program.
func TestStopped_tools_clean_up(t *testing.T) {
	for name, c := range map[string]struct {
		kind   haft.Kind
		source string
	}{
		"python": {haft.KindPython, "import time\ndef f():\n  try:\n    print('go')\n" +
			"    while True: time.sleep(0.01)\n  finally:\n    time.sleep(0.1)\n    print('bye')"},
		"python with": {haft.KindPython, "import contextlib, time\n@contextlib.contextmanager\ndef m():\n" +
			"  try: yield\n  finally: print('bye')\ndef f():\n  with m():\n" +
			"    print('go')\n    while True: time.sleep(0.01)"},
		"python async": {haft.KindPython, "import asyncio\nasync def f():\n  try:\n    print('go')\n" +
			"    while True: await asyncio.sleep(0.01)\n  finally:\n    await asyncio.sleep(0.1)\n    print('bye')"},
		"python generator": {haft.KindPython, "import time\ndef f():\n  try:\n    yield 1\n" +
			"    print('go')\n    while True: time.sleep(0.01)\n  finally: print('bye')"},
		"python value": {haft.KindPython, "import time\ndef f():\n  try:\n    print('go')\n" +
			"    while True: time.sleep(0.01)\n  except SystemExit:\n    print('bye')\n    return 1"},
		"javascript": {haft.KindJavaScript, "exports.f = () => new Promise((done) => { setTimeout(done, 60000);\n" +
			"  process.on('SIGTERM', () => { console.log('bye'); done(1) }); console.log('go') })"},
		"bash": {haft.KindBash, "trap 'sleep 0.1; echo bye; exit 0' TERM\necho go\nwhile :; do sleep 0.01; done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			res, err := setup(t, c.kind, script.Config{}).Execute(ctx, executor.Request{Kind: c.kind, Source: c.source,
				Org: "acme", Tool: "tool", Function: "f", Limits: haft.Limits{Grace: haft.Millis(30 * time.Second)},
				Stdout: func(b []byte) {
					if bytes.Contains(b, []byte("go")) {
						end(context.DeadlineExceeded) // it is at work, however slow the machine is
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			if res.Status != haft.StatusTimeout || res.Stdout != "go\nbye\n" {
				t.Errorf("got %s, printed %q, %+v", res.Status, res.Stdout, res.Error)
			}
		})
	}
}

// A tool that was cancelled, and cleans up, ends when it is killed.
func TestKilled_tools_do_not_clean_up(t *testing.T) {
	for name, c := range map[string]struct {
		kind   haft.Kind
		source string
	}{
		"python": {haft.KindPython, "import time\ndef f():\n  try:\n    print('up', flush=True)\n" +
			"    while True: time.sleep(0.01)\n  finally:\n    print('bye', flush=True)\n    time.sleep(60)"},
		"bash": {haft.KindBash, "trap 'echo bye; sleep 60' TERM\necho up\nwhile :; do sleep 0.01; done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := setup(t, c.kind, script.Config{})
			ctx, kill := sandbox.WithKill(t.Context())
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var killed time.Time
			res, err := x.Execute(ctx, executor.Request{Org: "acme", Tool: "tool", Function: "f", Kind: c.kind,
				Source: c.source, Limits: haft.Limits{Wall: haft.Millis(time.Minute), Grace: haft.Millis(time.Minute)},
				Stdout: func(b []byte) {
					if cancel(); strings.Contains(string(b), "bye") {
						killed = time.Now()
						kill()
					}
				}})
			if err != nil || res.Status != haft.StatusCancelled {
				t.Fatalf("got %+v, %v", res, err)
			}
			if took := time.Since(killed); took > 40*time.Second {
				t.Errorf("it ended %s after it was killed", took)
			}
		})
	}
}

// A child that the tool forked dies of SIGTERM as it would without a harness.
func TestPython_children_have_no_handler(t *testing.T) {
	res := execute(t, setup(t, haft.KindPython, script.Config{}), executor.Request{Kind: haft.KindPython, Source: `
import os, signal, time
def f():
    pid = os.fork()
    if not pid:
        try: time.sleep(60)
        finally: os._exit(0)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
`})
	if want := fmt.Sprint(-15); string(res.Value) != want {
		t.Errorf("the child ended with %s, want %s: %+v", res.Value, want, res.Error)
	}
}
