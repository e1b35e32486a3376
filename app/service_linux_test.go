package app_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/skiptest"
)

// openService opens a service that keeps its state in a directory.
func openService(t *testing.T, dir string) *app.Service {
	t.Helper()
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{AllowReduced: true}, Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// root is the administrator of the tests.
func root() haft.Principal {
	return haft.Principal{Org: "local", User: "root", Roles: []string{haft.RoleAdmin}}
}

// A tool is registered, called, found again after a restart, and its record and
// audit with it.
func TestService_keeps_what_it_is_given(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	s := openService(t, dir)
	ctx := t.Context()
	change, err := s.PutTool(ctx, root(), haft.Draft{Kind: haft.KindPython, Source: `
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    print("adding")
    return a + b
`})
	if err != nil {
		t.Fatal(err)
	}
	if !change.Created || change.Tool.Name != "add" || change.Tool.Version.Digest == "" {
		t.Errorf("PutTool = %+v", change)
	}
	res, err := s.Call(ctx, haft.Call{Tool: "add", Args: json.RawMessage(`{"a":2,"b":40}`), Principal: root()})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Value) != "42" || res.Stdout != "adding\n" || res.Sandbox.Isolation.Level == haft.LevelNone {
		t.Errorf("the call gave %s, %q in %s: %+v", res.Value, res.Stdout, res.Sandbox.Provider, res.Error)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openService(t, dir)
	rec, err := again.Record(ctx, root(), res.Call)
	if err != nil || rec.Status != haft.StatusSuccess || string(rec.Result.Value) != "42" {
		t.Errorf("the record after a restart: %+v, %v", rec, err)
	}
	replayed, err := again.Replay(ctx, root(), res.Call)
	if err != nil || string(replayed.Value) != "42" || replayed.Digest != res.Digest {
		t.Errorf("Replay = %+v, %v", replayed, err)
	}
	points, err := again.Store.Audit.AllCheckpoints(ctx, "local")
	if err != nil || len(points) == 0 {
		t.Errorf("the audit was not signed when the service was closed: %v, %v", points, err)
	}
}

// A source that is dangerous waits for a person, and is not run before.
func TestService_reviews_what_it_is_given(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	change, err := s.PutTool(t.Context(), root(), haft.Draft{Kind: haft.KindPython, Source: `
def run(code: str) -> str:
    """Run code.

    Args:
        code: what to run
    """
    return str(eval(code))
`})
	if err != nil {
		t.Fatal(err)
	}
	if change.Waiting == 0 || len(change.Tool.Version.Review.Findings) == 0 {
		t.Fatalf("PutTool = %+v", change)
	}
	early, err := s.Call(t.Context(), haft.Call{Tool: "run", Args: json.RawMessage(`{"code":"1"}`), Principal: root()})
	if err != nil || early.Status != haft.StatusDenied {
		t.Errorf("a version that waits for review: %+v, %v", early, err)
	}
	accept := haft.ToolState{Review: &haft.Answer{Approve: true, Reason: "I looked"}}
	if _, err := s.SetTool(t.Context(), root(), "run", accept); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("its author accepted it: %v", err)
	}
	other := root()
	other.User = "second"
	if _, err := s.SetTool(t.Context(), other, "run", accept); err != nil {
		t.Fatal(err)
	}
	res, err := s.Call(t.Context(), haft.Call{Tool: "run", Args: json.RawMessage(`{"code":"6*7"}`), Principal: root()})
	if err != nil || string(res.Value) != `"42"` {
		t.Errorf("Call = %+v, %v", res, err)
	}
}

// Code of a model runs in a cell like any other, in all four languages.
func TestService_runs_code(t *testing.T) {
	if _, err := open(t, app.Config{}).Runtime(t.Context(), haft.KindJavaScript); err != nil {
		skiptest.Lacking(t, "node", err.Error())
	}
	s := openService(t, t.TempDir())
	for language, code := range map[string]string{"python": "6*7", "javascript": "6*7",
		"typescript": "const n: number = 42; n", "bash": "echo 42"} {
		args, err := json.Marshal(map[string]string{"language": language, "code": code})
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Call(t.Context(), haft.Call{Tool: "run_code", Args: args, Principal: root()})
		if err != nil {
			t.Errorf("%s: %v", language, err)
			continue
		}
		var out struct {
			Status string
			Value  any
			Stdout string
		}
		if err := json.Unmarshal(res.Value, &out); err != nil {
			t.Errorf("%s: %s: %v", language, res.Value, err)
		}
		if out.Status != "success" || language != "bash" && out.Value != 42.0 ||
			language == "bash" && res.Stdout+out.Stdout == "" {
			t.Errorf("%s gave %s, %q, %+v", language, res.Value, res.Stdout, res.Error)
		}
		if res.Sandbox.Isolation.Level == haft.LevelNone {
			t.Errorf("%s ran without isolation", language)
		}
	}
}

func TestService_is_healthy_if_a_call_works(t *testing.T) {
	open(t, app.Config{})
	s := openService(t, t.TempDir())
	if err := s.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy: %v", err)
	}
	if err := s.Stop(t.Context(), root(), "a test", false); err != nil {
		t.Fatal(err)
	}
	if err := s.Healthy(t.Context()); err == nil {
		t.Error("a service that refuses all calls is healthy")
	}
}

// A call that must have a kernel of its own is refused at once where none is given, with the command that installs it,
// and nothing is started for it: no sandbox, and no session.
func TestService_refuses_isolation_that_it_does_not_have_at_once(t *testing.T) {
	open(t, app.Config{})
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{Sandbox: "local", AllowReduced: true,
		Keep: true}, Data: t.TempDir(), Policy: []byte("version: 1\nrules:\n- {id: all, effect: allow}\n" +
		"- {id: strong, effect: limit, min_isolation: kernel}\n")})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	draft := haft.Draft{Kind: haft.KindBash, Source: "#!/bin/bash\n# Say something.\necho said\n", Name: "say",
		Description: "Say something."}
	_, err = s.PutTool(t.Context(), root(), draft)
	must(t, err)
	cells := s.App.IdleCells("local")
	for tool, args := range map[string]string{"say": `{}`, "run_code": `{"code":"1"}`,
		"run_command": `{"session":"a","command":"true"}`} {
		best := time.Hour
		for range 5 { // the machine may be busy
			began := time.Now()
			res, err := s.Call(t.Context(), haft.Call{Tool: tool, Args: json.RawMessage(args), Principal: root()})
			best = min(best, time.Since(began))
			must(t, err)
			if res.Status != haft.StatusDenied || !strings.Contains(res.Error.Message, "haft doctor --fix") ||
				res.Sandbox.Provider != "none" || res.Usage.Wall != 0 || res.Stdout != "" {
				t.Fatalf("%s: %s, %+v, %+v", tool, res.Status, res.Error, res.Sandbox)
			}
		}
		if best > 100*time.Millisecond {
			t.Errorf("%s is refused after %s at best", tool, best)
		}
	}
	if n := s.App.IdleCells("local"); n != cells {
		t.Errorf("%d sandboxes are kept ready, %d were before", n, cells)
	}
	list, err := s.Sessions.Sessions(t.Context(), root())
	if err != nil || len(list) > 0 {
		t.Errorf("there are sessions: %+v, %v", list, err)
	}
	// A tool that demands it itself is refused when it is added.
	draft.Settings.MinIsolation = haft.LevelKernel
	if _, err := s.PutTool(t.Context(), root(), draft); !strings.Contains(haft.MessageOf(err), "haft doctor --fix") {
		t.Errorf("PutTool = %v", err)
	}
}
