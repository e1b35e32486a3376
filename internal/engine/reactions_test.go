package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/engine"
	"haft/internal/followup"
)

// raising raises an exception of a class unless the argument x is 1.
func raising(class string) func(context.Context, executor.Request) (*haft.Result, error) {
	return func(_ context.Context, req executor.Request) (*haft.Result, error) {
		if strings.Contains(string(req.Args), `"x":1`) {
			return ok(req, string(req.Args)), nil
		}
		res := failing(req, haft.StatusError, haft.FailException)
		res.Error.Type = class
		return res, nil
	}
}

// reacting registers a tool with one reaction.
func (w *world) reacting(name string, r haft.Reaction) {
	w.tool("o", name, func(d *haft.Draft) {
		d.Settings.OnError, d.Settings.Idempotent = []haft.Reaction{r}, len(r.Args) > 0
	})
}

func TestOnError(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	w.reacting("repaired", haft.Reaction{Types: []string{"ValueError"}, Args: raw(`{"x":1}`)})
	w.reacting("again", haft.Reaction{Args: raw(`{}`)})
	w.reacting("invalid", haft.Reaction{Args: raw(`{"x":"no number"}`)})
	w.reacting("constant", haft.Reaction{Types: []string{"ValueError"}, Value: raw(`"default"`)})
	for _, tt := range []struct {
		tool, class string
		runs        int
		value       string // "" is a failure
	}{
		{"repaired", "ValueError", 2, `{"x":1,"path":"/a"}`},
		{"repaired", "OtherError", 1, ""},
		{"again", "ValueError", 4, ""}, // a bound on calls that are made after calls
		{"invalid", "ValueError", 1, ""},
		{"constant", "ValueError", 1, `"default"`},
		{"constant", "OtherError", 1, ""},
	} {
		w.script.set(raising(tt.class))
		before := w.script.count()
		res := w.call(user("o", "ann"), tt.tool, `{"x":2,"path":"/a"}`)
		if runs := w.script.count() - before; runs != tt.runs || tt.value == "" && res.Status != haft.StatusError ||
			tt.value != "" && (res.Status != haft.StatusSuccess || string(res.Value) != tt.value ||
				len(res.Notices) != 1) {
			t.Errorf("%s after %s: %s %s (%v) in %d runs", tt.tool, tt.class, res.Status, res.Value, res.Notices, runs)
		}
	}
}

// A repaired call is refused or asked about like any other.
func TestOnError_repair_passes_policy_and_approval(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: no_one, effect: deny, tools: ["tool:denied"], when: 'args.x == 1'}
  - {id: ask_one, effect: ask, tools: ["tool:asked"], when: 'args.x == 1', approval: {roles: [approver]}}
`, engine.Config{})
	for _, name := range []string{"denied", "asked"} {
		w.reacting(name, haft.Reaction{Args: json.RawMessage(`{"x":1}`)})
		w.script.set(raising("ValueError"))
		before := w.script.count()
		want(t, w.call(user("o", "ann"), name, `{"x":2}`), haft.StatusError)
		if runs := w.script.count() - before; runs != 1 {
			t.Errorf("%s ran %d times", name, runs)
		}
	}
	requests := 0
	for a, err := range w.Approvals(t.Context(), admin("o"), haft.ApprovalFilter{Any: true}) {
		if requests++; err != nil || a.State != haft.ApprovalExpired {
			t.Errorf("a request is left behind: %v %+v", err, a)
		}
		if r := w.record("o", a.Call); r.Status != haft.StatusCancelled || len(r.Sealed) > 0 {
			t.Errorf("a call is left behind: %+v", r)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests", requests)
	}
}

// A call whose run nobody knows about is not made again by a program that embeds Haft.
func TestRecovery_leaves_calls_that_may_have_run(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Recoveries: []haft.Recovery{
		{Repair: func(context.Context, haft.Call, *haft.Result) json.RawMessage { return json.RawMessage(`{"x":1}`) }}}})
	w.tool("o", "work", nil)
	w.script.set(func(context.Context, executor.Request) (*haft.Result, error) { return nil, executor.ErrMaybeRan })
	want(t, w.call(user("o", "ann"), "work", `{"x":2}`), haft.StatusUnknown)
	if n := w.script.count(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// A version that the caller chose does not disable the current one.
func TestOnError_disables_the_tool(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.reacting("work", haft.Reaction{Types: []string{"PermissionError"}, Disable: true})
	old, err := w.Tool(t.Context(), admin("o"), "work")
	if err != nil {
		t.Fatal(err)
	}
	w.script.set(raising("PermissionError"))
	w.do(haft.Call{Tool: "work", Digest: old.Version.Digest, Principal: user("o", "ann")})
	if now, err := w.Tool(t.Context(), admin("o"), "work"); err != nil || now.Disabled {
		t.Fatalf("a pinned version disabled the tool: %v %+v", err, now)
	}
	for name, c := range map[string]haft.Call{
		"limits":   {Limits: haft.Limits{Memory: 1 << 20}},
		"deadline": {Deadline: time.Now().Add(time.Hour)},
		"env":      {Env: map[string]string{"REGION": "x"}},
	} {
		c.Tool, c.Principal = "work", user("o", "ann")
		want(t, w.do(c), haft.StatusError)
		if now, err := w.Tool(t.Context(), admin("o"), "work"); err != nil || now.Disabled {
			t.Fatalf("a caller disabled the tool by %s: %v %+v", name, err, now)
		}
	}
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		w.reacting("work", haft.Reaction{Types: []string{"PermissionError", "OSError"}, Disable: true})
		return raising("PermissionError")(t.Context(), req)
	})
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusError)
	if now, err := w.Tool(t.Context(), admin("o"), "work"); err != nil || now.Disabled {
		t.Fatalf("a version disabled the one that replaces it: %v %+v", err, now)
	}
	w.script.set(raising("PermissionError"))
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusError)
	if now, err := w.Tool(t.Context(), admin("o"), "work"); err != nil || !now.Disabled {
		t.Errorf("the tool is not disabled: %v %+v", err, now)
	}
}

// Programs that embed Haft repair arguments by a function.
func TestRecovery_repairs_arguments(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Recoveries: []haft.Recovery{
		{Tool: "work", Type: "ValueError", Repair: func(context.Context, haft.Call, *haft.Result) json.RawMessage {
			return json.RawMessage(`{"x":1}`)
		}}}})
	w.tool("o", "work", nil)
	for class, status := range map[string]haft.Status{"ValueError": haft.StatusSuccess,
		"OtherError": haft.StatusError} {
		w.script.set(raising(class))
		want(t, w.call(user("o", "ann"), "work", `{"x":2}`), status)
	}
}

// A result in place of a failure says where the call ran, what it took and what it wrote.
func TestOnError_keeps_what_is_known_of_the_run(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.reacting("constant", haft.Reaction{Value: json.RawMessage(`"default"`)})
	w.reacting("repaired", haft.Reaction{Args: json.RawMessage(`{"x":1}`)})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		res, err := raising("ValueError")(ctx, req)
		res.Sandbox.Provider, res.Usage.Wall, res.Stdout = "repair", 1, "of the repair"
		if res.Error != nil {
			res.Sandbox.Provider, res.Usage.Wall, res.Stdout = "first", 7, "of the first"
		}
		return res, err
	})
	for tool, stdout := range map[string]string{"constant": "of the first", "repaired": "of the repair"} {
		res := w.call(user("o", "ann"), tool, `{"x":2}`)
		want(t, res, haft.StatusSuccess)
		if res.Sandbox.Provider != "first" || res.Usage.Wall != 7 || res.Stdout != stdout {
			t.Errorf("%s: %+v %+v %q", tool, res.Sandbox, res.Usage, res.Stdout)
		}
	}
}

// A failure that was recovered from blocks the caller, pages a person and is in the audit all the same.
func TestOnError_leaves_blocks_and_audit(t *testing.T) {
	var paged []haft.Severity
	hooks := map[haft.Severity]func(context.Context, haft.Record){}
	for _, s := range haft.Severities() {
		hooks[s] = func(context.Context, haft.Record) { paged = append(paged, s) }
	}
	w := setup(t, allowAll+`
