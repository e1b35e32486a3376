package script_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

// fakeInterpreter writes a shell script and returns its path.
func fakeInterpreter(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFinder_says_what_is_wrong(t *testing.T) {
	python := pythons(t)[0]
	for _, c := range []struct{ name, file, says string }{
		{"missing", filepath.Join(t.TempDir(), "python3"), "is not installed"},
		{"not_executable", fakeInterpreter(t, 0o644, "#!/bin/sh\n"), "is not executable"},
		{"directory_without_one", t.TempDir(), "is not installed"},
		{"no_program", fakeInterpreter(t, 0o755, "\x7fELF garbage"), "cannot be started"},
		{"no_such_shell", fakeInterpreter(t, 0o755, "#!/no/such/shell\n"), "cannot be started"},
		{"ends_at_once", fakeInterpreter(t, 0o755, "#!/bin/sh\nexit 3\n"), "does not work"},
		{"answers_nonsense", fakeInterpreter(t, 0o755, "#!/bin/sh\necho nonsense >&3\n"), "does not work"},
		{"prints_at_start", fakeInterpreter(t, 0o755, "#!/bin/sh\necho Welcome\nexec "+python+" \"$@\"\n"),
			"prints at its start"},
		{"too_old", fakeInterpreter(t, 0o755, "#!/bin/sh\necho "+
			"'{\"version\":[3,8,1],\"implementation\":\"cpython\"}' >&3\n"), "is too old"},
		{"another_implementation", fakeInterpreter(t, 0o755,
			"#!/bin/sh\necho '{\"version\":[3,10,1],\"implementation\":\"pypy\"}' >&3\n"), "is another implementation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newFinder(t).Find(t.Context(), haft.KindPython, c.file)
			if haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), c.says) {
				t.Fatalf("Find = %v, want %q", err, c.says)
			}
			if strings.Contains(haft.MessageOf(err), c.file) {
				t.Errorf("the message %q names a file of the host", haft.MessageOf(err))
			}
			x := script.New(t.Context(), openProcess(t), "process", newFinder(t),
				script.Config{Hints: map[haft.Kind]string{haft.KindPython: c.file}})
			defer x.Close()
			if res := execute(t, x, executor.Request{Kind: haft.KindPython,
				Source: "def f(): pass"}); res.Error == nil || res.Error.Kind != haft.FailRuntime {
				t.Errorf("a call gives %+v, want %s", res.Error, haft.FailRuntime)
			}
		})
	}
}

func TestFinder_asks_a_broken_interpreter_once(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	file := fakeInterpreter(t, 0o755, "#!/bin/sh\necho x >>"+count+"\nexit 1\n")
	f := newFinder(t)
	for range 20 {
		if _, err := f.Find(t.Context(), haft.KindPython, file); err == nil {
			t.Fatal("it was found")
		}
	}
	b, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "x"); n != 1 {
		t.Errorf("it was started %d times, want 1", n)
	}
}

func TestFinder_resolves_links_shims_and_environments(t *testing.T) {
	python := pythons(t)[0]
	real, err := filepath.EvalSymlinks(python)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "python3")
	if err := os.Symlink(python, link); err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(dir, "venv")
	if err := os.MkdirAll(filepath.Join(venv, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(python, filepath.Join(venv, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(venv, "pyvenv.cfg"), []byte("home = "+filepath.Dir(python)+"\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	for name, hint := range map[string]string{
		"link": link, "shim": fakeInterpreter(t, 0o755, "#!/bin/bash\nexec "+python+" \"$@\"\n"), "venv": venv,
		"itself": python,
	} {
		rt, err := newFinder(t).Find(t.Context(), haft.KindPython, hint)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rt.Argv[0] != real {
			t.Errorf("%s: interpreter %s, want %s", name, rt.Argv[0], real)
		}
		inVenv := len(rt.Paths) == 1 && strings.HasPrefix(rt.Paths[0], venv)
		if (name == "venv") != inVenv {
			t.Errorf("%s: packages in %v", name, rt.Paths)
		}
	}
}

func TestFinder_mounts_little(t *testing.T) {
	f := newFinder(t)
	for _, py := range pythons(t) {
		rt, err := f.Find(t.Context(), haft.KindPython, py)
		if err != nil {
			t.Errorf("%s: %v", py, err)
			continue
		}
		for _, m := range rt.Mounts {
			for _, never := range []string{"/", "/usr", "/etc", "/home", "/root", "/var", "/tmp", "/opt",
				os.Getenv("HOME")} {
				if m.Host == never || m.Writable || m.Host != m.Inside {
					t.Errorf("%s: mount %+v", py, m)
				}
			}
		}
		if len(rt.Mounts) > 24 {
			t.Errorf("%s: %d mounts: %v", py, len(rt.Mounts), rt.Mounts)
		}
	}
}

func TestFinder_remembers_across_processes(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	file := fakeInterpreter(t, 0o755, "#!/bin/sh\necho x >>"+count+"\nexec "+pythons(t)[0]+" \"$@\"\n")
	cache := filepath.Join(t.TempDir(), "cache")
	find := func() *script.Runtime {
		t.Helper()
		f := script.NewFinder(openProcess(t), script.FinderConfig{Cache: cache})
		rt, err := f.Find(t.Context(), haft.KindPython, file)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	starts := func() int {
		b, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "x")
	}
	first := find()
	if second := find(); second.Digest != first.Digest || starts() != 1 {
		t.Errorf("the second finder asked again: %d starts", starts())
	}
	x := script.New(t.Context(), openProcess(t), "process",
		script.NewFinder(openProcess(t), script.FinderConfig{Cache: cache}),
		script.Config{Cold: true, Hints: map[haft.Kind]string{haft.KindPython: file}})
	defer x.Close()
	if res := execute(t, x, executor.Request{Kind: haft.KindPython, Source: "def f(): return 1"}); string(
		res.Value) != "1" {
		t.Errorf("a remembered interpreter gives %+v", res.Error)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o755); err != nil {
		t.Fatal(err)
	}
	if find(); starts() != 2 {
		t.Errorf("a changed interpreter was not asked again: %d starts", starts())
	}
	kept, err := filepath.Glob(filepath.Join(cache, "runtime-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q are kept, %v", kept, err)
	}
	st, err := os.Stat(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(kept[0], st.Size()-1); err != nil { // as after a power failure
		t.Fatal(err)
	}
	if find(); starts() != 3 {
		t.Errorf("what lacks its end was believed: %d starts", starts())
	}
	if err := os.Chmod(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	if find(); starts() != 4 {
		t.Errorf("what everybody can write to was believed: %d starts", starts())
	}
}
