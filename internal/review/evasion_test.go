package review_test

import (
	"testing"

	"haft"
	"haft/internal/review"
)

// evasions are ways to say eval and os.system without saying it.
var evasions = []struct{ name, source string }{
	{"alias in a function", "def f(s):\n    g = eval\n    return g(s)"},
	{"alias by tuple", "a, b = len, eval\nb(x)"},
	{"alias by walrus", "(e := eval)(x)"},
	{"alias by default", "def f(s, e=eval):\n    return e(s)"},
	{"alias by loop", "for e in [print, eval]:\n    e(x)"},
	{"alias by condition", "e = eval if x else exec\ne(x)"},
	{"alias by or", "e = None or eval\ne(x)"},
	{"alias of a module", "import os\no = os\no.system(x)"},
	{"star import", "from os import *\nsystem(x)"},
	{"other name of the module", "import posix\nposix.system(x)"},
	{"through another module", "import subprocess\nsubprocess.os.system(x)"},
	{"through a module nobody suspects", "import shutil\nshutil.os.system(x)"},
	{"returned by a function", "def get():\n    return eval\nget()(x)"},
	{"returned by a lambda", "(lambda: eval)()(x)"},
	{"in a list", "[eval][0](x)"},
	{"in a dictionary", "{'a': eval}['a'](x)"},
	{"in an attribute", "class A: pass\na = A()\na.e = eval\na.e(x)"},
	{"in a class", "class A:\n    e = eval\nA().e(x)"},
	{"partial", "import functools\nfunctools.partial(eval, x)()"},
	{"map", "list(map(exec, [x]))"},
	{"as a decorator", "@eval\ndef f(): pass"},
	{"as a key", "sorted([x], key=eval)"},
	{"getattr joined", "import os\ngetattr(os, ''.join(['sys', 'tem']))(x)"},
	{"getattr reversed", "import os\ngetattr(os, 'metsys'[::-1])(x)"},
	{"getattr chr", "import os\ngetattr(os, ''.join(chr(c) for c in [115,121,115,116,101,109]))(x)"},
	{"getattr mapped chr", "import os\ngetattr(os, ''.join(map(chr, (115,121,115,116,101,109))))(x)"},
	{"getattr shifted", "import os\ngetattr(os, ''.join(chr(c-1) for c in [116,122,116,117,102,110]))(x)"},
	{"getattr xored", "import os\ngetattr(os, ''.join([chr(c ^ 1) for c in [114,120,114,117,100,108]]))(x)"},
	{"getattr hex", "import os\ngetattr(os, bytes.fromhex('73797374656d').decode())(x)"},
	{"getattr base64", "import os, base64\ngetattr(os, base64.b64decode('c3lzdGVt').decode())(x)"},
	{"getattr rot13", "import os, codecs\ngetattr(os, codecs.decode('flfgrz', 'rot_13'))(x)"},
	{"getattr replaced", "import os\ngetattr(os, 'sysXtem'.replace('X', ''))(x)"},
	{"getattr formatted", "import os\ngetattr(os, '{}{}'.format('sys', 'tem'))(x)"},
	{"getattr percent", "import os\ngetattr(os, '%s%s' % ('sys', 'tem'))(x)"},
	{"getattr fstring", "import os\na = 'sys'\ngetattr(os, f'{a}tem')(x)"},
	{"getattr bytes", "import os\ngetattr(os, bytes([115,121,115,116,101,109]).decode())(x)"},
	{"getattr appended", "import os\ns = 'sys'\ns += 'tem'\ngetattr(os, s)(x)"},
	{"getattr lower", "import os\ngetattr(os, 'SYSTEM'.lower())(x)"},
	{"getattr aliased", "import os\ng = getattr\ng(os, 'sys' + 'tem')(x)"},
	{"getattribute", "import os\nobject.__getattribute__(os, 'system')(x)"},
	{"module getattribute", "import os\nos.__getattribute__('system')(x)"},
	{"attrgetter", "import os, operator\noperator.attrgetter('system')(os)(x)"},
	{"module dict get", "import os\nos.__dict__.get('system')(x)"},
	{"globals", "globals()['__builtins__']['eval'](x)"},
	{"globals get", "globals().get('eval', eval)(x)"},
	{"sys.modules", "import sys\nsys.modules['os'].system(x)"},
	{"sys.modules pieces", "import sys\nsys.modules['o' + 's'].system(x)"},
	{"import pieces", "__import__('o' + 's').system(x)"},
	{"import reversed", "__import__('so'[::-1]).system(x)"},
	{"import aliased", "i = __import__\ni('os').system(x)"},
	{"importlib aliased", "from importlib import import_module as m\nm('os').popen(x)"},
	{"import of builtins", "__import__('builtins').exec(x)"},
	{"builtins attribute", "__builtins__.exec(x)"},
	{"loader", "__loader__.load_module('os').system(x)"},
	{"subclasses", "[c for c in object.__subclasses__() if c.__name__ == 'Popen'][0](x)"},
	{"subclasses by getattr", "getattr(object, '__subcl' + 'asses__')()"},
	{"globals of a function", "(lambda: 0).__globals__['x']"},
	{"globals by getattr", "getattr(f, '__globals__')"},
	{"frame", "import sys\nsys._getframe().f_builtins['eval'](x)"},
	{"full width letters", "ｅｘｅｃ(x)"},
	{"conditional shadow", "if 0:\n    eval = print\neval(x)"},
	{"late shadow", "eval(x)\ndef eval(y): pass"},
	{"shadow elsewhere", "def f():\n    eval = print\n    eval(1)\neval(x)"},
	{"exec of code in a constant", "exec('import os\\nos.system(input())')"},
	{"exec of exec", "exec(\"exec('eval(input())')\")"},
	{"exec of compile of decoded", "import base64\nexec(compile(base64.b64decode('aW1wb3J0IG9z'), 'x', 'exec'))"},
	{"exec of marshal", "import marshal\nexec(marshal.loads(b'..'))"},
	{"exec of joined codes", "exec(''.join(map(chr, [112, 97, 115, 115])))"},
	{"setattr and call", "import os\nclass A: pass\nsetattr(A, 'f', os.system)\nA.f(x)"},
	{"thread", "import threading, os\nthreading.Thread(target=os.system, args=(x,)).start()"},
	{"shell by variable", "import subprocess\nt = True\nsubprocess.run(x, shell=t)"},
	{"popen of a shell", "import subprocess\nsubprocess.Popen(['bash', '-lc', x])"},
	{"type made by hand", "type('X', (), {'e': eval})"},
	{"await", "import asyncio\nasync def f(c):\n    await asyncio.subprocess.create_subprocess_shell(c)"},
	{"given module", "def f(x):\n    return os.system(x)"},
	{"given sys.modules", "def f(x):\n    sys.modules['subprocess'].getoutput(x)"},
	{"given asyncio", "async def f(x):\n    await asyncio.create_subprocess_shell(x)"},
	{"given asyncio with a shell", "async def f(x):\n    await asyncio.create_subprocess_exec('sh', '-c', x)"},
	{"eval before it is shadowed", "def f(x):\n    eval(x)\nf(1)\neval = None"},
	{"given module by alias", "def f(x):\n    o = os\n    o.popen(x)"},
	{"given module by getattr", "def f(x):\n    getattr(os, 'sys' + 'tem')(x)"},
	{"given module by globals", "def f(x):\n    x.os\n    globals()['os'].system(x)"},
	{"given module in a constant", "def f(x):\n    exec('os.system(x)')"},
	{"given module in a conditional shadow", "if 0:\n    os = None\ndef f(x):\n    os.system(x)"},
	{"given module before it is shadowed", "def f(x):\n    os.system(x)\nf(1)\nos = None"},
	{"given module through another", "def f(x):\n    asyncio.base_events.os.system(x)"},
	{"given module as a default", "def f(x, o=os):\n    o.system(x)"},
	{"given module deleted", "def f(x):\n    os.system(x)\nf(1)\ndel os"},
	{"given module in a local function", "def f(x):\n    def g():\n        os.system(x)\n    g()"},
	{"deep", "import os\ngetattr(os, " + deep("'s'", 90) + ")(x)"},
}

// TestEvasion: each must be at least high, which is what waits for a person.
func TestEvasion(t *testing.T) {
	r := review.New(review.Config{Python: python(t)})
	for _, tt := range evasions {
		t.Run(tt.name, func(t *testing.T) {
			rep, err := r.Review(t.Context(), haft.KindPython, tt.source+"\n")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range rep.Findings {
				if f.Severity.AtLeast(haft.SeverityHigh) && f.Rule != "source-unreadable" {
					return
				}
			}
			t.Errorf("it got through: %q\n%s", listed(rep), tt.source)
		})
	}
}

// deep puts an expression into n conditions.
func deep(s string, n int) string {
	for range n {
		s = "(" + s + " if y else 'z')"
	}
	return s
}
