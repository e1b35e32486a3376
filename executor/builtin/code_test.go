package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
)

// codeResult is the value of run_code.
type codeResult struct {
	Status haft.Status     `json:"status"`
	Value  json.RawMessage `json:"value"`
	Stdout string          `json:"stdout"`
	Stderr string          `json:"stderr"`
	Exit   *int            `json:"exit_code"`
	Error  *struct {
		Kind      haft.FailureKind `json:"kind"`
		Type      string           `json:"type"`
		Message   string           `json:"message"`
		Traceback string           `json:"traceback"`
	} `json:"error"`
	Files []string `json:"files"`
	Notes []string `json:"notes"`
}

// codeCase is a program and what becomes of it.
type codeCase struct {
	name, code string
	stdin      string
	files      []map[string]any
	timeout    float64
	limits     haft.Limits

	status haft.Status // "" means success
	value  string      // "" means none
	stdout string      // "*" means anything
	kind   haft.FailureKind
	says   []string // in message or traceback
	hides  []string // nowhere in the value
	notes  string
	quick  time.Duration
	needs  haft.Control // of the sandbox; "" is none in particular
}

// check runs the case.
func (c codeCase) check(t *testing.T, s *builtin.Set, language string) *haft.Result {
	t.Helper()
	args := map[string]any{"language": language, "code": c.code}
	if c.stdin != "" {
		args["stdin"] = c.stdin
	}
	if c.files != nil {
		args["files"] = c.files
	}
	if c.timeout > 0 {
		args["timeout_seconds"] = c.timeout
	}
	began := time.Now()
	res := execute(t, s, "run_code", args, func(r *executor.Request) { r.Limits = c.limits })
	if c.quick > 0 && time.Since(began) > c.quick {
		t.Errorf("it took %v, want less than %v", time.Since(began), c.quick)
	}
	if res.Status != haft.StatusSuccess {
		t.Fatalf("the tool failed: %s %+v", res.Status, res.Error)
	}
	var got codeResult
	if err := json.Unmarshal(res.Value, &got); err != nil {
		t.Fatalf("the value %s: %v", res.Value, err)
	}
	want := c.status
	if want == "" {
		want = haft.StatusSuccess
	}
	if got.Status != want || string(got.Value) != c.value || c.stdout != "*" && got.Stdout != c.stdout {
		t.Errorf("got %.2000s, want status %s, value %s, stdout %q", res.Value, want, c.value, c.stdout)
	}
	if c.kind != "" && (got.Error == nil || got.Error.Kind != c.kind) || c.kind == "" && got.Error != nil {
		t.Fatalf("the error is %+v, want %q", got.Error, c.kind)
	}
	for _, w := range c.says {
		if !strings.Contains(got.Error.Message+"\n"+got.Error.Type+"\n"+got.Error.Traceback, w) {
			t.Errorf("the error %+v does not say %q", got.Error, w)
		}
	}
	for _, w := range c.hides {
		if strings.Contains(string(res.Value), w) {
			t.Errorf("the value %s shows %q", res.Value, w)
		}
	}
	if n := strings.Join(got.Notes, "; "); !strings.Contains(n, c.notes) || c.notes == "" && n != "" {
		t.Errorf("the notes are %q, want %q", n, c.notes)
	}
	return res
}

// seconds is what a case that ought to end soon may take on a slow machine.
const seconds = 20 * time.Second

