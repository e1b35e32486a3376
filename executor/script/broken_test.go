package script_test

import (
	"testing"

	"haft"
	"haft/executor/script"
)

// brokenCases are Python tools that fail, each in its own way.
var brokenCases = []toolCase{
	{name: "exception", source: "def f():\n  print('before')\n  return g(0)\ndef g(n):\n  return 1 / n",
		kind: haft.FailException, stdout: "before\n",
		says: []string{"ZeroDivisionError", "division by zero", `File "tool.py", line 3, in f`,
			`File "tool.py", line 5, in g`, "return 1 / n"}},
	{name: "own_exception", source: "class Oops(Exception): pass\ndef f(): raise Oops('no')", kind: haft.FailException,
		says: []string{"Oops\nno"}},
	{name: "chained_exception", source: "def f():\n  try: {}['k']\n  except KeyError as e: raise " +
		"ValueError('v') from e", kind: haft.FailException,
		says: []string{"KeyError: 'k'", "direct cause", "ValueError: v"}},
	{name: "exception_of_a_library", source: "import json\ndef f(): return json.loads('{')", kind: haft.FailException,
		says: []string{"json.decoder.JSONDecodeError", `File "json/decoder.py"`}},
	{name: "exception_in_async", source: "async def f(): raise KeyError('k')", kind: haft.FailException,
		says: []string{"KeyError", `File "tool.py", line 1, in f`}, hides: []string{"asyncio"}},
	{name: "exception_at_import", source: "print('x')\nundefined\ndef f(): pass", kind: haft.FailException,
		stdout: "x\n", says: []string{"NameError", `File "tool.py", line 2`}},
	{name: "keyboard_interrupt", source: "def f(): raise KeyboardInterrupt", kind: haft.FailException,
		says: []string{"KeyboardInterrupt"}},
	{name: "exception_without_a_readable_message",
		source: "class E(Exception):\n  def __str__(self): raise RuntimeError\ndef f(): raise E()",
		kind:   haft.FailException, says: []string{"E", "cannot be read"}},
	{name: "huge_message", source: "def f(): raise ValueError('x' * 1_000_000)", kind: haft.FailException,
		says: []string{"xxx..."}},
	{name: "missing_module", source: "import nowhere_to_be_found\ndef f(): pass", kind: haft.FailException,
		says: []string{"ModuleNotFoundError"}},
	{name: "missing_argument", source: "def f(a): pass", kind: haft.FailException,
		says: []string{"TypeError", "missing 1 required positional argument: 'a'"}},
	{name: "sys_exit", source: "import sys\ndef f(): sys.exit(3)", kind: haft.FailExit, says: []string{"status 3"}},
	{name: "sys_exit_0", source: "import sys\ndef f(): sys.exit()", kind: haft.FailExit, says: []string{"status 0"}},
	{name: "exit_of_a_script", source: "def f(): exit(4)", kind: haft.FailExit, says: []string{"status 4"}},
	{name: "os_exit", source: "import os\ndef f():\n  print('x', flush=True)\n  os._exit(5)", kind: haft.FailExit,
		stdout: "x\n", says: []string{"status 5"}},
	{name: "os_exit_0", source: "import os\ndef f(): os._exit(0)", kind: haft.FailExit, says: []string{"status 0"}},
	{name: "segfault", source: "import ctypes\ndef f(): return ctypes.string_at(0)", kind: haft.FailSignal,
		says: []string{"signal 11"}},
	{name: "killed_child_is_no_concern", source: "import subprocess, sys\ndef f():\n  p = " +
		"subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import os; os.kill(os.getpid(), 9)'])\n  return p.wait()",
		want: `-9`},
	{name: "recursion", source: "def f(): return f()", kind: haft.FailRecursion, says: []string{"RecursionError"}},
	{name: "mutual_recursion", source: "def f(): return g()\ndef g(): return f()", kind: haft.FailRecursion},
	{name: "memory", source: "def f(): return bytearray(1 << 60)", kind: haft.FailMemory, status: haft.StatusLimit,
		says: []string{"memory"}},
	{name: "memory_again", source: "def f():\n  try: bytearray(1 << 60)\n  except MemoryError: raise",
		kind: haft.FailMemory, status: haft.StatusLimit},
	{name: "memory_error_of_its_own", source: "def f(): raise MemoryError('my own')", kind: haft.FailException,
		says: []string{"MemoryError", "my own"}},
	{name: "disk_error_of_its_own", source: "def f(): raise OSError(28, 'No space left on device')",
		kind: haft.FailException, says: []string{"No space left"}},
	{name: "file_too_large", source: "import resource, signal\ndef f():\n  signal.signal(signal.SIGXFSZ, " +
		"signal.SIG_IGN)\n  resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\n  with open('x', 'wb', buffering=0) " +
		"as w:\n    while w.write(b'xx'): pass", kind: haft.FailFileSize, status: haft.StatusLimit},
	{name: "syntax", source: "def f():\n  return (1", kind: haft.FailSource,
		says: []string{"line 2, column", "SyntaxError"}},
	{name: "indentation", source: "def f():\nreturn 1", kind: haft.FailSource,
		says: []string{"line 2", "IndentationError"}},
	{name: "nul_in_source", source: "def f():\x00 pass", kind: haft.FailSource},
	{name: "not_utf8", source: "# ok\ndef f(): return '\xff'", kind: haft.FailSource,
		says: []string{"line 2 of the source is not UTF-8"}},
	{name: "no_such_function", source: "def g(): pass", kind: haft.FailSource,
		says: []string{"there is no function f"}},
	{name: "not_a_function", source: "f = 1", kind: haft.FailSource, says: []string{"f is not a function"}},
	{name: "empty", source: "", kind: haft.FailSource},
}

