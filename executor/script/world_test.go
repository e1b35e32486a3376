package script_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/skiptest"
	"haft/sandbox/process"
)

// openProcess returns a provider without isolation.
func openProcess(t testing.TB) *process.Provider {
	t.Helper()
	p, err := process.Open(process.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newFinder returns a finder over the PATH of the test.
func newFinder(t testing.TB) *script.Finder {
	t.Helper()
	return script.NewFinder(openProcess(t), script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME")})
}

// things names what HAFT_REQUIRE calls the interpreter of a kind.
var things = map[haft.Kind]string{
	haft.KindPython: "python", haft.KindJavaScript: "node", haft.KindTypeScript: "node", haft.KindBash: "bash",
}

// setup returns an executor over the process provider, or skips.
func setup(t testing.TB, kind haft.Kind, cfg script.Config) *script.Executor {
	t.Helper()
	finder := newFinder(t)
	if _, err := finder.Find(t.Context(), kind, cfg.Hints[kind]); err != nil {
		skiptest.Lacking(t, things[kind], err.Error())
	}
	x := script.New(context.WithoutCancel(t.Context()), openProcess(t), "process", finder, cfg)
	t.Cleanup(x.Close)
	return x
}

// execute runs req, which must give a result.
func execute(t testing.TB, x *script.Executor, req executor.Request) *haft.Result {
	t.Helper()
	if req.Org == "" {
		req.Org = "acme"
	}
	if req.Tool == "" {
		req.Tool = "tool"
	}
	if req.Function == "" {
		req.Function = "f"
	}
	res, err := x.Execute(t.Context(), req)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	return res
}

// pythons lists the interpreters to test with: the one on PATH, the system's, and
// every version that pyenv has.
func pythons(t testing.TB) []string {
	t.Helper()
	all := []string{"/usr/bin/python3"}
	for _, minor := range []string{"9", "10", "11", "12", "13", "14"} {
		found, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".pyenv/versions/3."+minor+".*/bin/python3"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(p string) bool { _, err := os.Stat(p); return err != nil })
	if len(all) == 0 {
		skiptest.Lacking(t, "python", "no interpreter at the usual places")
	}
	return all
}
