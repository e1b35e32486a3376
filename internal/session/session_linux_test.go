package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/session"
	"haft/internal/skiptest"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/process"
)

func TestMain(m *testing.M) {
	local.Init()
	goleak.VerifyTestMain(m)
}

// setup returns a manager over the confined provider.
func setup(t testing.TB, cfg session.Config) *session.Manager {
	t.Helper()
	p, err := local.Open(context.WithoutCancel(t.Context()), local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		skiptest.Lacking(t, "sandbox", err.Error())
	}
	return setupOn(t, p, "local", cfg)
}

// setupOn returns a manager of sessions on a provider, which it closes in the end.
func setupOn(t testing.TB, p interface {
	sandbox.Provider
	io.Closer
}, name string, cfg session.Config) *session.Manager {
	t.Helper()
	return setupWith(t, p, name, script.Config{}, cfg)
}

// setupWith is setupOn, with an executor that is configured so.
func setupWith(t testing.TB, p interface {
	sandbox.Provider
	io.Closer
}, name string, scripts script.Config, cfg session.Config) *session.Manager {
	t.Helper()
	host, err := process.Open(process.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	finder := script.NewFinder(host, script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME")})
	ctx := context.WithoutCancel(t.Context())
	x := script.New(ctx, p, name, finder, scripts)
	cfg.Open = x.OpenSession
	m := session.New(cfg)
	t.Cleanup(func() {
		m.Close()
		x.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

var alice = haft.Principal{Org: "acme", User: "alice"}

// open opens a session of alice.
func open(t testing.TB, m *session.Manager, o session.Options) *session.Session {
	t.Helper()
	if o.Request.Principal.Org == "" {
		o.Request.Principal = alice
	}
	o.Request.Org = o.Request.Principal.Org
	s, err := m.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// code runs code that must end well, and returns its text and output.
func code(t testing.TB, s *session.Session, language, source string) (text, stdout string) {
	t.Helper()
	out, printed := runCode(t, s, language, source)
	if out.Error != nil {
		t.Fatalf("%s: %+v", source, *out.Error)
	}
	for _, r := range out.Results {
		if r.Main {
			if err := json.Unmarshal(r.Data["text"], &text); err != nil {
				t.Fatal(err)
			}
		}
	}
	return text, printed
}

// runCode runs code.
func runCode(t testing.TB, s *session.Session, language, source string) (*session.Outcome, string) {
	t.Helper()
	var printed bytes.Buffer
	keep := func(b []byte) { printed.Write(b) }
	out, err := s.Run(t.Context(), session.Code{Language: language, Source: source, Stdout: keep, Stderr: keep})
	if err != nil {
		t.Fatalf("Run %q: %v", source, err)
	}
	return out, printed.String()
}

// sh runs a command of the shell.
func sh(t testing.TB, s *session.Session, command string) (status int, output string) {
	t.Helper()
	var printed bytes.Buffer
	keep := func(b []byte) { printed.Write(b) }
	p, err := s.Start(t.Context(), session.Command{Argv: []string{"bash", "-c", command}, Stdout: keep, Stderr: keep})
	if err != nil {
		t.Fatalf("Start %q: %v", command, err)
	}
	status, err = p.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait %q: %v", command, err)
	}
	return status, printed.String()
}

func TestSession_code_remembers(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	for _, c := range []struct{ language, source, text, printed string }{
		{"python", "x = 20\nprint('hi')\nx + 1", "21", "hi\n"},
		{"python", "import math\nx * 2", "40", ""},
		{"python", "f'{math.floor(x)}'", "20", ""},
		{"python", "import asyncio\nawait asyncio.sleep(0)\ny = [x]", "", ""},
		{"python", "open('f.txt', 'w').write('abc')", "3", ""},
		{"javascript", "const a = 2; console.log('js'); a + 1", "3", "js\n"},
		{"javascript", "a * 10", "20", ""},
		{"javascript", "import fs from 'fs'\nfs.readFileSync('f.txt', 'utf8')", "abc", ""},
		{"javascript", "const later = await Promise.resolve(7); later", "7", ""},
		{"bash", "v=5; cd /tmp", "", ""},
		{"bash", "echo $v $PWD", "", "5 /tmp\n"},
	} {
		text, printed := code(t, s, c.language, c.source)
		if text != c.text || printed != c.printed {
			t.Errorf("%s %q = %q, printed %q; want %q, %q", c.language, c.source, text, printed, c.text, c.printed)
		}
	}
	vars, err := s.Variables(t.Context(), "python")
	if err != nil || len(vars) < 3 || vars[0] != (session.Variable{Name: "x", Type: "int", Text: "20"}) {
		t.Errorf("Variables = %+v, %v", vars, err)
	}
}

func TestSession_code_errors(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	for _, c := range []struct {
		language, source, name string
		line                   int
	}{
		{"python", "a = 1\n\n1/0", "ZeroDivisionError", 3},
		{"python", "def f(:", "SyntaxError", 1},
		{"python", "raise SystemExit(3)", "SystemExit", 1},
		{"javascript", "1\nnull.x", "TypeError", 2},
		{"javascript", "let z = [", "SyntaxError", 0},
	} {
		out, _ := runCode(t, s, c.language, c.source)
		if out.Error == nil || out.Error.Name != c.name || c.line != 0 && out.Error.Line != c.line || out.Lost {
			t.Errorf("%s %q: %+v, want %s in line %d", c.language, c.source, out.Error, c.name, c.line)
		}
	}
	if out, _ := runCode(t, s, "bash", "exit 3"); !out.Lost {
		t.Errorf("a shell that exits: %+v, want that it is lost", out)
	}
	if out, _ := runCode(t, s, "bash", "false"); out.Status == nil || *out.Status != 1 {
		t.Errorf("false in the next shell: %+v, want status 1", out)
	}
}

func TestSession_code_is_interrupted(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	for _, c := range []struct {
		language, before, source, after string
		lost                            bool
	}{
		{"python", "x = 1", "print('go')\nwhile True: pass", "x", false},
		{"python", "import signal", "signal.signal(2, signal.SIG_IGN)\nprint('go')\nwhile True: pass", "1", true},
		{"javascript", "var q = 1", "console.log('go'); while (true) {}", "q", false},
		{"bash", "w=1", "echo go; sleep 1000", "echo", true},
	} {
		code(t, s, c.language, c.before)
		ctx, cancel := context.WithCancel(t.Context())
		out, err := s.Run(ctx, session.Code{Language: c.language, Source: c.source,
			Stdout: func([]byte) { cancel() }})
		if err == nil || out.Lost != c.lost {
			t.Errorf("%s %q: %+v, %v; want an error, lost %t", c.language, c.source, out, err, c.lost)
		}
		code(t, s, c.language, c.after)
	}
}

func TestSession_commands(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	if status, out := sh(t, s, "echo out; echo err >&2; exit 3"); status != 3 || !strings.Contains(out, "out\n") ||
		!strings.Contains(out, "err\n") {
		t.Errorf("status %d, output %q", status, out)
	}
	if status, out := sh(t, s, "kill -9 $$"); status != -9 {
		t.Errorf("status %d, output %q; want -9", status, out)
	}
	var got bytes.Buffer
	p, err := s.Start(t.Context(), session.Command{Argv: []string{"cat"}, Stdin: true,
		Stdout: func(b []byte) { got.Write(b) }})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0123456789", 300_000)
	go func() {
		if err := p.Write(t.Context(), []byte(want)); err != nil {
			t.Error(err)
		}
		if err := p.CloseInput(); err != nil {
			t.Error(err)
		}
	}()
	if status, err := p.Wait(t.Context()); status != 0 || err != nil || got.String() != want {
		t.Errorf("cat: %d, %v, %d bytes; want %d", status, err, got.Len(), len(want))
	}
	_, err = s.Start(t.Context(), session.Command{Argv: []string{"nosuchprogram"}})
	if haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a program that is not there: %v", err)
	}
	// A command that ignores SIGTERM ends.
	ctx, cancel := context.WithCancel(t.Context())
	p, err = s.Start(ctx, session.Command{Argv: []string{"bash", "-c", "trap '' TERM; echo go; while true; do :; done"},
		Stdout: func([]byte) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(ctx); status != -int(syscall.SIGKILL) || err == nil {
		t.Errorf("a stubborn command: %d, %v", status, err)
	}
}

func TestSession_files(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	want := strings.Repeat("x", 3<<20)
	n, err := s.WriteFile(t.Context(), "a/b.txt", 0o600, strings.NewReader(want))
	if err != nil || n != int64(len(want)) {
		t.Fatalf("WriteFile = %d, %v", n, err)
	}
	r, size, err := s.ReadFile(t.Context(), "/work/a/b.txt", 1)
	if err != nil || size != int64(len(want)) {
		t.Fatalf("ReadFile = %d, %v", size, err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != want[1:] {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Move(t.Context(), "a/b.txt", "c/d.txt"); err != nil {
		t.Error(err)
	}
	if err := s.MakeDir(t.Context(), "c/e"); err != nil {
		t.Error(err)
	}
	list, cut, err := s.List(t.Context(), "c", 1)
	if err != nil || cut || len(list) != 2 || list[0].Name != "d.txt" || list[1].Type != "dir" {
		t.Errorf("List = %+v, %t, %v", list, cut, err)
	}
	if err := s.Remove(t.Context(), "c"); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"stat of nothing":     second(s.Stat(t.Context(), "c")),
		"read of a directory": third(s.ReadFile(t.Context(), "/work", 0)),
		"NUL":                 s.MakeDir(t.Context(), "a\x00b"), "the root": s.MakeDir(t.Context(), "/usr/x"),
	} {
		if c := haft.CodeOf(err); c == "" || c == haft.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What happens after Watch has returned is seen, however late somebody looks.
func TestSession_watch(t *testing.T) {
	s := open(t, setup(t, session.Config{}), session.Options{})
	seen := s.Watch(t.Context(), "/work")
	if _, err := s.WriteFile(t.Context(), "new", 0, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for c, err := range seen {
		if err != nil || c.Type != "create" || c.File.Name != "new" {
			t.Errorf("%+v, %v", c, err)
		}
		break
	}
	for _, err := range s.Watch(t.Context(), "/nowhere") {
		if haft.CodeOf(err) != haft.CodeNotFound {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestManager_others_do_not_see_it(t *testing.T) {
	m := setup(t, session.Config{})
	s := open(t, m, session.Options{Name: "mine"})
	for _, p := range []haft.Principal{
		{Org: "acme", User: "bob"}, {Org: "evil", User: "alice"}, {Org: "acme", User: "alice", Agent: "agent-x"},
		{Org: "acme"},
	} {
		for _, id := range []string{s.Info().ID, "mine", ""} {
			if _, err := m.Get(p, id); haft.CodeOf(err) != haft.CodeNotFound {
				t.Errorf("%+v gets %q: %v", p, id, err)
			}
		}
		if list := m.List(p, false); len(list) != 0 {
			t.Errorf("%+v sees %v", p, list)
		}
	}
	if got, err := m.Get(alice, "mine"); got != s || err != nil {
		t.Errorf("the owner gets %v, %v", got, err)
	}
	if _, err := m.Open(t.Context(), session.Options{Name: "mine",
		Request: executor.Request{Org: "acme", Principal: alice}}); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("a second of that name: %v", err)
	}
}

func TestManager_ends_what_is_idle_or_over(t *testing.T) {
	m := setup(t, session.Config{})
	for _, c := range []struct {
		o    session.Options
		want string
	}{
		{session.Options{Idle: time.Second}, "not used"},
		{session.Options{TTL: time.Second}, "time was over"},
	} {
		s := open(t, m, c.o)
		select {
		case <-s.Ended():
		case <-time.After(time.Minute):
			t.Fatal("the session lives on")
		}
		_, err := s.Run(t.Context(), session.Code{Language: "python", Source: "1"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("use after the end: %v", err)
		}
		if _, err := m.Get(alice, s.Info().ID); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Get after the end: %v", err)
		}
	}
	if _, err := m.Get(alice, "sess_aaaaaaaaxyz"); err == nil || !strings.Contains(err.Error(), "started anew") {
		t.Errorf("a session of another process: %v", err)
	}
}

func TestManager_bounds(t *testing.T) {
	m := setup(t, session.Config{PerOrg: 2})
	open(t, m, session.Options{})
	s := open(t, m, session.Options{})
	req := executor.Request{Org: "acme", Principal: alice}
	if _, err := m.Open(t.Context(), session.Options{Request: req}); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("a third: %v", err)
	}
	s.Close("it is not needed")
	open(t, m, session.Options{})
	_, err := m.Open(t.Context(), session.Options{TTL: 25 * time.Hour, Request: req})
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a long life: %v", err)
	}
	for _, o := range []session.Options{{TTL: 1}, {Idle: 1}, {Idle: -time.Hour}, {Idle: 999 * time.Millisecond}} {
		o.Request = req
		if _, err = m.Open(t.Context(), o); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("a short life %v, %v: %v", o.TTL, o.Idle, err)
		}
	}
	if n := m.Stop("stopped", func(p haft.Principal) bool { return p.Org == "acme" }); n != 2 {
		t.Errorf("Stop ended %d, want 2", n)
	}
}

// Each of many sessions has only its own variables.
func TestManager_many_at_once(t *testing.T) {
	m := setup(t, session.Config{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s, err := m.Open(t.Context(), session.Options{Request: executor.Request{Org: "acme",
				Principal: haft.Principal{Org: "acme", User: fmt.Sprint("u", i)}}})
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 10 {
				out, err := s.Run(t.Context(), session.Code{Language: "python",
					Source: fmt.Sprintf("n = globals().get('n', []) + [%d]; n == [%d] * %d", i, i, j+1)})
				if err != nil || len(out.Results) != 1 || string(out.Results[0].Data["text"]) != `"True"` {
					t.Errorf("session %d, code %d: %+v, %v", i, j, out, err)
				}
			}
			s.Close("done")
		})
	}
	wg.Wait()
}
