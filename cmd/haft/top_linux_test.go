package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/modeltest"
	"haft/sandbox/sandboxtest"
)

// Somebody looks at what runs in a real terminal: haft top shows a call, q ends it, and the terminal is as it was, with
// what stood there before.
func TestTop_in_a_terminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		sandboxtest.Require(t, "tmux", "there is no tmux: run scripts/setup test")
	}
	dir := t.TempDir()
	data, tool := filepath.Join(dir, "data"), filepath.Join(dir, "slow.py")
	_, stop, err := startServer(t.Context(), data, modeltest.Start(t), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	program, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	source := "import time\n\ndef slow() -> str:\n    \"\"\"Take long.\"\"\"\n    time.sleep(600)\n    return 'done'\n"
	if err := os.WriteFile(tool, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	haft := func(line ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, line...)
		c.Env = append(os.Environ(), "HAFT_DATA="+data)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("haft %q: %v: %s", line, err, out)
		}
		return string(out)
	}
	haft("tool", "add", tool, "--timeout", "10m")
	call := strings.TrimSpace(haft("call", "slow", "--async", "-o", "name"))
	s := screen{t, filepath.Join(dir, "s")}
	s.tmux("new-session", "-d", "-s", "chat", "-x", "120", "-y", "30", "-e", "HAFT_DATA="+data, "-e", "PS1=here> ",
		"env", "-u", "ENV", "sh")
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() //nolint:forbidigo // the test is over
	})
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	for _, keys := range []string{"q", "C-c"} {
		s.types("clear; stty -g > "+before+"; echo before'-'"+keys, "Enter")
		s.shows(`(?m)^before-` + keys + `\nhere> $`)
		s.types(program+" top --every 100ms", "Enter")
		s.shows(`(?s)^\d\d:\d\d:\d\d  1 open, 1 running.*\n` + call + ` +slow +running .*q ends this`)
		s.types(keys)
		s.shows(`(?m)^before-` + keys + `\nhere> .*haft top .*\n(.*\n)?here> $`)
		s.types("c=$?; stty -g > "+after+"; echo code'-'$c", "Enter")
		s.shows(`(?m)^code-0$`)
		was, err := os.ReadFile(before) //nolint:gosec // of this test
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(after) //nolint:gosec // of this test
		if err != nil || len(was) == 0 || string(is) != string(was) {
			t.Errorf("%s: the terminal was %s and is %s: %v", keys, was, is, err)
		}
	}
	haft("calls", "cancel", call)
}
