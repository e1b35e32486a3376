package builtin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/secret"
	"haft/internal/session"
)

// commandWorld is a set with run_code and run_command.
func commandWorld(t *testing.T) (*builtin.Set, *session.Manager) {
	t.Helper()
	need(t, "python")
	x := newScript(t, openLocal(t), "local")
	m := session.New(session.Config{Open: x.OpenSession})
	t.Cleanup(m.Close)
	s := builtin.New()
	if err := builtin.RunCode(s, x, builtin.CodeConfig{Sessions: m}); err != nil {
		t.Fatal(err)
	}
	if err := builtin.RunCommand(s, m); err != nil {
		t.Fatal(err)
	}
	return s, m
}

var alice = haft.Principal{Org: "acme", User: "alice"}

// commandRequest is a call of alice.
func commandRequest(t *testing.T, tool string, args map[string]any) executor.Request {
	t.Helper()
	args["session"] = "s"
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return executor.Request{Call: "c_1", Org: "acme", Principal: alice, Kind: haft.KindBuiltin, Tool: tool, Args: raw,
		Env: map[string]string{"HAFT_CALL_ID": "c_1"}}
}

// commandResult is a value of run_command.
type commandResult struct {
	Status         haft.Status
	Stdout, Stderr string
	Exit           *int                            `json:"exit_code"`
	Error          *struct{ Kind, Message string } `json:"error"`
	Files          []string
}

