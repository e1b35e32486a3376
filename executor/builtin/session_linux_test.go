package builtin_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/session"
	"haft/sandbox"
)

// newSessions returns a set with run_code that has sessions.
func newSessions(t testing.TB) *builtin.Set {
	t.Helper()
	x := newScript(t, openLocal(t), "local")
	m := session.New(session.Config{Open: x.OpenSession})
	t.Cleanup(m.Close)
	s := builtin.New()
	if err := builtin.RunCode(s, x, builtin.CodeConfig{TypeScript: typeScript, Sessions: m}); err != nil {
		t.Fatal(err)
	}
	return s
}

// sessionCode is a value of run_code.
type sessionCode struct {
	Status  haft.Status
	Value   any
	Stdout  string
	Error   *struct{ Kind, Type, Message string }
	Files   []string
	Results []struct {
		Text  string
		Table json.RawMessage
		Files []string
	}
	Notes []string
}

// runIn runs code in a session.
func runIn(t testing.TB, s *builtin.Set, args map[string]any,
	more func(*executor.Request)) (sessionCode, *haft.Result) {
	t.Helper()
	if args["session"] == nil {
		args["session"] = "s"
	}
	res := execute(t, s, "run_code", args, func(r *executor.Request) {
		r.Principal.User = "alice"
		if more != nil {
			more(r)
		}
	})
	var out sessionCode
	if res.Error != nil {
		t.Fatalf("%v: %+v", args, *res.Error)
	}
	if err := json.Unmarshal(res.Value, &out); err != nil {
		t.Fatal(err)
	}
	return out, res
}

func TestRunCode_in_a_session(t *testing.T) {
	need(t, "python")
	need(t, "javascript")
	s := newSessions(t)
	python := func(code string) map[string]any { return map[string]any{"language": "python", "code": code} }
	if out, _ := runIn(t, s, python("x = {'a': [1]}"), nil); out.Value != nil || out.Status != "success" {
		t.Errorf("an assignment: %+v", out)
	}
	if out, res := runIn(t, s, python("print('hi'); x"), nil); out.Stdout != "hi\n" ||
		out.Value.(map[string]any)["a"] == nil || res.Sandbox.Isolation.Level == "" {
		t.Errorf("the next code: %+v, %+v", out, res.Sandbox)
	}
	if out, _ := runIn(t, s, python("1/0"), nil); out.Error == nil || out.Error.Type != "ZeroDivisionError" {
		t.Errorf("an exception: %+v", out)
	}
	ts := map[string]any{"language": "typescript", "code": "const n: number = 4; n * 2"}
	if out, _ := runIn(t, s, ts, nil); out.Value != float64(8) {
		t.Errorf("TypeScript: %+v", out)
	}
	out, res := runIn(t, s, python("open('out/r', 'w').write(open('in.txt').read())"),
		func(r *executor.Request) {
			r.Files = append(r.Files, sandbox.File{Name: "in.txt", Data: []byte("data")})
		})
	if len(out.Files) != 1 || len(res.Artifacts) != 1 || string(res.Artifacts[0].Data) != "data" {
		t.Errorf("files in and out: %+v, %+v", out, res.Artifacts)
	}
	if out, _ := runIn(t, s, python("1"), nil); len(out.Files) != 0 {
		t.Errorf("a file that was there before is new: %+v", out)
	}
	png := python("class P:\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\ndisplay(P())")
	if out, res := runIn(t, s, png, nil); len(out.Results) != 1 || len(res.Artifacts) != 1 ||
		res.Artifacts[0].ContentType != "image/png" {
		t.Errorf("an image: %+v", out)
	}
	if out, _ := runIn(t, s, python("import os; os._exit(3)"), nil); out.Error == nil || len(out.Notes) != 1 {
		t.Errorf("an interpreter that ends: %+v", out)
	}
	if out, _ := runIn(t, s, python("'x' in globals()"), nil); out.Value != false {
		t.Errorf("after that: %+v", out)
	}
	env := func(r *executor.Request) { r.Env = map[string]string{"HAFT_CALL_ID": "c_9"} }
	for _, c := range []struct{ language, code string }{
		{"python", "import os; print(os.environ.get('HAFT_CALL_ID'))"}, {"bash", "echo ${HAFT_CALL_ID:-None}"},
		{"javascript", "console.log(process.env.HAFT_CALL_ID ?? 'None')"},
	} {
		args := map[string]any{"language": c.language, "code": c.code}
		if out, _ := runIn(t, s, args, env); out.Stdout != "c_9\n" {
			t.Errorf("%s, an environment: %+v", c.language, out)
		}
		if out, _ := runIn(t, s, args, nil); out.Stdout != "None\n" {
			t.Errorf("%s, the environment of the call before: %+v", c.language, out)
		}
	}
}

