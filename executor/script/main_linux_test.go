package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/skiptest"
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
		skiptest.Lacking(t, things[kind], err.Error())
	}
	ctx := context.WithoutCancel(t.Context())
	p, err := local.Open(ctx, local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
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

// needControl skips what is about a control that this machine does not give.
func needControl(t testing.TB, c haft.Control) {
	t.Helper()
	p, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
	}
	have, err := p.Isolation(t.Context())
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	for _, g := range have.Missing {
		if g.Control == c {
			skiptest.Lacking(t, "sandbox", string(c)+": "+g.Reason)
		}
	}
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
	needControl(t, haft.ControlRoot) // or the host's directories are there, if closed
	for _, py := range pythons(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(py))), func(t *testing.T) {
			cfg := script.Config{Cold: true, Hints: map[haft.Kind]string{haft.KindPython: py}}
			x := setupLocal(t, haft.KindPython, cfg)
			c := toolCase{
				source: "import ssl, sqlite3, ctypes, hashlib, zlib, bz2, lzma, zoneinfo, os, sys\ndef f():\n  " +
					"zoneinfo.ZoneInfo('Europe/Berlin')\n  return [sorted(os.listdir('/root')) if " +
					"os.path.isdir('/root') else [], os.path.exists('/etc/shadow'), os.path.exists('/home')]",
				want: `[[],false,false]`,
			}
			if strings.HasPrefix(py, os.Getenv("HOME")+"/") && os.Getenv("HOME") == "/root" {
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

func TestLocal_virtual_environment(t *testing.T) {
	python := pythons(t)[0]
	maker := setup(t, haft.KindPython, script.Config{Cold: true, Hints: map[haft.Kind]string{haft.KindPython: python}})
	for _, copies := range []string{"False", "True"} {
		t.Run("copies_"+copies, func(t *testing.T) {
			// Not below /tmp, which sandboxes have one of their own of.
			base, err := os.UserCacheDir()
			if err == nil {
				err = os.MkdirAll(base, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			dir, err := os.MkdirTemp(base, "haft-test-*")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			made := execute(t, maker, executor.Request{
				Kind: haft.KindPython, Args: json.RawMessage(`{"dir":"` + dir + `"}`),
				Source: "import venv, os, sys\ndef f(dir):\n  venv.create(dir, with_pip=False, symlinks=not " + copies +
					")\n  lib = os.path.join(dir, 'lib', 'python%d.%d' % sys.version_info[:2], 'site-packages')\n  " +
					"open(os.path.join(lib, 'installed.py'), 'w').write('x = 7')",
			})
			if made.Error != nil {
				skiptest.Lacking(t, "python", "it cannot make a virtual environment: "+made.Error.Message)
			}
			x := setupLocal(t, haft.KindPython, script.Config{Cold: true,
				Hints: map[haft.Kind]string{haft.KindPython: dir}})
			toolCase{source: "import installed\ndef f(): return installed.x", want: `7`}.check(t, x, haft.KindPython)
		})
	}
}

func TestLocal_names_limits(t *testing.T) {
	x := setupLocal(t, haft.KindPython, script.Config{})
	for _, c := range []struct {
		name, source string
		limits       haft.Limits
		kind         haft.FailureKind
	}{
		{"memory", "def f():\n  a = []\n  while True: a.append(bytearray(1 << 20))", haft.Limits{Memory: 128 << 20},
			haft.FailMemory},
		{"processes", "import threading, time\ndef f():\n  for _ in range(100): threading.Thread(target=time.sleep, " +
			"args=(5,), daemon=True).start()", haft.Limits{Processes: 8}, haft.FailPIDs},
		{"open_files", "def f():\n  return [open('/dev/null') for _ in range(1000)]", haft.Limits{OpenFiles: 128},
			haft.FailOpenFiles},
		{"file_size", "def f():\n  with open('x', 'wb') as w:\n    for _ in range(64): w.write(bytes(1 << 20))",
			haft.Limits{FileSize: 1 << 20}, haft.FailFileSize},
		{"disk", "def f():\n  for i in range(64):\n    with open('x%d' % i, 'wb') as w: w.write(bytes(1 << 20))",
			haft.Limits{Disk: 8 << 20}, haft.FailDisk},
		{"inodes", "def f():\n  for i in range(1000): open('x%d' % i, 'w').close()", haft.Limits{Inodes: 64},
			haft.FailInodes},
		{"processor", "def f():\n  while True: pass", haft.Limits{CPU: haft.Millis(300e6), Wall: haft.Millis(60e9)},
			haft.FailCPU},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == haft.FailDisk || c.kind == haft.FailInodes {
				needControl(t, haft.ControlDisk)
			}
			res := execute(t, x, executor.Request{Kind: haft.KindPython, Source: c.source, Limits: c.limits})
			if res.Status != haft.StatusLimit || res.Error.Kind != c.kind {
				t.Errorf("got %s %s %+v, %+v, want %s", res.Status, res.Value, res.Error, res.Usage, c.kind)
			}
		})
	}
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func TestLocal_leaves_nothing_open(t *testing.T) {
	// Where a clone with maps of ids fails, package syscall leaves its pipe for them
	// open: four descriptors for each provider that finds out.
	needControl(t, haft.ControlUserNS)
	before := descriptors(t)
	t.Run("calls", func(t *testing.T) {
		x := setupLocal(t, haft.KindPython, script.Config{})
		for range 50 {
			toolCase{source: "def f(): return 1", want: "1"}.check(t, x, haft.KindPython)
			toolCase{source: "import os\ndef f(): os._exit(1)", kind: haft.FailExit}.check(t, x, haft.KindPython)
		}
	})
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}
