package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
)

// TestModules_are_the_authors: a caller's file is data. It cannot be imported, and it cannot
// take the place of a file of the tool or lie in a directory of those.
func TestModules_are_the_authors(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	own := []sandbox.File{{Name: "core/menu.py", Data: []byte("x = 1")}, {Name: "helper.py", Data: []byte("x = 2")}}
	run := func(files ...string) (*haft.Result, error) {
		req := executor.Request{
			Kind: haft.KindPython, Tool: "t", Function: "f", Args: json.RawMessage(`{}`), Modules: own,
			Source: "from core.menu import x\nimport helper\ndef f():\n  try:\n    import plugin\n" +
				"    return 'imported'\n  except ImportError:\n    return [x, helper.x]",
		}
		for _, name := range files {
			req.Files = append(req.Files, sandbox.File{Name: name, Data: []byte("x = 'evil'")})
		}
		return x.Execute(t.Context(), req)
	}
	for _, ok := range [][]string{nil, {"plugin.py"}, {"data/core/menu.py", "plugin/__init__.py"}} {
		res, err := run(ok...)
		if err != nil || string(res.Value) != "[1,2]" {
			t.Errorf("with %q: got %v %+v, want [1,2]", ok, res, err)
		}
	}
	for _, bad := range []string{"core/plugin.py", "core/menu.py", "core.py", "helper.py", "helper/__init__.py",
		"Helper.py", "CORE/x.py",
		"helper.cpython-313-x86_64-linux-gnu.so", "core"} {
		if _, err := run(bad); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("with %q: got %v, want that it is refused", bad, err)
		}
	}
}

// TestModules_with_reuse: with one process for all calls, another version of
// the tool gets its own modules.
func TestModules_with_reuse(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{Reuse: []string{"acme/t"}})
	for _, v := range []string{"1", "2", "1"} {
		res := execute(t, x, executor.Request{
			Kind: haft.KindPython, Org: "acme", Tool: "t", Digest: "v" + v, Function: "f", Args: json.RawMessage(`{}`),
			Source:  "import helper\ndef f(): return helper.x",
			Modules: []sandbox.File{{Name: "helper.py", Data: []byte("x = " + v)}},
		})
		if string(res.Value) != v {
			t.Errorf("got %s %+v, want %s", res.Value, res.Error, v)
		}
	}
}

func TestModules_of_Node(t *testing.T) {
	x := setup(t, haft.KindTypeScript, script.Config{})
	file := func(name, text string) sandbox.File { return sandbox.File{Name: name, Data: []byte(text)} }
	res := execute(t, x, executor.Request{
		Kind: haft.KindTypeScript, Tool: "t", Function: "f", Args: json.RawMessage(`{}`),
		Source: "import { a } from './a';\nimport { b } from './lib/b.js';\nimport c from './lib';\n" +
			"import d from './d.json';\nimport { e } from './e.mjs';\n" +
			"export function f() { return [a, b, c, d.n, e, require('./old')]; }",
		Modules: []sandbox.File{
			file("a.ts", "import { b } from './lib/b';\nexport const a: number = b - 1;"),
			file("lib/b.ts", "export enum B { x = 2 }\nexport const b = B.x;"),
			file("lib/index.ts", "import { b } from './b.js';\nexport default b + 1;"),
			file("d.json", `{"n": 4}`), file("e.mjs", "export const e = 5;"), file("old.js", "module.exports = 6;"),
		},
	})
	if string(res.Value) != "[1,2,3,4,5,6]" {
		t.Errorf("got %s %+v", res.Value, res.Error)
	}
	res = execute(t, x, executor.Request{
		Kind: haft.KindTypeScript, Tool: "t", Function: "f", Args: json.RawMessage(`{}`),
		Source:  "import { a } from './a';\nexport function f() { return a; }",
		Modules: []sandbox.File{file("a.ts", "export const a = ;")},
	})
	if res.Error == nil || !strings.Contains(res.Error.Message+res.Error.Traceback, "a.ts") {
		t.Errorf("a module that cannot be read: got %s %+v", res.Value, res.Error)
	}
}

func TestPrograms(t *testing.T) {
	for name, want := range map[string]bool{"sh": true, "": false, "..": false, ".": false, "/bin/sh": false,
		"../bin/sh": false, "sh\x00": false, "no-such-program": false} {
		if got := script.HasSystemProgram(name); got != want {
			t.Errorf("HasSystemProgram(%q) = %v", name, got)
		}
	}
}

// TestPrograms_are_no_oracle: what a tool says about a program gets the same answer whether the
// host has it or not.
func TestPrograms_are_no_oracle(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	message := func(source, name string) string {
		res := execute(t, x, executor.Request{Kind: haft.KindPython, Tool: "t", Function: "f",
			Args: json.RawMessage(`{}`), Source: strings.ReplaceAll(source, "NAME", name)})
		if res.Error == nil {
			t.Fatalf("got %s, want an error", res.Value)
		}
		return strings.ReplaceAll(res.Error.Message, name, "NAME")
	}
	for _, source := range []string{
		"def f(): raise FileNotFoundError(\"'NAME'\")",
		"def f(): raise FileNotFoundError(2, 'No such file or directory', 'NAME')",
		"def f(): open('NAME')",
	} {
		has, lacks := message(source, "ls"), message(source, "no-such-program")
		if has != lacks || strings.Contains(has, "--program") {
			t.Errorf("%s: got %q and %q, want the same without a hint", source, has, lacks)
		}
	}
	got := message("import subprocess\ndef f(): subprocess.run(['NAME'])", "no-such-program")
	if !strings.Contains(got, "--program NAME") {
		t.Errorf("got %q, want a hint", got)
	}
}
