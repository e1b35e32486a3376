package script_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/layer"
)

// A package that leaves processes behind when it is imported runs them only while a call
// of its tool runs: cells with it are not kept, and cells without it are kept instead.
func TestLocal_packages_that_leave_processes_are_not_idle(t *testing.T) {
	needControl(t, haft.ControlRoot)
	const mark = "31415.9265"
	base, err := os.UserCacheDir() // not below /tmp, of which a sandbox has its own
	if err == nil {
		err = os.MkdirAll(base, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "haft-test-*")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	source := "import subprocess\nleft = subprocess.Popen(['/bin/sleep', '" + mark + "'])\n"
	if err := os.WriteFile(filepath.Join(dir, "burner.py"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	x := setupLocal(t, haft.KindPython, script.Config{})
	req := executor.Request{Kind: haft.KindPython, Source: "def f(): return 1",
		Layers: []executor.Layer{{Digest: "d", Dir: dir, Inside: layer.PythonDir, Imports: []string{"burner"}}}}
	// Until cells are kept and no such process is alive: with the imports they are not kept.
	deadline := time.Now().Add(time.Minute)
	for x.IdleCells("acme") == 0 || marked(t, mark) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d cells are idle, %d processes are left by imports", x.IdleCells("acme"), marked(t, mark))
		}
		if res := execute(t, x, req); string(res.Value) != "1" {
			t.Fatalf("got %s %+v", res.Value, res.Error)
		}
		time.Sleep(50 * time.Millisecond) // it is a poll, not a guess
	}
	if res := execute(t, x, req); res.Timeline.Cell != "hit" {
		t.Errorf("the cell was a %s", res.Timeline.Cell)
	}
	if n := marked(t, mark); n > 0 {
		t.Errorf("%d processes are left by imports", n)
	}
}

// marked counts the processes of the machine that have word among their arguments.
func marked(t *testing.T, word string) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("\x00"+word+"\x00")) {
			n++
		}
	}
	return n
}

// A handler of SIGTERM gives a tool the last word on its standard error, and not on how
// its call ended.
func TestLocal_handlers_do_not_hide_how_a_call_ends(t *testing.T) {
	handlers := map[string]string{
		"exits": "  signal.signal(signal.SIGTERM, lambda *a: sys.exit(0))\n  time.sleep(60)",
		"returns": "  class Stop(Exception): pass\n  def stop(*a): raise Stop\n  signal.signal(signal.SIGTERM, " +
			"stop)\n  try: time.sleep(60)\n  except Stop: return 1",
		"ends": "  signal.signal(signal.SIGTERM, lambda *a: os._exit(0))\n  time.sleep(60)",
	}
	x := setupLocal(t, haft.KindPython, script.Config{Reuse: []string{"acme/again"}})
	for name, body := range handlers {
		source := "import os, signal, sys, time\ndef f():\n" + body
		for _, tool := range []string{"tool", "again"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				res := execute(t, x, executor.Request{Kind: haft.KindPython, Tool: tool, Source: source,
					Limits: haft.Limits{Wall: haft.Millis(300e6)}})
				if res.Status != haft.StatusTimeout {
					t.Errorf("got %s %s %+v, want a timeout", res.Status, res.Value, res.Error)
				}
			})
		}
		t.Run(name+" cancelled", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			source := strings.Replace(source, "time.sleep(60)", "print('up', flush=True); time.sleep(60)", 1)
			res, err := x.Execute(ctx, executor.Request{Org: "acme", Tool: "tool", Function: "f", Kind: haft.KindPython,
				Source: source,
				Stdout: func([]byte) { cancel() }})
			if err != nil || res.Status != haft.StatusCancelled {
				t.Errorf("got %+v, %v, want cancelled", res, err)
			}
		})
	}
}

// Idle cells hold the source of a tool that the organisation has stored, and of no
// other: the next call may be another user's.
func TestLocal_idle_cells_hold_stored_sources_only(t *testing.T) {
	// The word is looked for backwards, so that looking does not put it into memory.
	const look = `
def f():
    found = 0
    with open('/proc/self/maps') as m: maps = [l.split()[:2] for l in m]
    with open('/proc/self/mem', 'rb', 0) as mem:
        for where, mode in maps:
            if 'w' not in mode: continue
            low, high = (int(x, 16) for x in where.split('-'))
            try:
                mem.seek(low)
                found += mem.read(high - low)[::-1].count(b'yrrebwarts-5180-iwik')
            except OSError: pass
    return found
`
	for _, stored := range []bool{true, false} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			x := setupLocal(t, haft.KindPython, script.Config{})
			seen := false
			for i := 0; i < 12 && !seen; i++ {
				execute(t, x, executor.Request{Kind: haft.KindPython, Stored: stored,
					Source: strings.Repeat("# kiwi-0815-strawberry\n", 300) + "def f(): return 1"})
				deadline := time.Now().Add(2 * time.Second)
				for x.IdleCells("acme") < 2 && time.Now().Before(deadline) {
					time.Sleep(10 * time.Millisecond) // it is a poll
				}
				res := execute(t, x, executor.Request{Kind: haft.KindPython, Tool: "other", Source: look})
				if res.Error != nil {
					t.Fatalf("%+v", res.Error)
				}
				seen = string(res.Value) != "0"
			}
			if seen != stored {
				t.Errorf("a source with stored %t was found in the cell of another call: %t", stored, seen)
			}
		})
	}
}
