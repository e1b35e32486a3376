package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/modeltest"
	"haft/sandbox/sandboxtest"
)

// A screen is a terminal of tmux in which a person works.
type screen struct {
	t      *testing.T
	socket string
}

// tmux runs a command of tmux on the terminal.
func (s screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "tmux", append([]string{"-S", s.socket, "-f", "/dev/null"},
		args...)...).CombinedOutput()
	if err != nil && s.t.Context().Err() == nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// run starts a command in the terminal, in the place of the one before.
func (s screen) run(command ...string) {
	s.t.Helper()
	s.tmux(append([]string{"respawn-pane", "-k", "-t", "chat"}, command...)...)
}

// leaves presses keys until the terminal shows how the program has ended: those before its prompt may be lost. On a
// busy machine tmux may not see that a program has ended until another one does.
func (s screen) leaves(pattern string, keys ...string) {
	s.t.Helper()
	s.await(pattern, func() {
		if len(keys) > 0 {
			s.types(keys...)
		}
		s.tmux("run-shell", "-b", "true")
	})
}

// shows waits until the terminal shows a pattern.
func (s screen) shows(pattern string) {
	s.t.Helper()
	s.await(pattern, func() {})
}

// await waits until the terminal shows a pattern, and does something each time before it looks again.
func (s screen) await(pattern string, do func()) {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := s.tmux("capture-pane", "-p", "-J", "-t", "chat", "-S", "-200")
		if want.MatchString(seen) {
			return
		}
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("the terminal does not show %s:\n%s", pattern, seen)
		}
	}
}

// types sends a line, or a key such as C-c.
func (s screen) types(keys ...string) {
	s.tmux(append([]string{"send-keys", "-t", "chat"}, keys...)...)
}

// A person talks to an agent in a real terminal: the answer is shown as Markdown while it comes, calls with their time
// and isolation, the person is asked, Ctrl-C stops a turn, and what was said is there the next time.
func TestChat_in_a_terminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		sandboxtest.Require(t, "tmux", "there is no tmux: run scripts/setup test")
	}
	pay := haft.ToolCall{ID: "c1", Tool: "pay", Args: json.RawMessage(`{"amount": 7}`)}
	m := modeltest.Start(t,
		modeltest.Step{Text: "# Prices\n\nIt is **seven** kroner, see `pay`.\x1b]0;stolen\a\n",
			Calls: []haft.ToolCall{pay}},
		modeltest.Step{Text: "You have paid."},
		modeltest.Step{Text: "This takes a while. And so on. ", Hold: true},
		modeltest.Step{Text: "I am back."})
	dir := t.TempDir()
	models, tool, rules := filepath.Join(dir, "models.toml"), filepath.Join(dir, "pay.py"), filepath.Join(dir, "p.yaml")
	program, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{models: modelsFile(m), rules: "version: 1\nroles: {admin: " +
		"[\"tool:*\"]}\n" +
		"approval: {roles: [approver], self: true}\n", tool: "def pay(amount: int) -> str:\n" +
		"    \"\"\"Pay.\n\n    Args:\n        amount: how much\n    \"\"\"\n    return f'paid {amount}'\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"HAFT_DATA=" + filepath.Join(dir, "data"), "HAFT_MODELS=" + models, "HAFT_ALLOW_REDUCED=1",
		"HAFT_USER=ann"}
	for _, line := range []string{"tool add " + tool + " --requires-approval", "agent create helper",
		"agent attach helper pay", "policy set " + rules} {
		c := exec.CommandContext(t.Context(), program, strings.Fields(line)...)
		c.Env = append(os.Environ(), env...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("haft %s: %v: %s", line, err, out)
		}
	}
	s := screen{t, filepath.Join(dir, "s")}
	start := []string{"new-session", "-d", "-s", "chat", "-x", "100", "-y", "50"}
	for _, kv := range env {
		start = append(start, "-e", kv)
	}
	s.tmux(append(start, "cat")...)
	s.tmux("set-option", "-g", "remain-on-exit", "on")
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket,
			"kill-server").Run()
	}) //nolint:forbidigo // the test is over
	s.run(program, "chat", "helper")
	s.shows(`talking to helper`)
	s.types("what does it cost?", "Enter")
	s.shows(`(?m)^│ Prices`)
	s.shows(`(?m)^│ It is seven kroner, see pay\.`)
	s.shows(`(?s)pay.*amount.*7.*y or n`)
	s.types("y", "Enter")
	s.shows(`✓ pay success in \d.*isolation (namespaces|reduced)`)
	s.shows(`(?m)^│ You have paid\.`)
	if title := s.tmux("display-message", "-p", "-t", "chat", "#{pane_title}"); strings.Contains(title, "stolen") {
		t.Errorf("the model has set the title to %q", title)
	}
	s.types("go on", "Enter")
	s.shows(`This takes a while`)
	s.types("C-c")
	s.shows(`the turn was cancelled\s+> `)
	s.leaves(`Pane is dead`, "C-d")
	s.run(program, "chat", "helper", "--resume")
	s.shows(`You have paid\.`)
	s.types("are you there?", "Enter")
	s.shows(`(?m)^│ I am back\.`)
	s.leaves(`Pane is dead \(status 0`, "C-d")
}
