package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/session"
)

// failing is content that cannot be read to its end.
type failing struct{ before func() }

// Read implements [io.Reader].
func (f failing) Read(b []byte) (int, error) {
	f.before()
	return 0, errors.New("the sender has gone")
}

// ATTACKER: an owner who breaks requests off, and code that removes what the agent works with.
// WEAKNESS: the agent ends by an exception, and with it all that the session holds.
// VERIFIES: the variable of a context is still there after each of them.
func TestAgent_outlives_its_requests(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	code(t, s, "python", "x = 41\nopen('big', 'wb').write(b'x' * (8 << 20))\nimport os\nos.mkfifo('fifo')")
	for name, attack := range map[string]func(){
		"a download is broken off": func() {
			f, size, err := s.ReadFile(t.Context(), "big", 0)
			if err != nil || size != 8<<20 {
				t.Fatal(size, err)
			}
			if _, err := io.ReadFull(f, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"a download from behind the beginning": func() {
			if f, _, err := s.ReadFile(t.Context(), "big", -1); err == nil {
				_ = f.Close()
			}
		},
		"an upload is broken off whose file code has removed": func() {
			_, err := s.WriteFile(t.Context(), "up", 0, io.MultiReader(strings.NewReader("x"), failing{func() {
				code(t, s, "python", "import glob\nfor f in glob.glob('up*'): os.unlink(f)")
			}}))
			if err == nil || !strings.Contains(err.Error(), "the sender has gone") {
				t.Error(err)
			}
		},
		"an upload of a file that code has removed": func() {
			_, err := s.WriteFile(t.Context(), "up", 0, io.MultiReader(strings.NewReader("x"), readerFunc(func() {
				code(t, s, "python", "import glob\nfor f in glob.glob('up*'): os.unlink(f)")
			})))
			if haft.CodeOf(err) != haft.CodeNotFound {
				t.Error(err)
			}
		},
		"a file that is none": func() {
			if _, _, err := s.ReadFile(t.Context(), "fifo", 0); haft.CodeOf(err) != haft.CodeInvalid {
				t.Error(err)
			}
		},
		"a port where nothing listens": func() {
			if _, err := s.Dial(t.Context(), 1); haft.CodeOf(err) != haft.CodeNotFound {
				t.Error(err)
			}
		},
		"a directory that is no directory": func() {
			if _, err := s.Start(t.Context(), session.Command{Argv: []string{"true"}, Dir: "big"}); err == nil {
				t.Error("it was started")
			}
		},
		"a name that no file can have": func() {
			if err := s.MakeDir(t.Context(), strings.Repeat("x", 300)); err == nil {
				t.Error("it was made")
			}
		},
	} {
		attack()
		if text, _ := code(t, s, "python", "x + 1"); text != "42" {
			t.Errorf("%s: x + 1 is %q", name, text)
		}
	}
}

// ATTACKER: code that stops the kernel of a context, or keeps the agent from its work.
// WEAKNESS: the agent waits for the kernel, and who waits for a command waits for ever.
// VERIFIES: with a kernel that reads nothing the agent does other work; a command that cannot be ended
// is the end of the session.
func TestAgent_what_is_stopped_holds_nobody(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	pid, _ := code(t, s, "python", "import os\nos.getpid()")
	if status, out := sh(t, s, "kill -STOP "+pid); status != 0 {
		t.Fatal(out)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	large := session.Code{Language: "python", Source: "#" + strings.Repeat("x", 1<<20)}
	if out, err := s.Run(short, large); !errors.Is(err, context.DeadlineExceeded) || !out.Lost {
		t.Errorf("Run = %+v, %v", out, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := s.Stat(soon, "/work"); err != nil {
		t.Fatalf("the agent does nothing any more: %v", err)
	}
	if text, _ := code(t, s, "python", "len('"+strings.Repeat("x", 1<<20)+"')"); text != "1048576" {
		t.Errorf("a new context says %q", text)
	}

	p, err := s.Start(t.Context(), session.Command{Argv: []string{"sleep", "300"}})
	if err != nil {
		t.Fatal(err)
	}
	p.Ignore()
	_, err = p.Wait(short)
	if haft.CodeOf(err) != haft.CodeNotFound || !strings.Contains(err.Error(), "a command could not be ended") {
		t.Errorf("Wait = %v", err)
	}
}

// A file that cannot be written is refused while its content is sent, not when the caller gives up.
func TestSession_WriteFile_is_refused_at_once(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	code(t, s, "python", "open('file', 'w').close()")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for name, want := range map[string]haft.Code{"/proc/x/y": haft.CodeNotFound, "file/y": haft.CodeConflict} {
		_, err := s.WriteFile(ctx, name, 0, bytes.NewReader(make([]byte, 4<<20)))
		if haft.CodeOf(err) != want || ctx.Err() != nil {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// A command that cannot be started leaves no terminal behind: the next has the first again.
func TestSession_Start_that_fails_leaves_no_terminal(t *testing.T) {
	o := session.Options{}
	o.Request.Terminals = true
	s := open(t, setup(t, session.Config{}), o)
	size := &session.Size{Rows: 24, Cols: 80}
	terminal := func() string {
		var printed bytes.Buffer
		p, err := s.Start(t.Context(), session.Command{Argv: []string{"tty"}, Terminal: size,
			Stdout: func(b []byte) { printed.Write(b) }})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := p.Wait(t.Context()); status != 0 || err != nil {
			t.Fatal(status, err, printed.String())
		}
		return printed.String()
	}
	first := terminal()
	for _, argv := range [][]string{{"/no/such/program"}, {"nul\x00"}} {
		if _, err := s.Start(t.Context(), session.Command{Argv: argv, Terminal: size}); err == nil {
			t.Fatalf("%q was started", argv)
		}
	}
	if next := terminal(); next != first {
		t.Errorf("the first terminal was %q, the next is %q", first, next)
	}
}

// readerFunc is empty content, after something is done.
type readerFunc func()

// Read implements [io.Reader].
func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// However often a session is extended, it does not live longer than any may.
func TestManager_Extend(t *testing.T) {
	m := setup(t, session.Config{MaxTTL: time.Hour})
	s := open(t, m, session.Options{TTL: time.Minute})
	last := s.Info().Created.Add(time.Hour)
	for _, c := range []struct {
		ttl, idle time.Duration
		code      haft.Code
		want      time.Time
	}{
		{time.Hour, 0, "", last}, {time.Hour, time.Hour, "", last},
		{2 * time.Hour, 0, haft.CodeInvalid, last}, {0, 2 * time.Hour, haft.CodeInvalid, last},
		{1, 0, haft.CodeInvalid, last}, {0, 1, haft.CodeInvalid, last}, {-1, 0, haft.CodeInvalid, last},
	} {
		err := m.Extend(s, c.ttl, c.idle)
		if (c.code == "") != (err == nil) || err != nil && haft.CodeOf(err) != c.code || s.Info().Expires != c.want {
			t.Errorf("%v, %v: %v, and it expires at %v", c.ttl, c.idle, err, s.Info().Expires)
		}
	}
	if idle := s.Info().IdleTimeout.D(); idle != time.Hour {
		t.Errorf("it ends when it was not used for %v", idle)
	}
	if err := m.Extend(s, time.Minute, 0); err != nil || time.Until(s.Info().Expires) > time.Minute {
		t.Errorf("a shorter life: %v, %v", err, s.Info().Expires)
	}
}
