package script_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/executor/script"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	goleak.VerifyTestMain(m)
}

// setupLocal returns an executor over the confined provider, or skips.
func setupLocal(t testing.TB, kind haft.Kind, cfg script.Config) *script.Executor {
	t.Helper()
	finder := newFinder(t)
	if _, err := finder.Find(t.Context(), kind, cfg.Hints[kind]); err != nil {
		missing(t, things[kind], err.Error())
	}
	ctx := context.WithoutCancel(t.Context())
	p, err := local.Open(ctx, local.Config{Dir: t.TempDir()})
	if err != nil {
		missing(t, "sandbox", err.Error())
	}
	x := script.New(ctx, p, "local", finder, cfg)
	t.Cleanup(func() {
		x.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func TestLocal_python(t *testing.T) {
	x := setupLocal(t, haft.KindPython, script.Config{})
	for _, list := range [][]toolCase{valueCases, brokenCases, hostileCases} {
		for _, c := range list {
			t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
		}
	}
}

func TestLocal_every_python(t *testing.T) {
	for _, py := range pythons(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(py))), func(t *testing.T) {
			cfg := script.Config{Cold: true, Hints: map[haft.Kind]string{haft.KindPython: py}}
			x := setupLocal(t, haft.KindPython, cfg)
			c := toolCase{
				source: "import ssl, sqlite3, ctypes, hashlib, zlib, bz2, lzma, zoneinfo, os, sys\ndef f():\n  zoneinfo.ZoneInfo('Europe/Berlin')\n  return [sorted(os.listdir('/root')) if os.path.isdir('/root') else [], os.path.exists('/etc/shadow'), os.path.exists('/home')]",
				want:   `[[],false,false]`,
			}
			if filepath.HasPrefix(py, os.Getenv("HOME")) && os.Getenv("HOME") == "/root" {
				c.want = `[[".pyenv"],false,false]`
			}
			c.check(t, x, haft.KindPython)
		})
	}
}

func TestLocal_node(t *testing.T) {
	x := setupLocal(t, haft.KindJavaScript, script.Config{})
	for _, c := range nodeCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindTypeScript) })
	}
}

func TestLocal_bash(t *testing.T) {
	x := setupLocal(t, haft.KindBash, script.Config{})
	for _, c := range bashCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindBash) })
	}
}
