package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

// keyed is a principal whose credential names no user.
func keyed(id string) haft.Principal {
	return haft.Principal{Org: "o", Credential: id, Roles: []string{"user"}}
}

// first returns the code of the first error of a list, and how many there are.
func first[T any](list func(func(T, error) bool)) (n int, code haft.Code) {
	for _, err := range list {
		if err != nil {
			return n, haft.CodeOf(err)
		}
		n++
	}
	return n, ""
}

// Mallory has a key without a user. What others did without one is not hers, over
// every method that shows or ends calls.
func TestAuthority_an_empty_user_owns_nothing(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	w.tool("o", "ask", func(d *haft.Draft) { d.Settings.RequiresApproval = true })
	victim, ctx := keyed("k_victim"), t.Context()
	done := w.call(victim, "work", `{"x":1}`)
	waits := w.call(victim, "ask", `{}`)
	chain, err := w.Run(ctx, victim, haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "work"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, mallory := range map[string]haft.Principal{
		"another key": keyed("k_mallory"), "no credential": {Org: "o", Roles: []string{"user"}},
		"an agent":            {Org: "o", Agent: "ag_x", Credential: "k_mallory"},
		"a user of that name": user("o", "k_victim"), "a user": user("o", "mallory"),
	} {
		for what, err := range map[string]error{
			"Record":   func() error { _, err := w.Record(ctx, mallory, done.Call); return err }(),
			"Wait":     func() error { _, err := w.Wait(ctx, mallory, done.Call); return err }(),
			"Replay":   func() error { _, err := w.Replay(ctx, mallory, done.Call); return err }(),
			"EventsOf": func() error { _, err := w.EventsOf(ctx, mallory, done.Call, 0, 10); return err }(),
			"WatchCall": func() error {
				_, code := first(w.WatchCall(ctx, mallory, done.Call, 0))
				return &haft.Error{Code: code}
			}(),
			"Cancel":   w.Cancel(ctx, mallory, waits.Call),
			"Chain":    func() error { _, err := w.Chain(ctx, mallory, chain.ID); return err }(),
			"Approval": func() error { _, err := w.Approval(ctx, mallory, waits.Approval); return err }(),
		} {
			if haft.CodeOf(err) != haft.CodeNotFound {
				t.Errorf("%s by %s: %v", what, name, err)
			}
		}
		if n, code := first(w.Records(ctx, mallory, haft.CallFilter{})); n > 0 || code != "" {
			t.Errorf("%s lists %d calls, %s", name, n, code)
		}
		if n, code := first(w.Approvals(ctx, mallory, haft.ApprovalFilter{Any: true})); n > 0 || code != "" {
			t.Errorf("%s lists %d approvals, %s", name, n, code)
		}
		if n, err := w.CancelAll(ctx, mallory, haft.Principal{}); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s cancels %d calls: %v", name, n, err)
		}
		if sums, err := w.Usage(ctx, mallory, haft.UsageQuery{}); err == nil && len(sums) > 0 {
			t.Errorf("%s sees the usage %+v", name, sums)
		}
		short, cancel := context.WithCancel(ctx)
		n := 0
		for e, err := range w.Watch(short, mallory, haft.EventFilter{Marks: true}, 0) {
			if err != nil || e.Type == "" {
				cancel()
				break
			}
			n++
		}
		cancel()
		if n > 0 {
			t.Errorf("%s watches %d events", name, n)
		}
	}
	// It is the key's own, and the organisation's managers see it.
	for name, p := range map[string]haft.Principal{"the key": victim, "a manager": admin("o"),
		"an approver": approver("o")} {
		if _, err := w.Record(ctx, p, done.Call); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n, _ := first(w.Records(ctx, p, haft.CallFilter{})); n != 3 {
			t.Errorf("%s lists %d calls", name, n)
		}
	}
	if sums, err := w.Usage(ctx, victim, haft.UsageQuery{By: []haft.UsageBy{haft.ByUser}}); err != nil ||
		len(sums) != 1 || sums[0].Calls != 2 || sums[0].User != "" {
		t.Errorf("the key used %+v, %v", sums, err)
	}
	if n, err := w.CancelAll(ctx, victim, victim); err != nil || n != 1 {
		t.Errorf("the key cancels %d of its own: %v", n, err)
	}
}

