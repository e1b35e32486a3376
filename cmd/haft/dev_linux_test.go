package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/project"
	"haft/sandbox/sandboxtest"
)

// Somebody works in a real terminal: what is saved is shown above the line that is being typed, which stays; Ctrl-C
// stops a call and then leaves, and the terminal is as it was.
func TestDev_in_a_terminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		sandboxtest.Require(t, "tmux", "there is no tmux: run scripts/setup test")
	}
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools")
	if _, err := project.Write(tools); err != nil {
		t.Fatal(err)
	}
	program, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	s := screen{t, filepath.Join(dir, "s")}
	s.tmux("new-session", "-d", "-s", "chat", "-x", "100", "-y", "50", "-e", "HAFT_DATA="+filepath.Join(dir, "data"),
		"-e", "HAFT_ALLOW_REDUCED=1", "-e", "HAFT_USER=ann", "cat")
	s.tmux("set-option", "-g", "remain-on-exit", "on")
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() //nolint:forbidigo // the test is over
	})
	s.run(program, "dev", tools, "--addr", "127.0.0.1:0")
	s.shows(`(?s)created forecast.*watching .*\n> `)
	s.types("forecast city=Os", "")
	s.shows(`(?m)^> forecast city=Os`)
	slow := "import time\n\ndef slow() -> str:\n    \"\"\"Take long.\"\"\"\n    time.sleep(600)\n    return 'done'\n"
	if err := os.WriteFile(filepath.Join(tools, "slow.py"), []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows(`(?s)created slow version 1.*\n> forecast city=Os`) // what was typed is still there
	s.types("lo", "Enter")
	s.shows(`Oslo, day 3: sun`)
	s.shows(`\[Enter: forecast city=Oslo\] > `)
	escape := strings.Replace(slow, "slow()", "title()", 1)
	escape = strings.Replace(escape, "time.sleep(600)", "print('\\x1b]0;stolen\\x07')", 1)
	if err := os.WriteFile(filepath.Join(tools, "title.py"), []byte(escape), 0o600); err != nil {
		t.Fatal(err)
	}
	s.shows(`created title version 1`)
	s.types("title", "Enter")
	s.shows(`done`)
	if title := s.tmux("display-message", "-p", "-t", "chat", "#{pane_title}"); strings.Contains(title, "stolen") {
		t.Errorf("a tool has set the title to %q", title)
	}
	s.types("slow", "Enter")
	s.shows(`\n(\[Enter: title\] )?> slow`)
	s.types("C-c")
	s.shows(`(?s)> slow.*(stopped|cancelled)`)
	s.shows(`\[Enter: slow\] > \s*$`)
	s.types("C-c") // once: another one would not wait for what it has to clean up
	s.leaves(`Pane is dead \(status 0`)
}

// The commands that the README.md of a new project has work as they stand there.
func TestProject_readme(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	if _, err := project.Write(dir); err != nil {
		t.Fatal(err)
	}
	runExample(t, dir, "")
}
