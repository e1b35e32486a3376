package session_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/session"
)

// Many sessions run codes beside each other, none sees another's variables, and this process keeps
// nothing of their output.
func TestSession_many_beside_each_other(t *testing.T) {
	sessions, codes := 100, 10
	if testing.Short() {
		sessions = 8
	}
	m := setup(t, session.Config{PerOrg: 200})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list := make([]*session.Session, sessions)
	var work sync.WaitGroup
	slots := make(chan struct{}, 8) // of a machine with few processors
	for i := range sessions {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			who := haft.Principal{Org: "acme", User: fmt.Sprintf("u%d", i)}
			s, err := m.Open(t.Context(), session.Options{Name: "s", Request: executor.Request{Org: "acme",
				Principal: who, Limits: haft.Limits{Memory: 128 << 20}}})
			if err != nil {
				t.Error(err)
			}
			list[i] = s
		})
	}
	work.Wait()
	if t.Failed() {
		return
	}
	begin := make(chan struct{}) // all codes of all sessions begin at once
	for i, s := range list {
		for k := range codes {
			work.Go(func() {
				<-begin
				out, err := s.Run(t.Context(), session.Code{Language: "python", Source: fmt.Sprintf(
					"seen = globals().get('seen', set()) | {(%d, %d)}; print('x' * 100000)", i, k)})
				if err != nil || out.Error != nil {
					t.Errorf("session %d, code %d: %+v, %v", i, k, out, err)
				}
			})
		}
	}
	begun := time.Now()
	close(begin)
	work.Wait()
	t.Logf("%d codes in %d sessions took %v", sessions*codes, sessions, time.Since(begun))
	for i, s := range list {
		mine := fmt.Sprintf("sorted(seen) == [(%d, k) for k in range(%d)]", i, codes)
		if text, _ := code(t, s, "python", mine); text != "True" {
			t.Errorf("session %d saw other code: %s", i, text)
		}
		if _, err := m.Get(haft.Principal{Org: "acme", User: "mallory"}, s.Info().ID); err == nil {
			t.Error("another user has the session")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := len(m.List(haft.Principal{Org: "acme"}, true)); n != sessions {
		t.Errorf("%d sessions live", n)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
}

// Idle sessions end by themselves, also many at once, although commands have left processes running in them. None of
// these is left.
func TestManager_reaps_many_idle_sessions(t *testing.T) {
	sessions := 100
	if testing.Short() {
		sessions = 8
	}
	m := setup(t, session.Config{PerOrg: 200, PerOwner: 200})
	word := "left" + rand.Text()
	list := make([]*session.Session, sessions)
	var work sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range sessions {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, err := m.Open(t.Context(), session.Options{Request: executor.Request{Org: "acme", Principal: alice}})
			if err != nil {
				t.Error(err)
				return
			}
			list[i] = s
			status, text := sh(t, s, "(exec -a "+word+" sleep 1000000) < /dev/null > /dev/null 2>&1 &")
			if status != 0 {
				t.Errorf("session %d: status %d, %s", i, status, text)
			}
		})
	}
	work.Wait()
	if n := processesWith(t, word); n != sessions || len(m.List(alice, true)) != sessions {
		t.Errorf("%d sessions live and %d processes are left in them, want %d", len(m.List(alice, true)), n, sessions)
	}
	for _, s := range list { // only now, so that a slow machine does not take the first from this test
		if s == nil {
			t.FailNow() // it has been said why
		}
		if err := m.Extend(s, 0, time.Second); err != nil {
			t.Error(err)
		}
	}
	begun, most := time.Now(), 3*time.Minute
	for i, s := range list {
		select {
		case <-s.Ended():
		case <-time.After(time.Until(begun.Add(most))):
			t.Fatalf("session %d of %d lives on after %v", i, sessions, most)
		}
		if _, err := m.Get(alice, s.Info().ID); err == nil || !strings.Contains(err.Error(), "not used for 1s") {
			t.Errorf("session %d: %v", i, err)
		}
	}
	eventually(t, "no session is listed and no process is left", func() bool {
		return len(m.List(alice, true)) == 0 && processesWith(t, word) == 0
	})
	t.Logf("%d sessions that are idle after a second had ended, and left no process, after %v", sessions,
		time.Since(begun))
	if s := open(t, m, session.Options{}); s.Why() != nil {
		t.Errorf("a session after that: %v", s.Why())
	}
}