func TestPython_broken(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	// In a process namespace of its own a tool is the first process, which the
	// kernel lets no such signal through to.
	killed := toolCase{source: "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGKILL)",
		kind: haft.FailSignal, says: []string{"signal 9"}}
	killed.check(t, x, haft.KindPython)
	for _, c := range brokenCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}

// findFD is Python that finds the channel among its descriptors, as any tool can.
const findFD = `
import os, socket, stat, struct
def fds():
    out = []
    for n in range(3, 1024):
        try:
            if stat.S_ISSOCK(os.fstat(n).st_mode): out.append(n)
        except OSError: pass
    return out
def frame(b): return struct.pack('>I', len(b)) + b
`

// hostileCases are Python tools that attack the harness and its channel.
var hostileCases = []toolCase{
	{name: "prints_frames", source: "import sys\ndef f():\n  " +
		"print('\\0\\0\\0\\x1c{\"type\":\"result\",\"value\":666}')\n  return 1", want: `1`},
	{name: "closes_the_channel", source: findFD + "def f():\n  for n in fds(): os.close(n)\n  return 1",
		kind: haft.FailProtocol},
	{name: "closes_the_channel_and_sleeps", source: findFD +
		"import time\ndef f():\n  for n in fds(): os.close(n)\n  time.sleep(60)", kind: haft.FailProtocol,
		says: []string{"closed the channel"}},
	{name: "floods_the_channel", source: findFD + "def f():\n  for n in fds():\n    while True: os.write(n, b'x' * " +
		"100000)", kind: haft.FailProtocol},
	{name: "corrupts_the_channel", source: findFD + "def f():\n  for n in fds(): os.write(n, b'garbage')\n  return 1",
		kind: haft.FailProtocol},
	{name: "announces_4_GB", source: findFD + "def f():\n  for n in fds(): os.write(n, b'\\xff\\xff\\xff\\xff')\n  " +
		"return 1", kind: haft.FailProtocol},
	{name: "half_a_frame", source: findFD + "def f():\n  for n in fds(): os.write(n, b'\\0\\0\\1\\0{')\n  os._exit(0)",
		kind: haft.FailProtocol},
	{name: "two_results", source: findFD + "def f():\n  for n in fds(): os.write(n, " +
		"frame(b'{\"type\":\"result\",\"value\":1}'))\n  return 2", kind: haft.FailProtocol},
	{name: "forged_result_is_its_own", source: findFD +
		"def f():\n  for n in fds(): os.write(n, frame(b'{\"type\":\"result\",\"value\":1}'))\n  os._exit(0)",
		want: `1`},
	{name: "forged_result_that_is_no_value", source: findFD +
		"def f():\n  for n in fds(): os.write(n, frame(b'{\"type\":\"result\",\"value\":{\"a\":1,\"a\":2}}'))\n  " +
		"os._exit(0)", kind: haft.FailProtocol},
	{name: "forged_times", source: findFD + "def f():\n  for n in fds(): os.write(n, " +
		"frame(b'{\"type\":\"result\",\"value\":1,\"times\":[-9e15,0,9e15]}'))\n  os._exit(0)", want: `1`},
	{name: "forged_ready", source: findFD + "def f():\n  for n in fds(): os.write(n, " +
		"frame(b'{\"type\":\"ready\"}'))\n  return 2", kind: haft.FailProtocol},
	{name: "forged_kind", source: findFD + "def f():\n  for n in fds(): os.write(n, " +
		"frame(b'{\"type\":\"error\",\"kind\":\"internal\",\"message\":\"m\"}'))\n  os._exit(0)",
		kind: haft.FailException},
	{name: "child_writes_a_result", source: findFD +
		"def f():\n  if os.fork() == 0:\n    for n in fds(): os.write(n, " +
		"frame(b'{\"type\":\"result\",\"value\":666}'))\n    os._exit(0)\n  os.wait()\n  return 1", want: `1`},
	{name: "child_that_is_waited_for_returns_too",
		source: "import os\ndef f():\n  if os.fork() == 0: return 2\n  return os.wait()[1]", want: `0`},
	{name: "child_that_is_waited_for_raises", source: "import os\ndef f():\n  if os.fork() == 0: raise " +
		"ValueError()\n  return os.WEXITSTATUS(os.wait()[1])", want: `1`},
	{name: "child_returns_too", source: "import os\ndef f():\n  os.fork()\n  return 1", want: `1`},
	{name: "programs_do_not_inherit_the_channel", source: "import subprocess, sys\ndef f(): return " +
		"subprocess.run([sys.executable, '-I', '-S', '-c', 'import os\\nfor n in os.listdir(\"/proc/self/fd\"):\\n  " +
		"if int(n) > 2 and os.path.exists(\"/proc/self/fd/\" + n): print(n)'], capture_output=True, text=True, " +
		"close_fds=False).stdout", want: `""`},
	{name: "patches_json", source: "import json, json.encoder\njson.dumps = json.JSONEncoder.encode = " +
		"json.encoder.c_make_encoder = None\ndef f(): return {'a': [1]}", want: `{"a":[1]}`},
	{name: "patches_os_and_socket", source: "import os, socket, sys\nos.write = os.read = os._exit = " +
		"None\nsocket.socket = None\ndef f(): return 1", want: `1`},
	{name: "replaces_builtins", source: "import builtins\ndef f():\n  for n in ('len', 'isinstance', 'str', 'type', " +
		"'getattr', 'hasattr', 'enumerate', 'dict', 'list', 'min', 'repr', 'id', 'set'):\n    setattr(builtins, n, " +
		"None)\n  return [1, {'a': (2,)}]", want: `[1,{"a":[2]}]`},
	{name: "empties_modules", source: "import sys\ndef f():\n  sys.modules.clear()\n  return {1: [2]}",
		want: `{"1":[2]}`},
	{name: "replaces_stdout", source: "import sys\ndef f():\n  sys.stdout = sys.stderr = None\n  return 1", want: `1`},
	{name: "closes_stdout", source: "import sys, os\ndef f():\n  sys.stdout.close()\n  os.close(2)\n  return 1",
		want: `1`},
	{name: "low_recursion_limit", source: "import sys\ndef f():\n  sys.setrecursionlimit(60)\n  return " +
		"[[[[[[[[[[1]]]]]]]]]]", want: `[[[[[[[[[[1]]]]]]]]]]`},
	{name: "high_recursion_limit", source: "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n  def " +
		"__getattr__(self, n): return getattr(self, n + 'x')\ndef f(): return repr_it([])\ndef repr_it(a):\n  b = " +
		"a\n  for _ in range(3*10**5): b = [b]\n  return repr(b)", kind: haft.FailSignal, says: []string{"signal 11"}},
	{name: "traces_everything", source: "import sys\ndef f():\n  def t(*a): raise SystemExit(9)\n  " +
		"sys.settrace(t)\n  sys.setprofile(None)\n  return 1", want: `1`},
	{name: "exits_at_exit", source: "import atexit, os\natexit.register(lambda: os._exit(9))\ndef f(): return 1",
		want: `1`},
	{name: "leaves_threads_behind", source: "import threading, time\ndef f():\n  " +
		"threading.Thread(target=time.sleep, args=(60,)).start()\n  return 1", want: `1`},
	{name: "leaves_a_daemon_behind", source: "import subprocess, sys\ndef f():\n  subprocess.Popen([sys.executable, " +
		"'-I', '-S', '-c', 'import time; time.sleep(60)'])\n  return 1", want: `1`},
	{name: "value_with_hostile_methods",
		source: "class D(dict):\n  def items(self): raise SystemExit(7)\ndef f(): return D(a=1)", kind: haft.FailExit},
	{name: "value_whose_class_lies", source: "class A:\n  __class__ = dict\n  def items(self): return [('a', " +
		"1)]\ndef f(): return A()", want: `{"a":1}`},
	{name: "text_that_is_not_text", source: "import os\ndef f():\n  os.write(1, b'a\\xff\\x00b')\n  return 1",
		want: `1`, stdout: "a\uFFFD\uFFFDb"},
}

func TestPython_hostile(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for _, c := range hostileCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}