var pythonCases = []codeCase{
	{name: "value_of_the_last_expression", code: "x = 2\nx * 21", value: `42`},
	{name: "prints", code: "print('héllo')\nprint('err', file=__import__('sys').stderr)", stdout: "héllo\n"},
	{name: "nothing", code: "", value: ""},
	{name: "none", code: "None"},
	{name: "only_a_text", code: "'doc'", value: `"doc"`},
	{name: "assignment_has_no_value", code: "x = 5"},
	{name: "functions_and_classes", code: "import dataclasses\n@dataclasses.dataclass\nclass P:\n  x: int\ndef " +
		"f(n): return P(n)\n[f(1), f(2)]", value: `[{"x":1},{"x":2}]`},
	{name: "is_main", code: "import sys\n[__name__, sys.modules['__main__'].__dict__ is globals()]",
		value: `["__main__",true]`},
	{name: "awaits_at_its_top", code: "import asyncio\nawait asyncio.sleep(0)\nx = 3\nx + await asyncio.sleep(0, 4)",
		value: `7`},
	{name: "a_coroutine_at_the_end", code: "async def main(): return 9\nmain()", value: `9`},
	{name: "reads_input", code: "import sys, subprocess\na = input()\na + sys.stdin.read()", stdin: "één\ntwo\n",
		value: `"ééntwo\n"`},
	{name: "input_of_a_program", code: "import os\nos.read(0, 100)", stdin: "x",
		value: `{"$type":"bytes","base64":"eA=="}`},
	{name: "no_input", code: "import sys\nsys.stdin.read()", value: `""`},
	{name: "reads_files", code: "import helper\nhelper.x + open('data/in.txt').read() + repr(open('b', 'rb').read())",
		files: []map[string]any{{"name": "helper.py", "content": "x = 'h'"}, {"name": "data/in.txt", "content": "ü"},
			{"name": "b", "content": "AP8=", "base64": true}}, value: `"hüb'\\x00\\xff'"`},
	{name: "raises", code: "def f():\n  raise ValueError('no: ü')\nf()", status: haft.StatusError,
		kind: haft.FailException,
		says: []string{"ValueError", "no: ü", `File "code.py", line 3`, `File "code.py", line 2, in f`,
			"raise ValueError"}, hides: []string{"run_code", "evaluate", "haft", "/tmp"}},
	{name: "raises_from", code: "try:\n  1/0\nexcept Exception as e:\n  raise KeyError('k') from e",
		status: haft.StatusError, kind: haft.FailException, says: []string{"KeyError", "ZeroDivisionError"}},
	{name: "syntax", code: "x = 1\ny = (", status: haft.StatusError, kind: haft.FailSource,
		says: []string{"line 2", "SyntaxError"}},
	{name: "NUL", code: "x = '\x00'", status: haft.StatusError, kind: haft.FailSource},
	{name: "too_deep_to_read", code: strings.Repeat("(", 5000) + strings.Repeat(")", 5000), status: haft.StatusError,
		kind: haft.FailSource},
	{name: "exit_0", code: "import sys\nprint('a')\nsys.exit()", stdout: "a\n"},
	{name: "exit_3", code: "exit(3)", status: haft.StatusError, kind: haft.FailExit, says: []string{"status 3"}},
	{name: "exit_with_words", code: "import sys\nsys.exit('sorry')", status: haft.StatusError, kind: haft.FailExit,
		says: []string{"status 1"}},
	{name: "value_is_a_function", code: "print(1)\nlen", stdout: "1\n", notes: "no data"},
	{name: "value_is_itself", code: "a = []\na.append(a)\na", notes: "contains itself"},
	{name: "value_is_a_generator", code: "(x for x in [1])", notes: "no data"},
	{name: "value_is_NaN", code: "float('nan')", value: `{"$type":"float","value":"NaN"}`},
	{name: "value_with_half_a_character", code: "'\\ud800'", notes: "surrogate"},
	{name: "raises_half_a_character", code: "raise ValueError('\\ud800')", status: haft.StatusError,
		kind: haft.FailException},
	{name: "recursion", code: "def f(): f()\nf()", status: haft.StatusError, kind: haft.FailRecursion},
	// hostile
	{name: "exits_at_once", code: "import os\nos._exit(7)", status: haft.StatusError, kind: haft.FailExit,
		says: []string{"status 7"}},
	{name: "exits_at_once_with_0", code: "import os\nos._exit(0)"},
	{name: "dies", code: "import ctypes\nctypes.string_at(0)", status: haft.StatusError, kind: haft.FailSignal},
	{name: "sleeps", code: "import time\nprint('begun', flush=True)\ntime.sleep(600)", timeout: 4,
		status: haft.StatusTimeout, kind: haft.FailTimeout, stdout: "begun\n", says: []string{"4 seconds"},
		quick: seconds},
	{name: "does_not_want_to_die", code: "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile " +
		"True:\n  try: time.sleep(600)\n  except BaseException: pass", timeout: 1, status: haft.StatusTimeout,
		kind: haft.FailTimeout, quick: seconds},
	{name: "floods", code: "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 16))", stdout: "*",
		notes: "stdout are lost"},
	{name: "floods_the_value", code: "'x' * (8 << 20)", status: haft.StatusLimit, kind: haft.FailResult},
	{name: "forks_and_returns", code: "import os\nos.fork()\n5", value: "5"},
	{name: "patches_the_driver", code: "import sys, builtins\nd = sys.modules['__haft_tool__']\nd.failed = d.error " +
		"= d.evaluate = None\nbuiltins.isinstance = None\n1", value: "1"},
	{name: "patches_the_driver_and_raises", code: "import sys\nd = sys.modules['__haft_tool__']\nd.failed = lambda " +
		"e: {'error': 'x' * 100}\n1/0", status: haft.StatusError, kind: haft.FailProtocol},
	{name: "forges_an_answer", code: "import sys\nsys.modules['__haft_tool__'].failed = lambda e: {'error': " +
		"{'kind': 'internal\\u202e', 'message': 'm' * 100000}}\n1/0", status: haft.StatusError, kind: "internal\u202e",
		says: []string{"…"}},
	{name: "an_answer_is_no_value", code: "{'error': {'kind': 'x'}, 'exit': 5}",
		value: `{"error":{"kind":"x"},"exit":5}`},
	{name: "closes_everything", code: "import os\nos.closerange(0, 1000)\n1", status: haft.StatusError,
		kind: haft.FailProtocol},
	{name: "hostile_exception", code: "class E(Exception):\n  def __str__(self): raise SystemExit(9)\nraise E()",
		status: haft.StatusError, kind: haft.FailException, says: []string{"cannot be read"}},
	{name: "hostile_type", code: "class M(type):\n  __name__ = 5\nclass E(Exception, metaclass=M): pass\nraise E('x')",
		status: haft.StatusError, kind: haft.FailException},
	{name: "traces", code: "import sys\nsys.settrace(lambda *a: 1/0)\n1", status: haft.StatusError,
		kind: haft.FailException},
	{name: "ends_by_interrupt", code: "raise KeyboardInterrupt", status: haft.StatusError, kind: haft.FailException,
		says: []string{"KeyboardInterrupt"}},
}