// Hostile files and directories hurt nobody but their session.
func TestSession_hostile_files(t *testing.T) {
	m := setup(t, session.Config{})
	s := open(t, m, session.Options{Request: executor.Request{Limits: haft.Limits{Inodes: 20000}}})
	code(t, s, "bash", `mkfifo fifo; ln -s /etc/hostname link; ln -s loop loop; mkdir many; cd many; `+
		`for i in $(seq 12000); do : > f$i; done; `+
		`cd ..; printf 'a\nb' > $'new\nline'; ln -s many/f1 out/x`)
	for _, c := range []struct {
		path string
		want haft.Code
	}{
		{"fifo", haft.CodeInvalid}, {"/dev/zero", haft.CodeInvalid}, {"/dev/tty", ""}, {"loop", haft.CodeInvalid},
		{"many", haft.CodeInvalid}, {"../../../../etc/shadow", ""}, {"", haft.CodeInvalid},
		{"a\x00b", haft.CodeInvalid}, {strings.Repeat("a/", 3000), haft.CodeInvalid}, {"nothing", haft.CodeNotFound},
	} {
		f, err := s.OpenFile(t.Context(), c.path)
		if err == nil {
			if n, copied := io.Copy(io.Discard, f); copied == nil && c.want != "" {
				t.Errorf("%.20q can be read: %d bytes", c.path, n)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		} else if c.want != "" && haft.CodeOf(err) != c.want {
			t.Errorf("%.20q: %v", c.path, err)
		}
	}
	dir, err := s.Files(t.Context(), "many", 1)
	if err != nil || !dir.Cut || len(dir.Files) == 0 || len(dir.Files) > 12000 {
		t.Errorf("a huge directory: %v", err)
	}
	if dir, err := s.Files(t.Context(), "new\nline", 0); err != nil || len(dir.Files) != 1 {
		t.Errorf("a name with a line break: %v", err)
	}
	if _, err := s.WriteFile(t.Context(), "many", 0, strings.NewReader("x")); err == nil {
		t.Error("a directory is replaced by a file")
	}
	if _, err := s.WriteFile(t.Context(), "fifo", 0, strings.NewReader("x")); err != nil {
		t.Errorf("a FIFO is replaced, and not written to: %v", err)
	}
	if text, _ := code(t, s, "python", "1 + 1"); text != "2" {
		t.Error("the session does not go on")
	}
}

func TestSession_watches_files(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	if _, err := s.WriteFile(t.Context(), "d/old", 0, strings.NewReader("1")); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	go func() {
		for c, err := range s.Watch(t.Context(), "d") {
			if err == nil {
				seen <- c.Type + " " + c.File.Name
			}
		}
	}()
	want := map[string]bool{"create new": true, "write old": true}
	deadline := time.After(3 * time.Minute)
	for i := 0; len(want) > 0; i++ {
		select {
		case got := <-seen:
			delete(want, got)
		case <-deadline:
			t.Fatalf("nothing was told of %v", want)
		default:
			// The watch may not have looked for the first time yet: each round is another change.
			for _, name := range []string{"d/new", "d/old"} {
				if i == 0 && name == "d/new" {
					continue
				}
				if _, err := s.WriteFile(t.Context(), name, 0, strings.NewReader(strings.Repeat("x", i))); err != nil {
					t.Fatal(err)
				}
			}
			if i > 0 && len(want) == 2 && i%3 == 0 {
				if err := s.Remove(t.Context(), "d/new"); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(100 * time.Millisecond)
		}
	}
}

// A port of a session carries both directions at once, more than a window of each.
func TestSession_port_carries_much(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	code(t, s, "python", `
import os, socket, threading
os.mkdir("/work/.ports")
server = socket.socket(socket.AF_UNIX)
server.bind("/work/.ports/8123")
server.listen()
def echo():
    while True:
        c, _ = server.accept()
        while data := c.recv(65536):
            c.sendall(data)
        c.close()
threading.Thread(target=echo, daemon=True).start()
`)
	c, err := s.DialPort(t.Context(), 8123)
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	go func() {
		if _, err := io.Copy(c, io.LimitReader(neverEnding('x'), size)); err != nil {
			t.Error(err)
		}
	}()
	if n, err := io.Copy(io.Discard, io.LimitReader(c, size)); err != nil || n != size {
		t.Errorf("%d bytes came back: %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.DialPort(t.Context(), 8124); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a port that nothing listens on: %v", err)
	}
}

// neverEnding is a text of one character.
type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
