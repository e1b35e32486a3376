package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/engine"
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
	w.tool("o", name, func(d *haft.Draft) { d.Settings.OnError = []haft.Reaction{r} })
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
}

// A call whose run nobody knows about is not made again.
func TestOnError_leaves_calls_that_may_have_run(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.reacting("work", haft.Reaction{Args: json.RawMessage(`{"x":1}`)})
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