var nodeCases = []codeCase{
	{name: "value_of_the_last_expression", code: "const x = 2;\nx * 21", value: `42`},
	{name: "prints", code: "console.log('héllo'); console.error('e')", stdout: "héllo\n"},
	{name: "nothing", code: ""},
	{name: "object", code: "({a: [1, 'ü']})", value: `{"a":[1,"ü"]}`},
	{name: "requires", code: "const fs = require('fs'); fs.readFileSync('a.txt', 'utf8') + require('./h.js').x",
		files: []map[string]any{{"name": "a.txt", "content": "A"}, {"name": "h.js", "content": "exports.x = 'h'"}},
		value: `"Ah"`},
	{name: "imports", code: "import fs from 'node:fs';\nimport { x } from " +
		"'./h.mjs';\nconsole.log(fs.existsSync('h.mjs'), x);\nexport default {x};", stdout: "true 1\n",
		value: `{"x":1}`,
		files: []map[string]any{{"name": "h.mjs", "content": "export const x = 1"}}},
	{name: "imports_dynamically", code: "import('node:path').then(p => p.basename('/a/b'))", value: `"b"`},
	{name: "awaits_at_its_top", code: "const x = await Promise.resolve(4);\nconsole.log(x)", stdout: "4\n"},
	{name: "awaits_and_ends_with_an_expression", code: "const x = await Promise.resolve(41); x + 1", value: `42`},
	{name: "is_nothing_but_awaited", code: "await Promise.resolve(41);\n", value: `41`},
	{name: "awaits_over_lines", code: "const fs = require('node:fs')\nconst x = await Promise.all([\n  1,\n  " +
		"2,\n])\n// the end; of it\nx.map(\n  (n) => { return n + 1; },\n)", value: `[2,3]`},
	{name: "awaits_in_a_loop", code: "let s = 0\nfor (const n of [1, 2]) { s += await n; }\n({ s })", stdout: ""},
	{name: "awaits_and_a_line_goes_on", code: "const a = await 1\n+ 2\nconsole.log(a)", stdout: "3\n"},
	{name: "awaits_and_a_comment_ends_it", code: "console.log(await 1) // done; process.exit(3)", stdout: "1\n"},
	{name: "awaits_and_declares_last", code: "await 1; async function f() {}", stdout: ""},
	{name: "awaits_and_fails", code: "await 1\nthrow new Error('no')", status: haft.StatusError,
		kind: haft.FailException, says: []string{"no", "code.js:2"}},
	{name: "a_promise_at_the_end", code: "async function main() { await new Promise(r => setTimeout(r, 5)); return " +
		"'done' }\nmain()", value: `"done"`},
	{name: "goes_on_until_nothing_is_left", code: "setTimeout(() => console.log('later'), 20); 1", value: `1`,
		stdout: "later\n"},
	{name: "never_settles", code: "new Promise(() => {})", status: haft.StatusError, kind: haft.FailException,
		says: []string{"never settles"}},
	{name: "is_main", code: "if (require.main === module) console.log(__filename.endsWith('code.js'))",
		stdout: "true\n"},
	{name: "reads_input", code: "require('fs').readFileSync(0, 'utf8')", stdin: "één\n", value: `"één\n"`},
	{name: "reads_input_as_a_stream", code: "let s = ''; process.stdin.on('data', d => s += d).on('end', () => " +
		"console.log(s.length))", stdin: "abc", stdout: "3\n"},
	{name: "throws", code: "function f() {\n  throw new TypeError('no: ü')\n}\nf()", status: haft.StatusError,
		kind: haft.FailException, says: []string{"TypeError", "no: ü", "code.js:2:9", "code.js:4:1"},
		hides: []string{"run_code", "node:", "/tmp"}},
	{name: "throws_in_a_module", code: "import 'node:fs';\n\nthrow new Error('x')", status: haft.StatusError,
		kind: haft.FailException, says: []string{"code.js:3:7"}, hides: []string{"mjs", "file:", "/tmp"}},
	{name: "throws_later", code: "setTimeout(() => { throw new Error('late') }, 1)", status: haft.StatusError,
		kind: haft.FailException, says: []string{"late", "code.js:1:26"}},
	{name: "rejects_and_nobody_looks", code: "Promise.reject(new Error('gone')); 1", status: haft.StatusError,
		kind: haft.FailException, says: []string{"gone"}},
	{name: "throws_no_error", code: "throw {a: 1}", status: haft.StatusError, kind: haft.FailException,
		says: []string{"no Error"}},
	{name: "syntax", code: "let a = 1;\nlet b = (;", status: haft.StatusError, kind: haft.FailSource,
		says: []string{"line 2", "SyntaxError"}, hides: []string{"mjs", "/tmp"}},
	{name: "syntax_in_a_module", code: "import 'node:fs';\nlet b = (;", status: haft.StatusError,
		kind: haft.FailSource},
	{name: "reads_bad_JSON", code: "import 'node:fs';\nJSON.parse('{')", status: haft.StatusError,
		kind: haft.FailException, says: []string{"SyntaxError", "code.js:2"}},
	{name: "timer_at_the_end", code: "setTimeout(() => console.log(1), 1)", stdout: "1\n"},
	{name: "exit_0", code: "console.log('a'); process.exit(0)", stdout: "a\n"},
	{name: "exit_3", code: "process.exit(3)", status: haft.StatusError, kind: haft.FailExit,
		says: []string{"status 3"}},
	{name: "value_is_a_function", code: "(() => 1)", notes: "no data"},
	{name: "value_is_itself", code: "const a = {}; a.a = a; a", notes: "contains itself"},
	{name: "recursion", code: "function f() { f() }; f()", status: haft.StatusError, kind: haft.FailRecursion},
	// hostile
	{name: "sleeps", code: "console.log('begun'); for (;;) {}", timeout: 4, status: haft.StatusTimeout,
		kind: haft.FailTimeout, stdout: "begun\n", quick: seconds},
	{name: "floods", code: "for (let i = 0; i < 64; i++) process.stdout.write('x'.repeat(1 << 16)); undefined",
		stdout: "*", notes: "stdout are lost"},
	{name: "dies", code: "process.kill(process.pid, 'SIGSEGV'); for (;;) {}", status: haft.StatusError,
		kind: haft.FailSignal},
	{name: "patches", code: "Array.prototype.map = null; JSON.stringify = null; 1", value: "1"},
	{name: "hostile_error", code: "const e = new Error('x'); Object.defineProperty(e, 'stack', {get() { throw 1 " +
		"}}); throw e", status: haft.StatusError, kind: haft.FailException, says: []string{"cannot be read"}},
}

