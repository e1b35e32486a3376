package toolsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"haft"
	"haft/app"
	"haft/internal/skiptest"
	"haft/sandbox/local"
	"haft/schema"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// openOn returns a system that runs Python by the interpreter at hint.
func openOn(t testing.TB, hint string) *app.App {
	t.Helper()
	cfg := app.Config{Sandbox: "local", Local: local.Config{Dir: t.TempDir(), AllowReduced: true}}
	if hint != "" {
		cfg.Interpreters = map[haft.Kind]string{haft.KindPython: hint}
	}
	a, err := app.Open(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := a.Runtime(t.Context(), haft.KindPython); err != nil {
		skiptest.Lacking(t, "python", err.Error())
	}
	return a
}

// install makes a virtual environment with packages and opens a system on it.
// Names are paths below site-packages. With pydantic it has that as well.
func install(t testing.TB, pydantic bool, packages map[string]string) *app.App {
	t.Helper()
	venv := visible(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	python, from := "", ""
	if pydantic {
		found, err := filepath.Glob("../../.haft/testenv/lib/python3.*/site-packages")
		if err == nil && len(found) == 1 {
			from = found[0]
			python, err = filepath.EvalSymlinks("../../.haft/testenv/bin/python")
		}
		if err != nil || from == "" {
			skiptest.Lacking(t, "pydantic", "the environment of real packages is missing: run scripts/setup test")
		}
	} else {
		rt, err := openOn(t, "").Runtime(t.Context(), haft.KindPython)
		if err != nil {
			t.Fatal(err)
		}
		python = rt.Argv[0]
		from = "lib/python" + rt.Version[:strings.LastIndexByte(rt.Version, '.')] + "/site-packages"
	}
	site := filepath.Join(venv, "lib", filepath.Base(filepath.Dir(from)), "site-packages")
	write(t, filepath.Join(venv, "pyvenv.cfg"), "home = "+filepath.Dir(python)+"\n")
	for name, text := range packages {
		write(t, filepath.Join(site, name), text)
	}
	if err := os.Mkdir(filepath.Join(venv, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(python, filepath.Join(venv, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	if pydantic {
		for _, name := range []string{"pydantic", "pydantic_core", "annotated_types", "typing_inspection"} {
			if err := os.CopyFS(filepath.Join(site, name), os.DirFS(filepath.Join(from, name))); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(filepath.Join(from, "typing_extensions.py"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(site, "typing_extensions.py"), string(text))
	}
	return openOn(t, venv)
}

// visible makes a directory that a sandbox can show where it is: not below /tmp
// and /work, which every sandbox has for itself.
func visible(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "haft-app-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDerive_imported runs testdata/imported/*.txtar. A case has packages below
// site/, tool.py, and schema.json or error. One whose name begins with pydantic
// has Pydantic installed.
func TestDerive_imported(t *testing.T) {
	files, err := filepath.Glob("testdata/imported/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are %d cases, %v", len(files), err)
	}
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprintf("pydantic=%v", with), func(t *testing.T) {
			var cases []string
			packages := map[string]string{}
			for _, f := range files {
				if strings.HasPrefix(filepath.Base(f), "pydantic") != with {
					continue
				}
				cases = append(cases, f)
				for name, text := range sections(t, f) {
					if name, ok := strings.CutPrefix(name, "site/"); ok {
						packages[name] = text
					}
				}
			}
			a := install(t, with, packages)
			for _, f := range cases {
				t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { imported(t, a, f) })
			}
		})
	}
}

func sections(t *testing.T, file string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range archive.Files {
		all[f.Name] = string(f.Data)
	}
	return all
}

func imported(t *testing.T, a *app.App, file string) {
	all := sections(t, file)
	src := app.Source{Kind: haft.KindPython, Text: []byte(all["tool.py"])}
	tool, err := a.Prepare(t.Context(), src, schema.Options{DescriptionsOptional: true}, haft.Output{})
	name, got := "schema.json", ""
	if err != nil {
		name, got = "error", err.Error()+"\n"
	} else {
		text, err := schema.Encode(tool.Derived.Parameters)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			t.Fatal(err)
		}
		got = b.String() + "\n"
	}
	want, ok := all[name]
	if ok && want == got {
		return
	}
	if !*update {
		t.Fatalf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
	}
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive.Files = slices.DeleteFunc(archive.Files,
		func(f txtar.File) bool { return f.Name == "schema.json" || f.Name == "error" })
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got)})
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hostile are modules that do not want to be looked at. Each has a type T, as far
// as it gets there.
var hostile = []struct {
	name, source string
	want         string // in the message; "" for the schema of T
}{
	{"prints", "print('x' * 100000, flush=True)\nimport sys\nsys.stderr.write('y')\n", ""},
	{"prints_json", "print('{\"schema\": {\"type\": \"null\"}}', flush=True)\n", ""},
	{"leaves_a_fork", "import os\nos.fork()\n", ""},
	{"leaves_a_thread", "import threading, time\nthreading.Thread(target=lambda: time.sleep(600)).start()\n", ""},
	{"leaves_a_daemon", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n", ""},
	{"exits", "import sys\nsys.exit('bye')\n", "importing the module raised SystemExit: bye"},
	{"exits_at_once", "import os\nos._exit(0)\n", "left no answer that makes sense"},
	{"dies", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "ends the interpreter"},
	{"raises", "raise ValueError('see ' + __file__)\n", "importing the module raised ValueError"},
	{"raises_text", "raise ValueError('no licence')\n", "importing the module raised ValueError: no licence"},
	{"raises_what_cannot_be_shown", "class E(BaseException):\n    def __str__(self):\n        raise " +
		"SystemExit\nraise E\n", "importing the module raised E"},
	{"sleeps", "import time\ntime.sleep(600)\n", "takes longer than 3s"},
	{"spins", "while True:\n    pass\n", "takes longer than 3s"},
	{"eats_memory", "x = []\nwhile True:\n    x.append(bytearray(1 << 22))\n", "importing the module "},
	{"forks_for_ever", "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
		"importing the module "},
	{"writes_garbage", "import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'\\x00[[[[')\n    " +
		"except OSError:\n        pass\n", "left no answer that makes sense"},
	{"writes_much", "import os\nfor fd in range(3, 20):\n    try:\n        while True:\n            os.write(fd, " +
		"b'[' * 65536)\n    except OSError:\n        pass\n", "importing the module "},
	{"forges_nonsense", forge(`{"schema": {"type": 7}}`), "is not valid"},
	{"forges_a_reference", forge(`{"schema": {"$ref": "https://example.com/x"}}`), "refers to something else"},
	{"forges_a_loop", forge(`{"schema": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}}`),
		"is not valid"},
	{"forges_an_error", forge(`{"error": "import", "exception": "/root/x", "text": "\u001b[2J/etc"}`),
		"importing the module raised something"},
	{"wants_the_network", "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)\n",
		"importing the module raised"},
	{"wants_files", "open('/etc/shadow').read()\n", "importing the module raised"},
	{"wants_to_write", "open(__file__, 'a').write('x')\n", "importing the module raised"},
	{"is_not_a_type", "T = 7\n", "it is a value (int), not a type"},
	{"lies_about_its_class", "class M(type):\n    def __getattribute__(c, n):\n        raise KeyError(n)\nclass " +
		"T(metaclass=M):\n    pass\n", "looking at it raised KeyError"},
	{"grows", "import dataclasses\nT = int\nfor i in range(40):\n    T = tuple[T, T]\n", "its schema is too large"},
}

// forge writes text where the answer is expected, and leaves.
func forge(text string) string {
	return fmt.Sprintf("import os\nfor fd in range(3, 20):\n    try:\n        os.write(fd, %q.encode())\n        "+
		"break\n    except OSError:\n        pass\nos._exit(0)\n", text)
}

func TestResolve_survives_hostile_modules(t *testing.T) {
	packages := map[string]string{}
	for _, h := range hostile {
		text := h.source
		if !strings.Contains(text, "T = ") && !strings.Contains(text, "class T") {
			text += "T = int\n"
		}
		packages["hostile_"+h.name+".py"] = text
	}
	a := install(t, false, packages)
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			began := time.Now()
			got, err := a.ResolveWithin(t.Context(), 3*time.Second, 256<<20, "hostile_"+h.name, "T")
			if took := time.Since(began); took > 90*time.Second {
				t.Errorf("it took %s", took)
			}
			if h.want == "" {
				if err != nil || got.String("type") != "integer" {
					t.Errorf("resolve = %v, %v; want an integer", got, err)
				}
				return
			}
			e, ok := errors.AsType[*schema.SourceError](err)
			if !ok || !strings.Contains(e.Message, h.want) || strings.ContainsAny(e.Message, "/\x1b") {
				t.Errorf("resolve = %v, %v; want %q and no path", got, err, h.want)
			}
		})
	}
}