// Who waits for a call that runs must be allowed to see it, also before there is a
// record.
func TestWait_is_for_who_may_see_the_call(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	running, release := make(chan struct{}), make(chan struct{})
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		close(running)
		<-release
		return ok(r, `"hunter2"`), nil
	})
	rec, err := w.Submit(t.Context(), haft.Call{Tool: "work", Args: json.RawMessage(`{}`), Principal: user("o", "ann")})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	for name, p := range map[string]haft.Principal{
		"mallory": user("o", "mallory"), "a stranger": admin("p"), "a key": keyed("k"),
		"a key for nothing": {Org: "o", User: "ann", Roles: []string{"admin"}, Actions: []haft.Action{haft.ToolsRead}},
	} {
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		res, err := w.Wait(short, p, rec.Call.ID)
		cancel()
		if code := haft.CodeOf(err); code != haft.CodeNotFound && code != haft.CodeDenied {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	close(release)
	caller := user("o", "ann")
	caller.Actions = []haft.Action{haft.CallsWrite} // is enough for one's own
	if res, err := w.Wait(t.Context(), caller, rec.Call.ID); err != nil || string(res.Value) != `"hunter2"` {
		t.Errorf("the caller: %+v, %v", res, err)
	}
}

// The result of a call is given again to who may call, under a key of the same owner
// and agent.
func TestIdempotency_is_authorised(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	w.tool("o", "other", nil)
	agents := map[string]string{}
	for name, tool := range map[string]string{"clerk": "work", "mallory": "other"} {
		a, err := w.PutAgent(t.Context(), admin("o"), haft.Agent{Name: name, Tools: []string{tool}})
		if err != nil {
			t.Fatal(err)
		}
		agents[name] = string(a.ID)
	}
	as := func(p haft.Principal, agent string) haft.Principal { p.Agent = agents[agent]; return p }
	call := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: as(user("o", "ann"), "clerk"),
		IdempotencyKey: "k"}
	one := w.do(call)
	want(t, one, haft.StatusSuccess)

	other := call
	other.Principal = as(user("o", "ann"), "mallory")
	if res, err := w.Call(t.Context(), other); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("an agent without the tool: %+v, %v", res, err)
	}
	if rec, err := w.Submit(t.Context(), other); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("in the background: %+v, %v", rec, err)
	}
	other.Principal = user("o", "ann")
	if res := w.do(other); res.Call == one.Call {
		t.Error("the key of an agent is that of its user")
	}
	for _, id := range []string{"k_1", "k_2"} {
		other.Principal = keyed(id)
		if res := w.do(other); res.Call == one.Call || w.do(other).Call != res.Call {
			t.Errorf("the key of %s is not its own", id)
		}
	}
	if runs := w.script.count(); runs != 4 {
		t.Errorf("there were %d runs", runs)
	}
	other.Principal = haft.Principal{Org: "o", Roles: []string{"user"}}
	if _, err := w.Call(t.Context(), other); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("the key of nobody: %v", err)
	}

	// What may not be called any more is not answered, and a conflict is not told.
	if _, err := w.PutPolicy(t.Context(), admin("o"), false,
		haft.PolicyText{Text: []byte(
			`{"version":1,"rules":[{"id":"closed","effect":"deny","tools":["tool:work"]}]}`)}); err != nil {
		t.Fatal(err)
	}
	want(t, w.do(call), haft.StatusDenied)
	rec, err := w.Submit(t.Context(), call)
	if err != nil || rec.Status != haft.StatusDenied || rec.Call.ID == one.Call {
		t.Errorf("in the background: %+v, %v", rec, err)
	}
	changed := call
	changed.Args = json.RawMessage(`{"x":2}`)
	want(t, w.do(changed), haft.StatusDenied)
	// The first call keeps its key.
	if _, err := w.PutPolicy(t.Context(), admin("o"), false,
		haft.PolicyText{Text: []byte(`{"version":1}`)}); err != nil {
		t.Fatal(err)
	}
	if res := w.do(call); res.Call != one.Call || w.script.count() != 4 {
		t.Errorf("it ran again: %+v", res)
	}
}

// The engine holds scopes and operators itself, whatever stands before it.
func TestAuthority_of_the_engine(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	ctx := t.Context()
	scoped := admin("o")
	scoped.Actions = []haft.Action{haft.ToolsRead}
	for what, err := range map[string]error{
		"stop":                w.Stop(ctx, admin("o"), "", false),
		"resume":              w.Resume(ctx, admin("o")),
		"the server's policy": func() error { _, err := w.Policy(ctx, admin("o"), true); return err }(),
		"to write it": func() error {
			_, err := w.PutPolicy(ctx, admin("o"), true, haft.PolicyText{Text: []byte("version: 1")})
			return err
		}(),
		"a call beyond the scope": func() error {
			_, err := w.Call(ctx,
				haft.Call{Tool: "work", Principal: scoped})
			return err
		}(),
		"a chain": func() error {
			_, err := w.Run(ctx, scoped, haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "work"}}})
			return err
		}(),
		"an agent": func() error { _, err := w.PutAgent(ctx, scoped, haft.Agent{Name: "x"}); return err }(),
		"calls": func() error {
			_, code := first(w.Records(ctx, scoped, haft.CallFilter{}))
			return &haft.Error{Code: code}
		}(),
		"events": func() error {
			_, code := first(w.Watch(ctx, scoped, haft.EventFilter{}, 0))
			return &haft.Error{Code: code}
		}(),
		"approvals": func() error {
			_, code := first(w.Approvals(ctx, scoped, haft.ApprovalFilter{}))
			return &haft.Error{Code: code}
		}(),
		"usage":                  func() error { _, err := w.Usage(ctx, scoped, haft.UsageQuery{}); return err }(),
		"sandbox configurations": func() error { _, err := w.SandboxConfig(ctx, scoped, "local"); return err }(),
	} {
		if haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.Stop(ctx, admin("ops"), "fire", false); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

// An approver whom the rule does not name sees the call that waits, and does not end it.
func TestCancel_is_not_for_approvers(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: leads, effect: ask, tools: ["tool:work"], approval: {roles: [lead]}}
`, engine.Config{})
	w.tool("o", "work", nil)
	res := w.call(user("o", "ann"), "work", `{}`)
	want(t, res, haft.StatusPending)
	excluded := approver("o")
	if _, err := w.Decide(t.Context(), excluded, res.Approval, haft.Answer{}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("an excluded approver refuses: %v", err)
	}
	if err := w.Cancel(t.Context(), excluded, res.Call); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("an excluded approver cancels: %v", err)
	}
	if _, err := w.CancelAll(t.Context(), excluded,
		haft.Principal{Org: "o", User: "ann"}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("an excluded approver cancels all: %v", err)
	}
	if rec, err := w.Record(t.Context(), excluded, res.Call); err != nil || rec.Status != haft.StatusPending {
		t.Errorf("the call is %+v, %v", rec, err)
	}
	if err := w.Cancel(t.Context(), user("o", "ann"), res.Call); err != nil {
		t.Errorf("who made it cancels: %v", err)
	}
}