// command runs a command.
func command(t *testing.T, s *builtin.Set, ctx context.Context, req executor.Request) (commandResult, *haft.Result) {
	t.Helper()
	res, err := s.Execute(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	var out commandResult
	if err := json.Unmarshal(res.Value, &out); err != nil {
		t.Fatal(err)
	}
	return out, res
}

func TestRunCommand(t *testing.T) {
	s, _ := commandWorld(t)
	for _, c := range []struct {
		name string
		args map[string]any
		want func(commandResult) bool
	}{
		{"a command line", map[string]any{"command": "echo a; echo b >&2; echo x > out/f"},
			func(r commandResult) bool {
				return r.Stdout == "a\n" && r.Stderr == "b\n" && *r.Exit == 0 && len(r.Files) == 1
			}},
		{"arguments without a shell", map[string]any{"argv": []string{"echo", "$HOME", "*"}},
			func(r commandResult) bool { return r.Stdout == "$HOME *\n" }},
		{"a status", map[string]any{"command": "exit 3"},
			func(r commandResult) bool { return *r.Exit == 3 && r.Status == haft.StatusError }},
		{"a signal", map[string]any{"command": "kill -9 $$"},
			func(r commandResult) bool { return r.Exit == nil && strings.Contains(r.Error.Message, "signal 9") }},
		{"a directory and variables", map[string]any{"command": "pwd; echo $V", "cwd": "/tmp",
			"env": map[string]string{"V": "v", "HAFT_CALL_ID": "forged"}},
			func(r commandResult) bool { return r.Stdout == "/tmp\nv\n" }},
		{"the id of the call is not the caller's", map[string]any{"command": "echo $HAFT_CALL_ID",
			"env": map[string]string{"HAFT_CALL_ID": "forged"}},
			func(r commandResult) bool { return r.Stdout == "c_1\n" }},
		{"input", map[string]any{"command": "wc -c", "stdin": strings.Repeat("x", 3<<20)},
			func(r commandResult) bool { return strings.TrimSpace(r.Stdout) == "3145728" }},
		{"no input", map[string]any{"command": "cat"}, func(r commandResult) bool { return *r.Exit == 0 }},
		{"only the session", map[string]any{"argv": []string{}},
			func(r commandResult) bool { return *r.Exit == 0 && r.Stdout == "" && r.Error == nil }},
		{"no program", map[string]any{"argv": []string{"no-such-program"}},
			func(r commandResult) bool {
				return r.Error != nil && strings.Contains(r.Error.Message, "cannot be started")
			}},
		{"no directory", map[string]any{"command": "true", "cwd": "/nowhere"},
			func(r commandResult) bool { return r.Error != nil && r.Exit == nil }},
		{"a time", map[string]any{"command": "trap '' TERM; while :; do sleep 1; done", "timeout_seconds": 0.3},
			func(r commandResult) bool { return r.Error != nil && r.Error.Kind == string(haft.FailTimeout) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, _ := command(t, s, t.Context(), commandRequest(t, "run_command", c.args)); !c.want(out) {
				t.Errorf("got %+v", out)
			}
		})
	}
	for name, args := range map[string]map[string]any{
		"neither":       {},
		"both":          {"command": "x", "argv": []string{"x"}},
		"input of none": {"argv": []string{}, "stdin": "x"},
		"NUL":           {"command": "x", "env": map[string]string{"A": "a\x00b"}},
		"many":          {"argv": make([]string, 2000)},
		"no number":     {"command": "x", "timeout_seconds": -1},
	} {
		res, err := s.Execute(t.Context(), commandRequest(t, "run_command", args))
		if err != nil || res.Error == nil || res.Error.Kind != haft.FailValidation {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// started returns a request whose progress is told on the channel.
func started(req executor.Request) (executor.Request, chan struct{}) {
	ready := make(chan struct{}, 1)
	req.Progress = func(json.RawMessage) { ready <- struct{}{} }
	return req, ready
}

func TestRunCommand_takes_input_of_its_owner(t *testing.T) {
	s, m := commandWorld(t)
	req, ready := started(commandRequest(t, "run_command", map[string]any{
		"command": "trap 'kill $!; exit 3' TERM; cat; echo eof; sleep 60 & wait", "input": true}))
	seen := make(chan struct{})
	var printed strings.Builder
	req.Stdout = func(b []byte) {
		if printed.Write(b); strings.HasSuffix(printed.String(), "eof\n") {
			close(seen)
		}
	}
	ended := make(chan commandResult, 1)
	go func() {
		out, _ := command(t, s, t.Context(), req)
		ended <- out
	}()
	<-ready
	for name, by := range map[string]haft.Principal{
		"another user": {Org: "acme", User: "mallory"}, "another organisation": {Org: "evil", User: "alice"},
		"an agent of hers": {Org: "acme", User: "alice", Agent: "x"},
	} {
		evil := haft.CommandInput{Data: []byte("evil")}
		if err := m.Input(t.Context(), by, "c_1", evil); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range map[string]haft.CommandInput{
		"too much": {Data: make([]byte, session.MaxInput+1)}, "no signal": {Signal: "SIGX"}, "no size": {Rows: 3},
	} {
		if err := m.Input(t.Context(), alice, "c_1", in); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	send := func(in haft.CommandInput) {
		t.Helper()
		if err := m.Input(t.Context(), alice, "c_1", in); err != nil {
			t.Fatal(err)
		}
	}
	send(haft.CommandInput{Data: []byte("one\n")})
	send(haft.CommandInput{Data: []byte("two\n"), Close: true})
	select {
	case <-seen: // it has read all of its input
	case out := <-ended:
		t.Fatalf("it has ended: %+v", out)
	}
	send(haft.CommandInput{Signal: "SIGTERM"})
	if out := <-ended; out.Stdout != "one\ntwo\neof\n" || out.Exit == nil || *out.Exit != 3 {
		t.Errorf("got %+v", out)
	}
	err := m.Input(t.Context(), alice, "c_1", haft.CommandInput{Close: true})
	if haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("a call that has ended: %v", err)
	}
}

// A command without input, or with all of it from the start, takes signals of its owner, and nothing else.
func TestRunCommand_without_input_takes_signals(t *testing.T) {
	for name, args := range map[string]map[string]any{"none": {"command": "sleep 60"},
		"fixed": {"command": "sleep 60", "stdin": "all of it"}} {
		t.Run(name, func(t *testing.T) { takesSignals(t, args) })
	}
}

// takesSignals runs a command that takes signals only.
func takesSignals(t *testing.T, args map[string]any) {
	t.Helper()
	s, m := commandWorld(t)
	req, ready := started(commandRequest(t, "run_command", args))
	ended := make(chan commandResult, 1)
	go func() {
		out, _ := command(t, s, t.Context(), req)
		ended <- out
	}()
	<-ready
	for name, in := range map[string]haft.CommandInput{"data": {Data: []byte("x")}, "an end": {Close: true},
		"a size": {Rows: 1, Cols: 1}} {
		if err := m.Input(t.Context(), alice, "c_1", in); haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	mallory := haft.Principal{Org: "acme", User: "mallory"}
	kill := haft.CommandInput{Signal: "SIGKILL"}
	if err := m.Input(t.Context(), mallory, "c_1", kill); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a signal of another user: %v", err)
	}
	if err := m.Input(t.Context(), alice, "c_1", kill); err != nil {
		t.Fatal(err)
	}
	if out := <-ended; out.Error == nil || !strings.Contains(out.Error.Message, "signal 9") {
		t.Errorf("got %+v", out)
	}
}

// A call that is cancelled leaves nothing running that it started, also if that has made itself a daemon. What an
// earlier call left running goes on.
func TestRunCommand_cancelled_leaves_nothing(t *testing.T) {
	s, m := commandWorld(t)
	kept := commandRequest(t, "run_command", map[string]any{"command": "setsid sleep 1001 >/dev/null 2>&1 &"})
	kept.Call, kept.Env = "c_0", map[string]string{"HAFT_CALL_ID": "c_0"}
	command(t, s, t.Context(), kept)
	daemons := "setsid sleep 1002 >/dev/null 2>&1 & sleep 1002 & (setsid bash -c 'trap \"\" TERM; sleep 1002' & ); "
	for name, c := range map[string]struct {
		tool string
		args map[string]any
	}{
		"a command": {"run_command", map[string]any{"command": daemons + "trap '' TERM; while :; do sleep 1; done"}},
		"Python": {"run_code", map[string]any{"language": "python",
			"code": "import os, subprocess, time\nsubprocess.Popen(['bash', '-c', '''" + daemons + "''']).wait()\n" +
				"if os.fork() == 0:\n  time.sleep(1002)\n  os._exit(0)\nopen('ready', 'w').close()\ntime.sleep(60)"}},
		"Bash": {"run_code", map[string]any{"language": "bash", "code": daemons + "touch ready; sleep 60"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		req := commandRequest(t, c.tool, c.args)
		if c.tool == "run_command" {
			req.Args = json.RawMessage(strings.Replace(string(req.Args), "trap '' TERM; while",
				"touch ready; trap '' TERM; while", 1))
		}
		done := make(chan *haft.Result, 1)
		go func() {
			res, _ := s.Execute(ctx, req)
			done <- res
		}()
		sess, err := m.Get(alice, "s")
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if _, err := sess.Stat(t.Context(), "ready"); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(name, "does not begin")
			}
		}
		cancel()
		if res := <-done; res == nil || res.Status != haft.StatusCancelled {
			t.Errorf("%s: %+v", name, res)
		}
		look := commandRequest(t, "run_command", map[string]any{
			"command": "rm -f ready; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done | " +
				"grep '^sleep 100'"})
		look.Call, look.Env = "c_2", map[string]string{"HAFT_CALL_ID": "c_2"}
		if out, _ := command(t, s, t.Context(), look); strings.Contains(out.Stdout, "1002") ||
			!strings.Contains(out.Stdout, "1001") {
			t.Errorf("%s leaves %+v", name, out)
		}
	}
}

func TestRunCommand_processor_time(t *testing.T) {
	s, m := commandWorld(t)
	for name, req := range map[string]executor.Request{
		"a command": commandRequest(t, "run_command", map[string]any{"command": "while :; do :; done"}),
		"a child":   commandRequest(t, "run_command", map[string]any{"command": "(while :; do :; done) & sleep 60"}),
		"Python":    commandRequest(t, "run_code", map[string]any{"language": "python", "code": "while True: pass"}),
	} {
		req.Limits.CPU = haft.Millis(500 * time.Millisecond)
		req.Limits.Wall = haft.Millis(30 * time.Second)
		out, res := command(t, s, t.Context(), req)
		if sess, err := m.Get(alice, "s"); err == nil && res.Usage.CPU == 0 {
			t.Skipf("this machine does not know the processor time of %s", sess.Info().ID)
		}
		if out.Status != haft.StatusLimit || out.Error.Kind != string(haft.FailCPU) ||
			res.Usage.Wall.D() > 20*time.Second {
			t.Errorf("%s: %+v, %+v", name, out, res.Usage)
		}
	}
	after := commandRequest(t, "run_command", map[string]any{"command": "echo on"})
	if out, res := command(t, s, t.Context(), after); out.Stdout != "on\n" || res.Usage.CPU.D() > 5*time.Second {
		t.Errorf("the session does not go on: %+v", out)
	}
}

// What code writes into files and variables is redacted as its output is.
func TestSession_files_have_no_secrets(t *testing.T) {
	s, m := commandWorld(t)
	value := "zq8Vk2pLm4Rt6Yw1Xn3Bc5"
	hide := secret.NewRedactor(secret.Config{Values: []secret.Named{{Name: "TOKEN", Value: secret.New(value)}}})
	req := commandRequest(t, "run_command", map[string]any{
		"command": "head -c 300000 /dev/zero | tr '\\0' x > f; echo $TOKEN >> f; head -c 300000 /dev/zero >> f; " +
			"touch name-$TOKEN; ln -s $TOKEN link"})
	req.Env["TOKEN"], req.Redactor = value, hide
	command(t, s, t.Context(), req)
	code := commandRequest(t, "run_code", map[string]any{"language": "python",
		"code": "import os; t = os.environ['TOKEN']"})
	code.Env["TOKEN"], code.Redactor = value, hide
	command(t, s, t.Context(), code)
	sess, err := m.Get(alice, "s")
	if err != nil {
		t.Fatal(err)
	}
	f, err := sess.OpenFile(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	buf := make([]byte, 4096)
	for err == nil {
		var n int
		n, err = f.Read(buf)
		all.Write(buf[:n])
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := sess.Files(t.Context(), "/work", 1)
	if err != nil {
		t.Fatal(err)
	}
	contexts, err := sess.Contexts(t.Context())
	if err != nil || len(contexts) != 1 || len(contexts[0].Variables) == 0 {
		t.Fatalf("contexts: %+v, %v", contexts, err)
	}
	raw, err := json.Marshal([]any{dir, contexts})
	if err != nil {
		t.Fatal(err)
	}
	if text := all.String() + string(raw); strings.Contains(text, value) || all.Len() < 600000 {
		t.Errorf("a secret can be read, or %d bytes are too few", all.Len())
	}
	if !sess.Exposed() {
		t.Error("the session does not know that its code saw a secret")
	}
}