func TestResolve_refuses_names_that_are_none(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	a := openOn(t, "")
	for _, n := range [][2]string{
		{"", "T"}, {"a", ""}, {"a..b", "T"}, {"os/path", "T"}, {"a b", "T"}, {"__main__", "Walker"}, {".x", "T"},
		{"a", strings.Repeat("x", 500)}, {strings.Repeat("a.", 30) + "a", "T"}, {"os\x00", "T"}, {"a;import os", "T"},
	} {
		if got, err := a.ResolveWithin(t.Context(), 3*time.Second, 256<<20, n[0], n[1]); err == nil {
			t.Errorf("resolve %q %q = %v", n[0], n[1], got)
		} else if _, ok := errors.AsType[*schema.SourceError](err); !ok {
			t.Errorf("resolve %q %q: %v", n[0], n[1], err)
		}
	}
}

func TestDerive_bounds_the_types_that_are_looked_up(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	a := openOn(t, "")
	text := "import nothing_here\ndef tool("
	for i := range 40 {
		text += fmt.Sprintf("a%d: nothing_here.T%d, b%d: nothing_here.T%d, ", i, i, i, i)
	}
	_, err := a.Derive(t.Context(), app.Source{Kind: haft.KindPython, Text: []byte(text + "):\n    'Do.'\n")},
		schema.Options{})
	if err == nil {
		t.Fatal("it is read")
	}
	got := map[string]int{}
	for _, line := range strings.Split(err.Error(), "\n") {
		for _, want := range []string{"is not installed here", "too many types"} {
			if strings.Contains(line, want) {
				got[want]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"is not installed here": 64, "too many types": 16}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestDerive_stops_looking_when_its_context_ends(t *testing.T) {
	a := install(t, false, map[string]string{"sleeper.py": "import time\ntime.sleep(600)\n"})
	gone := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(time.Second, func() { cancel(gone) })
	defer timer.Stop()
	src := app.Source{Kind: haft.KindPython, Text: []byte("import sleeper\ndef tool(a: sleeper.T):\n    'Do.'\n")}
	if _, err := a.Derive(ctx, src, schema.Options{DescriptionsOptional: true}); !errors.Is(err, gone) {
		t.Errorf("Derive = %v, want %v", err, gone)
	}
}