severity:
  - {kinds: [exception], level: critical}
`, engine.Config{OnFailure: hooks})
	w.reacting("work", haft.Reaction{Value: json.RawMessage(`"default"`)})
	w.script.set(raising("ValueError"))
	res := w.call(user("o", "ann"), "work", `{"x":2}`)
	want(t, res, haft.StatusSuccess)
	if !slices.Equal(paged, []haft.Severity{haft.SeverityCritical}) {
		t.Errorf("paged for %v", paged)
	}
	if !slices.ContainsFunc(w.audit("o"), func(e audit.Entry) bool {
		return strings.Contains(string(e.Body), `"recovered_from":"exception"`)
	}) {
		t.Error("the audit has no failure")
	}
	want(t, w.call(user("o", "ann"), "work", `{"x":2}`), haft.StatusDenied)
}

// Whoever cancels a call stops the call that is made after its failure too.
func TestOnError_ends_with_the_call(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.reacting("work", haft.Reaction{Args: json.RawMessage(`{"x":1}`)})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		if !strings.Contains(string(req.Args), `"x":1`) {
			return failing(req, haft.StatusError, haft.FailException), nil
		}
		if err := w.Cancel(t.Context(), user("o", "ann"), "c_first"); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	res, err := w.Call(ctx, haft.Call{ID: "c_first", Tool: "work", Args: json.RawMessage(`{"x":2}`),
		Principal: user("o", "ann")})
	if err != nil || ctx.Err() != nil {
		t.Fatalf("the second run went on: %v %v", err, ctx.Err())
	}
	want(t, res, haft.StatusError)
}

// A call that is cancelled when its tool fails has no other result.
func TestOnError_leaves_cancelled_calls(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.reacting("work", haft.Reaction{Value: json.RawMessage(`"default"`)})
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		if err := w.Cancel(t.Context(), user("o", "ann"), req.Call); err != nil {
			t.Error(err)
		}
		return failing(req, haft.StatusError, haft.FailException), nil
	})
	want(t, w.call(user("o", "ann"), "work", `{"x":2}`), haft.StatusError)
}

// However many ways there are to go on, a call has a bound on the calls that are made after it.
func TestOnError_has_one_budget(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "backup", nil)
	w.tool("o", "work", func(d *haft.Draft) {
		d.Settings.OnError, d.Settings.Idempotent = []haft.Reaction{{Args: json.RawMessage(`{}`)}}, true
		d.Settings.Fallback = "backup"
	})
	w.script.set(raising("ValueError"))
	want(t, w.call(user("o", "ann"), "work", `{"x":2}`), haft.StatusError)
	if n := w.script.count(); n != 1+followup.MaxCalls {
		t.Errorf("it ran %d times", n)
	}
}