var typeScriptCases = []codeCase{
	{name: "value_of_the_last_expression",
		code: "interface P { n: number }\nenum E { A = 20 }\nconst p: P = { n: 1 };\np.n + E.A", value: `21`},
	{name: "throws", code: "interface P {\n  n: number\n}\nfunction f(p: P): never {\n  throw new " +
		"Error('no')\n}\nf({n: 1})", status: haft.StatusError, kind: haft.FailException,
		says: []string{"code.ts:5:9", "code.ts:7:1"}},
	{name: "imports", code: "import * as path from 'node:path';\nconst s: string = " +
		"path.basename('/a/b');\nconsole.log(s);", stdout: "b\n"},
	{name: "main", code: "async function main(): Promise<void> { await Promise.resolve(); console.log('m') }\nmain();",
		stdout: "m\n"},
	{name: "syntax", code: "let x: = 1", status: haft.StatusError, kind: haft.FailSource},
	{name: "sleeps", code: "setInterval((): void => {}, 1000)", timeout: 1, status: haft.StatusTimeout,
		kind: haft.FailTimeout, quick: seconds},
}

var bashCases = []codeCase{
	{name: "prints", code: "echo héllo; echo err >&2", stdout: "héllo\n"},
	{name: "nothing", code: ""},
	{name: "reads_input", code: "cat; read x || echo end", stdin: "één\n", stdout: "één\nend\n"},
	{name: "reads_files", code: "cat d/a.txt", files: []map[string]any{{"name": "d/a.txt", "content": "A"}},
		stdout: "A"},
	{name: "text_is_no_code_of_ours", code: `echo "$(printf '%s' '"; exit 9; $(id)')"`, stdout: "\"; exit 9; $(id)\n"},
	{name: "exit_3", code: "exit 3", status: haft.StatusError, kind: haft.FailExit, says: []string{"status 3"}},
	{name: "command_not_found", code: "no_such_command_here", status: haft.StatusError, kind: haft.FailExit,
		says: []string{"127"}},
	{name: "syntax", code: "if true; then", status: haft.StatusError, kind: haft.FailExit, says: []string{"status 2"}},
	{name: "has_no_channel", code: "echo '{\"value\":1}' >&3; echo ${HAFT_RESULT-unset} ${HAFT_ARGS-unset}",
		stdout: "unset unset\n"},
	{name: "floods", code: "head -c 4000000 /dev/zero | tr '\\0' x", stdout: "*", notes: "stdout are lost"},
	{name: "sleeps", code: "echo begun; sleep 600", timeout: 4, status: haft.StatusTimeout, kind: haft.FailTimeout,
		stdout: "begun\n", quick: seconds},
	{name: "kills_the_driver", code: "kill -KILL $PPID; sleep 600", status: haft.StatusError, kind: haft.FailSignal,
		quick: seconds},
	{name: "leaves_a_process_behind", code: "sleep 600 >/dev/null 2>&1 &\necho ok", stdout: "ok\n", quick: seconds},
}

