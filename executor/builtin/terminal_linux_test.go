package builtin_test

import (
	"strings"
	"testing"

	"haft"
)

// A session that is made with a terminal has terminals of its own, which take keys and sizes.
func TestRunCommand_terminal(t *testing.T) {
	s, m := commandWorld(t)
	req, ready := started(commandRequest(t, "run_command", map[string]any{"tty": true,
		"command": "test -t 0 && stty size; read line; stty size; echo $line; sleep 60"}))
	printed := make(chan string, 100)
	req.Stdout = func(b []byte) { printed <- string(b) }
	ended := make(chan commandResult, 1)
	go func() {
		out, _ := command(t, s, t.Context(), req)
		ended <- out
	}()
	var text strings.Builder
	await := func(want string) {
		t.Helper()
		for !strings.Contains(text.String(), want) {
			select {
			case b := <-printed:
				text.WriteString(b)
			case out := <-ended:
				t.Fatalf("it has ended: %+v", out)
			}
		}
	}
	send := func(in haft.CommandInput) {
		t.Helper()
		if err := m.Input(t.Context(), alice, "c_1", in); err != nil {
			t.Fatal(err)
		}
	}
	<-ready
	await("24 80")
	send(haft.CommandInput{Rows: 40, Cols: 100})
	send(haft.CommandInput{Data: []byte("typed\n")})
	await("40 100\r\ntyped\r\n")
	send(haft.CommandInput{Data: []byte{3}}) // ^C
	if out := <-ended; out.Error == nil {
		t.Errorf("after ^C: %+v", out)
	}
	for name, c := range map[string]struct{ command, want string }{
		// ATTACKER: a command with a terminal.
		// WEAKNESS: it puts keys into a terminal of somebody else, or takes the host's.
		// VERIFIES: there are only terminals of the session, few of them, and no way to put keys into one.
		"no keys for others": {"python3 -c 'import fcntl, os\ntry: fcntl.ioctl(0, 0x5412, b\"x\")\n" +
			"except OSError as e: print(\"denied\")'", "denied"},
		"no others": {"ls /dev/pts | tr '\\n' ' '", "0 ptmx"},
		"few": {"python3 -c 'import os\nn = []\ntry:\n  while len(n) < 1000: n.append(os.openpty())\n" +
			"except OSError: print(\"few\" if len(n) < 4 else len(n))'", "few"},
		"the terminal is theirs": {"echo x > /dev/tty; echo on", "on"},
		"there is a home":        {"echo text > /home/user/f; cat /work/f; touch /home/f || echo only", "text\r\n"},
		"the home is all":        {"touch /home/f || echo only", "only"},
	} {
		out, _ := command(t, s, t.Context(), commandRequest(t, "run_command",
			map[string]any{"tty": true, "command": c.command}))
		if !strings.Contains(out.Stdout, c.want) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// Sessions have no terminals unless they are made with them.
func TestRunCommand_no_terminal(t *testing.T) {
	s, _ := commandWorld(t)
	out, _ := command(t, s, t.Context(), commandRequest(t, "run_command",
		map[string]any{"command": "ls -d /dev/pts /dev/ptmx"}))
	if out.Exit == nil || *out.Exit == 0 {
		t.Errorf("a session without terminals: %+v", out)
	}
	out, _ = command(t, s, t.Context(), commandRequest(t, "run_command",
		map[string]any{"command": "true", "tty": true}))
	if out.Error == nil || !strings.Contains(out.Error.Message, "make a session with tty") {
		t.Errorf("a command with a terminal: %+v", out)
	}
}