// A program gets all that code shows, and gives it variables for one run.
func TestRunCode_for_programs(t *testing.T) {
	need(t, "python")
	s := newSessions(t)
	code := "class F:\n  def _repr_png_(self): return b'x' * 300000\n  def _repr_html_(self): return '<b>'\n" +
		"import os; display(F()); os.environ['A']"
	out, res := runIn(t, s, map[string]any{"language": "python", "code": code, "forms": true,
		"env": []string{"A=1=2"}}, nil)
	var kept session.Outcome
	if len(res.Artifacts) != 1 || res.Artifacts[0].Name != "results.json" || len(out.Results) != 0 {
		t.Fatalf("got %+v, %d artifacts", out, len(res.Artifacts))
	}
	if err := json.Unmarshal(res.Artifacts[0].Data, &kept); err != nil || kept.Count != 1 || len(kept.Results) != 2 ||
		len(kept.Results[0].Data["png"]) < 400_000 || string(kept.Results[0].Data["html"]) != `"\u003cb\u003e"` ||
		!kept.Results[1].Main || string(kept.Results[1].Data["text"]) != `"1=2"` {
		t.Errorf("got %.300s, %v", res.Artifacts[0].Data, err)
	}
	after := map[string]any{"language": "python", "code": "'A' in os.environ"}
	if out, _ := runIn(t, s, after, nil); out.Value != false {
		t.Errorf("the variable stays: %+v", out)
	}
	for name, args := range map[string]map[string]any{
		"no name":          {"session": "s", "env": []string{"=1"}},
		"no sign":          {"session": "s", "env": []string{"A"}},
		"a command":        {"session": "s", "language": "bash", "env": []string{"A;touch x;B=1"}},
		"NUL":              {"session": "s", "env": []string{"A=\x00"}},
		"many":             {"session": "s", "env": slices.Repeat([]string{"A=1"}, 1000)},
		"without a name":   {"env": []string{"A=1"}},
		"forms, alone":     {"forms": true},
		"begins as number": {"session": "s", "env": []string{"1A=1"}},
	} {
		args["code"] = "1"
		if args["language"] == nil {
			args["language"] = "python"
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		req := executor.Request{Call: "c_1", Org: "acme", Principal: haft.Principal{Org: "acme", User: "alice"},
			Kind: haft.KindBuiltin, Tool: "run_code", Args: raw}
		if res, err := s.Execute(t.Context(), req); err == nil && res.Status == haft.StatusSuccess {
			t.Errorf("%s: %s", name, res.Value)
		}
	}
}

func TestRunCode_session_is_refused(t *testing.T) {
	need(t, "python")
	s := newSessions(t)
	runIn(t, s, map[string]any{"language": "python", "code": "secret = 1"}, nil)
	args := map[string]any{"language": "python", "code": "'secret' in globals()", "session": "s"}
	other := func(r *executor.Request) { r.Principal.User = "bob" }
	if out, _ := runIn(t, s, args, other); out.Value != false {
		t.Errorf("the session of that name of another user: %+v", out)
	}
	for name, c := range map[string]struct {
		args map[string]any
		more func(*executor.Request)
	}{
		"other limits":        {args, func(r *executor.Request) { r.Limits.Memory = 100 << 20 }},
		"other secrets":       {args, func(r *executor.Request) { r.Env = map[string]string{"TOKEN": "t1"} }},
		"another route":       {args, func(r *executor.Request) { r.Route = "example.com" }},
		"nobody":              {args, func(r *executor.Request) { r.Principal.User = "" }},
		"more isolation":      {args, func(r *executor.Request) { r.Need.Level = haft.LevelMachine }},
		"an id of nobody":     {map[string]any{"language": "python", "code": "1", "session": "sess_x"}, nil},
		"a name with a slash": {map[string]any{"language": "python", "code": "1", "session": "a/b"}, nil},
		"input":               {map[string]any{"language": "python", "code": "1", "session": "s", "stdin": "x"}, nil},
	} {
		raw, err := json.Marshal(c.args)
		if err != nil {
			t.Fatal(err)
		}
		req := executor.Request{Call: "c_1", Org: "acme", Principal: haft.Principal{Org: "acme", User: "alice"},
			Kind: haft.KindBuiltin, Tool: "run_code", Args: raw}
		if c.more != nil {
			c.more(&req)
		}
		if res, err := s.Execute(t.Context(), req); err == nil && res.Status == haft.StatusSuccess {
			t.Errorf("%s: %s", name, res.Value)
		}
	}
}

func TestRunCode_session_ends_on_time(t *testing.T) {
	need(t, "python")
	s := newSessions(t)
	runIn(t, s, map[string]any{"language": "python", "code": "x = 1"}, nil)
	out, _ := runIn(t, s, map[string]any{"language": "python", "code": "while True: pass", "timeout_seconds": 0.3}, nil)
	if out.Error == nil || out.Error.Kind != "timeout" {
		t.Errorf("code without end: %+v", out)
	}
	if out, _ := runIn(t, s, map[string]any{"language": "python", "code": "x"}, nil); out.Value != float64(1) {
		t.Errorf("after an interrupt: %+v", out)
	}
	slow := func(r *executor.Request) {
		r.Principal.User, r.Limits.Wall = "alice", haft.Millis(300*time.Millisecond)
	}
	endless := map[string]any{"language": "python", "code": "while True: pass", "session": "s"}
	res := execute(t, s, "run_code", endless, slow)
	if res.Status != haft.StatusTimeout {
		t.Errorf("code longer than the call may take: %+v", res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	raw := json.RawMessage(`{"language":"python","code":"print(1)\nwhile True: pass","session":"s"}`)
	res, err := s.Execute(ctx, executor.Request{Call: "c_1", Org: "acme",
		Principal: haft.Principal{Org: "acme", User: "alice"}, Kind: haft.KindBuiltin, Tool: "run_code", Args: raw,
		Stdout: func(b []byte) {
			if strings.Contains(string(b), "1") {
				cancel()
			}
		}})
	if err != nil || res.Status != haft.StatusCancelled {
		t.Errorf("a cancelled call: %+v, %v", res, err)
	}
}