// confinedCases only make sense where the code is confined.
var confinedCases = map[string][]codeCase{
	"python": {
		{name: "fork_bomb", code: "import os\nwhile True:\n  os.fork()", timeout: 30,
			limits: haft.Limits{Processes: 16}, status: haft.StatusLimit, kind: haft.FailPIDs,
			quick: 2 * seconds, needs: haft.ControlUserNS},
		{name: "memory", code: "a = []\nwhile True: a.append(bytearray(1 << 20))",
			limits: haft.Limits{Memory: 128 << 20}, status: haft.StatusLimit, kind: haft.FailMemory},
		{name: "sees_no_host", code: "import os\n[os.path.exists(p) for p in ('/etc/shadow', '/home', " +
			"'/var/run/docker.sock')]", value: `[false,false,false]`, needs: haft.ControlRoot},
		{name: "no_network", code: "import socket\ntry:\n  socket.create_connection(('1.1.1.1', 53), 2)\n  r = " +
			"True\nexcept OSError:\n  r = False\nr", value: `false`},
	},
	"bash": {
		{name: "disk", code: "head -c 20000000 /dev/zero > big || exit 5", limits: haft.Limits{FileSize: 1 << 20},
			status: haft.StatusError, kind: haft.FailExit},
	},
}

func TestRunCode(t *testing.T) {
	s := newRunner(t, openProcess(t), "process")
	for language, list := range map[string][]codeCase{"python": pythonCases, "javascript": nodeCases,
		"typescript": typeScriptCases, "bash": bashCases} {
		t.Run(language, func(t *testing.T) {
			need(t, language)
			for _, c := range list {
				t.Run(c.name, func(t *testing.T) {
					if res := c.check(t, s, language); c.kind != haft.FailSource && res.Sandbox.Provider != "process" {
						t.Errorf("it ran in %+v", res.Sandbox)
					}
				})
			}
		})
	}
}
