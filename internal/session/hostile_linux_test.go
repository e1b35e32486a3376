package session_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/session"
)

// processesWith counts the processes of this machine that have a word among their arguments.
func processesWith(t *testing.T, word string) (n int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(word)) { //nolint:gosec // of the kernel
			n++
		}
	}
	return n
}

// eventually waits until something is true, and fails after a time that no machine needs.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it takes too long until %s", what)
		}
	}
}

// A fork bomb in a session meets the limit of processes of the session, and nobody else does.
//
// WEAKNESS: processes that replace each other faster than they are killed outlive the command, the call or the session,
// or take the processes of sessions beside theirs.
// VERIFIES: the session never has more than its limit. Its neighbour works while the bomb goes on. When the command is
// cancelled or the session ends, no process of the bomb is left, and the owner can have another session.
func TestSession_fork_bomb(t *testing.T) {
	const most = 48
	m := setup(t, session.Config{PerOwner: 2})
	bob := haft.Principal{Org: "acme", User: "bob"}
	beside := open(t, m, session.Options{Request: executor.Request{Principal: bob}})
	code(t, beside, "python", "x = 20")
	bomb := func(word string) string { return "f() { f | f & f; }; f # " + word }
	for name, start := range map[string]func(ctx context.Context, s *session.Session, word string) error{
		"command": func(ctx context.Context, s *session.Session, word string) error {
			p, err := s.Start(ctx, session.Command{Argv: []string{"bash", "-c", bomb(word)}})
			if err != nil {
				return err
			}
			status, err := p.Wait(ctx)
			return errors.Join(err, fmt.Errorf("status %d", status))
		},
		"code": func(ctx context.Context, s *session.Session, word string) error {
			out, err := s.Run(ctx, session.Code{Language: "python", Source: fmt.Sprintf(
				"import subprocess\nsubprocess.run(['bash', '-c', %q])", bomb(word))})
			return errors.Join(err, fmt.Errorf("outcome %+v", out))
		},
	} {
		t.Run(name, func(t *testing.T) {
			word := "bomb" + rand.Text()
			s := open(t, m, session.Options{Request: executor.Request{Limits: haft.Limits{Processes: most}}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- start(ctx, s, word) }()
			seen, rounds := 0, 0
			eventually(t, "the bomb is at its limit", func() bool {
				seen = max(seen, processesWith(t, word))
				if text, _ := code(t, beside, "python", "x + 1"); text != "21" {
					t.Errorf("beside the bomb: %s", text)
				}
				rounds++
				return rounds >= 20 && (seen >= most/2 || len(ended) == 1)
			})
			cancel()
			select {
			case err := <-ended:
				if why := s.Why(); s.Info().Isolation.Has(haft.ControlPIDs) && (seen > most ||
					why != nil && !strings.Contains(why.Error(), "its limit "+string(haft.FailPIDs))) {
					t.Errorf("the bomb had %d processes of %d, and the session ended: %v", seen, most, why)
				}
				if why := s.Why(); why != nil && !strings.Contains(err.Error(), why.Error()) {
					t.Errorf("who waits for the bomb gets %v, and not %v", err, why)
				}
				t.Logf("at most %d processes; the bomb ended with: %v; the session: %v", seen, err, s.Why())
			case <-time.After(3 * time.Minute):
				t.Fatal("the bomb cannot be ended")
			}
			s.Close("the test is over")
			eventually(t, "no process of the bomb is left", func() bool { return processesWith(t, word) == 0 })
			next := open(t, m, session.Options{Request: executor.Request{Limits: haft.Limits{Processes: most}}})
			if text, _ := code(t, next, "python", "1 + 1"); text != "2" {
				t.Errorf("the next session: %s", text)
			}
			next.Close("the test is over")
		})
	}
}

// What commands leave running is reaped when it ends: it counts for the limit of processes of the session until then.
func TestSession_reaps_orphans(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	code(t, s, "python", "x = 20")
	for range 3 {
		if status, text := sh(t, s, "for i in 1 2 3 4; do (sleep 0.05 &); done"); status != 0 {
			t.Errorf("status %d, %s", status, text)
		}
	}
	eventually(t, "no process of the session is waited for", func() bool {
		_, text := sh(t, s, "sleep 0.1; grep -l '^State:.Z' /proc/[0-9]*/status 2> /dev/null")
		return !strings.Contains(text, "status")
	})
	if text, _ := code(t, s, "python", "x + 1"); text != "21" {
		t.Errorf("after that: %s", text)
	}
}

// A session that fills its disk hurts itself only, and goes on when it has made room.
//
// WEAKNESS: the files of a session take the disk of the server, or of the sessions beside it.
// VERIFIES: writing ends at the limit, whether it is code, a command or a file that is sent. The neighbour can write
// meanwhile. Files can be removed, and the session goes on then. When it has ended, none of its files is left.
func TestSession_full_disk(t *testing.T) {
	const most = 16 << 20
	m := setup(t, session.Config{})
	limits := haft.Limits{Disk: most, FileSize: 4 * most}
	s := open(t, m, session.Options{Request: executor.Request{Limits: limits}})
	beside := open(t, m, session.Options{Request: executor.Request{Limits: limits}})
	code(t, s, "python", "x = 20")
	for name, fill := range map[string]func() string{
		"command": func() string {
			status, text := sh(t, s, "cat /dev/zero > big")
			if status == 0 {
				t.Error("a command fills the disk and ends well")
			}
			return text
		},
		"code": func() string {
			out, _ := runCode(t, s, "python", "with open('big', 'wb') as f:\n  while True: f.write(b'x' * 65536)")
			if out.Error == nil {
				t.Fatal("code fills the disk and ends well")
			}
			return out.Error.Name + out.Error.Value
		},
		"file": func() string {
			_, err := s.WriteFile(t.Context(), "big", 0, &zeros{most + 1<<20})
			return fmt.Sprint(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := fill()
			if !strings.Contains(text, "No space left") {
				t.Errorf("the disk is full, and this is said: %q", text)
			}
			if _, used := sh(t, s, "du -sb /work | cut -f1"); len(strings.TrimSpace(used)) > len(fmt.Sprint(most)) {
				t.Errorf("the session has %s bytes of %d", used, most)
			}
			text, _ = code(t, beside, "python", "open('f', 'wb').write(b'x' * (8 << 20))")
			if text != fmt.Sprint(8<<20) {
				t.Errorf("beside it: %s", text)
			}
			// What is in memory works on, and so does what makes room.
			if text, _ := code(t, s, "python", "x + 1"); text != "21" {
				t.Errorf("with a full disk: %s", text)
			}
			if err := s.Remove(t.Context(), "big"); err != nil && name != "file" {
				t.Errorf("remove a file of a full disk: %v", err)
			}
			if text, _ := code(t, s, "python", "open('small', 'w').write('abc')"); text != "3" {
				t.Errorf("after there is room: %s", text)
			}
		})
	}
}

// zeros is a file of that many bytes.
type zeros struct{ left int }

// Read implements [io.Reader].
func (z *zeros) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), z.left)
	clear(b[:n])
	z.left -= n
	return n, nil
}
