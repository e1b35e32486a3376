package engine_test

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/pause"
	"haft/internal/store"
)

// askFirst is a policy by which every call of a deleting tool waits for a person.
const askFirst = allowAll + `
rules:
  - {id: ask, effect: ask, tools: ["tool:delete*"]}
`

// pending makes a call that waits and returns its request.
func (w *world) pending(p haft.Principal, tool, args string) (*haft.Result, haft.Approval) {
	w.t.Helper()
	res := w.call(p, tool, args)
	want(w.t, res, haft.StatusPending)
	for a, err := range w.Approvals(w.t.Context(), approver(p.Org), haft.ApprovalFilter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if a.Call == res.Call {
			return res, a
		}
	}
	w.t.Fatalf("nobody is asked about %s", res.Call)
	return nil, haft.Approval{}
}

// end waits for the end of a call.
func (w *world) end(p haft.Principal, id haft.CallID) *haft.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	for {
		res, err := w.Wait(ctx, p, id)
		if err != nil {
			w.t.Fatalf("Wait(%s): %v", id, err)
		}
		if res.Status.Final() {
			return res
		}
		if ctx.Err() != nil {
			w.t.Fatalf("call %s stays %s", id, res.Status)
		}
	}
}

func TestApproval(t *testing.T) {
	ann := user("o", "ann")
	cases := []struct {
		name   string
		by     haft.Principal
		answer haft.Answer
		code   haft.Code
		want   haft.Status
		value  string
	}{
		{name: "agreed", by: approver("o"), answer: haft.Answer{Approve: true}, want: haft.StatusSuccess,
			value: `{"path":"/tmp/x"}`},
		{name: "refused with a reason", by: approver("o"), answer: haft.Answer{Reason: "not today"},
			want: haft.StatusRejected, value: "null"},
		{name: "agreed to other arguments", by: approver("o"),
			answer: haft.Answer{Approve: true, Args: json.RawMessage(`{"path":"/tmp/y"}`)}, want: haft.StatusSuccess,
			value: `{"path":"/tmp/y"}`},
		{name: "other arguments do not fit", by: approver("o"),
			answer: haft.Answer{Approve: true, Args: json.RawMessage(`{"path":7}`)}, code: haft.CodeInvalid},
		{name: "by the one who asked", by: haft.Principal{Org: "o", User: "ann", Roles: []string{"approver"}},
			answer: haft.Answer{Approve: true}, code: haft.CodeDenied},
		{name: "by somebody without the role", by: user("o", "bob"), answer: haft.Answer{Approve: true},
			code: haft.CodeNotFound},
		{name: "by an agent", by: haft.Principal{Org: "o", User: "boss", Agent: "a", Roles: []string{"approver"}},
			answer: haft.Answer{Approve: true}, code: haft.CodeDenied},
		{name: "from another organisation", by: approver("p"), answer: haft.Answer{Approve: true},
			code: haft.CodeNotFound},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, askFirst, engine.Config{})
			w.tool("o", "delete", nil)
			res, a := w.pending(ann, "delete", `{"path":"/tmp/x"}`)
			if w.script.count() != 0 {
				t.Fatal("it ran before anybody agreed")
			}
			_, err := w.Decide(t.Context(), c.by, a.ID, c.answer)
			if haft.CodeOf(err) != c.code {
				t.Fatalf("Decide: %v, want code %q", err, c.code)
			}
			if c.code != "" {
				if w.record("o", res.Call).Status != haft.StatusPending {
					t.Error("the call does not wait any more")
				}
				return
			}
			end := w.end(ann, res.Call)
			want(t, end, c.want)
			if string(end.Value) != c.value {
				t.Errorf("value %s, want %s", end.Value, c.value)
			}
			if _, err := w.Decide(t.Context(), c.by, a.ID, c.answer); haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("a second answer: %v", err)
			}
			if n := w.script.count(); (n == 1) != (c.want == haft.StatusSuccess) {
				t.Errorf("it ran %d times", n)
			}
			w.verify("o")
		})
	}
}

func TestApproval_is_authorized_again(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	_, err := w.PutPolicy(t.Context(), admin("o"), false,
		haft.PolicyText{Text: []byte("version: 1\nrules:\n  - {id: never, effect: deny, tools: [\"tool:delete\"]}\n")})
	check(t, err)
	// The rules refuse the answer, unless they have ended the call before.
	_, err = w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true})
	if code := haft.CodeOf(err); code != haft.CodeDenied && code != haft.CodeConflict {
		t.Errorf("Decide against the rules of now: %v", err)
	}
	want(t, w.end(user("o", "ann"), res.Call), haft.StatusDenied)
	if w.script.count() != 0 {
		t.Error("it ran")
	}
}

func TestApproval_is_for_the_version_that_was_shown(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	old := w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	w.tool("o", "delete", func(d *haft.Draft) { d.Source = "def delete(): everything()" })
	if _, err := w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if end := w.end(user("o", "ann"), res.Call); end.Digest != old.Version.Digest {
		t.Errorf("version %s ran, %s was shown", end.Digest, old.Version.Digest)
	}
}

func TestApproval_expires(t *testing.T) {
	w := setup(t, askFirst, engine.Config{ApprovalExpires: time.Millisecond})
	w.tool("o", "delete", nil)
	res := w.call(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	want(t, res, haft.StatusPending)
	time.Sleep(2 * time.Millisecond) //nolint:forbidigo // what is tested is this wait
	if _, err := w.Decide(t.Context(), approver("o"), res.Approval,
		haft.Answer{Approve: true}); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Decide: %v", err)
	}
	want(t, w.end(user("o", "ann"), res.Call), haft.StatusRejected)
}

// Requests that an older version left behind when their calls ended do not stay, and keep no others from expiring.
func TestApproval_of_an_ended_call_expires(t *testing.T) {
	w := setup(t, askFirst, engine.Config{Beat: 10 * time.Millisecond})
	w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	check(t, w.Cancel(t.Context(), user("o", "ann"), res.Call))
	a.ID, a.State, a.Expires = "a_left", haft.ApprovalPending, time.Now()
	check(t, w.store.Commit(t.Context(), store.Batch{Approvals: []haft.Approval{a}}))
	for {
		left, err := w.store.Approvals.PendingOf(t.Context(), "o", res.Call)
		if check(t, err); len(left) == 0 {
			break
		}
		if err := pause.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// ATTACK: somebody sees an ended request that rules about its arguments kept from them, because the arguments are not
// all kept.
func TestApproval_ended_is_seen_by_who_could_answer(t *testing.T) {
	for name, tt := range map[string]struct {
		redact string
		want   bool
	}{
		"all is kept":     {"", true},
		"not all is kept": {"redact: [path], ", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, allowAll+`
rules:
  - {id: ask, effect: ask, tools: ["tool:delete*"], `+tt.redact+`approval: {users: [carl]}}
`, engine.Config{})
			w.tool("o", "delete", nil)
			ann, carl := user("o", "ann"), user("o", "carl")
			res, a := w.pending(ann, "delete", `{"path":"/tmp/x"}`)
			if !w.Engine.Answerable(t.Context(), carl, a) || w.Engine.Answerable(t.Context(), user("o", "dora"), a) {
				t.Error("while it waits, others than carl can answer it")
			}
			check(t, w.Cancel(t.Context(), ann, res.Call))
			a = *w.approvalNow(a)
			if got := w.Engine.Answerable(t.Context(), carl, a); got != tt.want || a.State != haft.ApprovalExpired {
				t.Errorf("carl could answer it: %v, want %v; it is %s", got, tt.want, a.State)
			}
			if w.Engine.Answerable(t.Context(), user("o", "dora"), a) {
				t.Error("dora sees it")
			}
		})
	}
}

// approvalNow reads a request again.
func (w *world) approvalNow(a haft.Approval) *haft.Approval {
	w.t.Helper()
	now, err := w.store.Approvals.Approval(w.t.Context(), a.Requester.Org, a.ID)
	check(w.t, err)
	return now
}

func TestApproval_survives_a_restart(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	check(t, w.Engine.Close())
	again := open(t, w.store, askFirst, engine.Config{})
	if _, err := again.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	want(t, again.end(user("o", "ann"), res.Call), haft.StatusSuccess)
	events := again.events("o", res.Call)
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
	}
}

func TestApproval_cancelled(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	res, a := w.pending(user("o", "ann"), "delete", `{"path":"/tmp/x"}`)
	check(t, w.Cancel(t.Context(), user("o", "ann"), res.Call))
	if _, err := w.Decide(t.Context(), approver("o"), a.ID,
		haft.Answer{Approve: true}); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Decide: %v", err)
	}
	want(t, w.end(user("o", "ann"), res.Call), haft.StatusCancelled)
}

// Who cancels a call in the moment in which it begins to wait for a person cancels it: nobody is asked any more.
func TestApproval_cancelled_while_it_begins_to_wait(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	for round := range 400 {
		w.cancelledWhileItBeginsToWait(round * 50) // each time at another moment
	}
}

// cancelledWhileItBeginsToWait cancels a call after others have had so many turns. The time that it waits bounds a call
// that stays, and not what all rounds take together, which on a busy machine is long.
func (w *world) cancelledWhileItBeginsToWait(turns int) {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ann := user("o", "ann")
	rec, err := w.Submit(ctx, haft.Call{Tool: "delete", Principal: ann, Args: json.RawMessage(`{"path":"/tmp/x"}`)})
	check(t, err)
	for range turns {
		runtime.Gosched()
	}
	check(t, w.Cancel(ctx, ann, rec.Call.ID))
	for {
		now, err := w.store.Calls.Record(t.Context(), "o", rec.Call.ID)
		if check(t, err); now.Status == haft.StatusCancelled {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("after %d turns: the call that was cancelled is %s", turns, now.Status)
		}
		runtime.Gosched()
	}
	a, err := w.store.Approvals.ApprovalOf(ctx, "o", rec.Call.ID)
	if haft.CodeOf(err) != haft.CodeNotFound && (err != nil || a.State != haft.ApprovalExpired) {
		t.Fatalf("the request for approval of a call that was cancelled: %+v, %v", a, err)
	}
}

func TestApproval_by_the_tool_itself(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", func(d *haft.Draft) { d.Settings.RequiresApproval = true })
	res, a := w.pending(user("o", "ann"), "work", `{"x":1}`)
	if _, err := w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	want(t, w.end(user("o", "ann"), res.Call), haft.StatusSuccess)
}

// WEAKNESS: an approval of one call is used for a second.
// Several who agree at the same moment let it run once, and those who were too late do not
// keep its end from being written.
func TestApproval_of_many_at_once(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	for round := range int64(20) {
		w.agreeAtOnce(t, round+1)
	}
}

func (w *world) agreeAtOnce(t *testing.T, round int64) {
	t.Helper()
	ann := user("o", "ann")
	res, a := w.pending(ann, "delete", `{"path":"/tmp/x"}`)
	var all sync.WaitGroup
	var agreed atomic.Int64
	for range 20 {
		all.Go(func() {
			if _, err := w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err == nil {
				agreed.Add(1)
			}
		})
	}
	all.Wait()
	want(t, w.end(ann, res.Call), haft.StatusSuccess)
	if agreed.Load() != 1 || int64(w.script.count()) != round {
		t.Errorf("%d agreed, and in %d rounds it ran %d times", agreed.Load(), round, w.script.count())
	}
}

func TestApproval_cannot_be_replayed(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", nil)
	ann := user("o", "ann")
	res, a := w.pending(ann, "delete", `{"path":"/tmp/x"}`)
	if _, err := w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	want(t, w.end(ann, res.Call), haft.StatusSuccess)
	if _, err := w.Call(t.Context(), haft.Call{ID: res.Call, Tool: "delete", Args: json.RawMessage(`{"path":"/"}`),
		Principal: ann}); haft.CodeOf(err) == "" {
		t.Error("a call with the id of an earlier one was taken")
	}
	again, err := w.Replay(t.Context(), ann, res.Call)
	if err != nil {
		t.Fatal(err)
	}
	want(t, again, haft.StatusPending)
	if w.script.count() != 1 {
		t.Errorf("it ran %d times", w.script.count())
	}
}

func TestAgents_have_only_their_tools(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	w.tool("o", "other", nil)
	a, err := w.PutAgent(t.Context(), admin("o"), haft.Agent{Name: "bot", Tools: []string{"work"},
		Env: map[string]string{"GREETING": "good morning"}})
	if err != nil {
		t.Fatal(err)
	}
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		return ok(r, `"`+r.Env["HAFT_AGENT_ID"]+`"`), nil
	})
	p := haft.Principal{Org: "o", User: "ann", Agent: string(a.ID), Roles: []string{"user"}}
	if res := w.call(p, "work", `{}`); string(res.Value) != `"`+string(a.ID)+`"` {
		t.Errorf("value %s", res.Value)
	}
	if _, err := w.Call(t.Context(), haft.Call{Tool: "other", Principal: p}); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a tool that is not attached: %v", err)
	}
	names := []string{}
	for tool, err := range w.Tools(t.Context(), p, haft.ToolFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if len(names) != 1 || names[0] != "work" {
		t.Errorf("the agent sees %v", names)
	}
	shown, err := w.Agent(t.Context(), admin("o"), "bot")
	if err != nil || shown.Env["GREETING"] == "good morning" {
		t.Errorf("the environment can be read: %v, %v", shown, err)
	}
	p.Roles = []string{"admin"}
	if err := w.Stop(t.Context(), p, "an agent wants it", true); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Stop by an agent: %v", err)
	}
}

func TestToolRules(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	for _, name := range []string{"first", "second", "other"} {
		w.tool("o", name, nil)
	}
	a, err := w.PutAgent(t.Context(), admin("o"), haft.Agent{Name: "bot", Tools: []string{"first", "second", "other"},
		Rules: []haft.ToolRule{
			{Type: haft.RuleFirst, Tool: "first", Args: map[string]json.RawMessage{"x": json.RawMessage("7")}},
			{Type: haft.RuleChildren, Tool: "first", Children: []string{"second"}},
			{Type: haft.RuleApproval, Tool: "other"},
		}})
	if err != nil {
		t.Fatal(err)
	}
	p := haft.Principal{Org: "o", User: "ann", Agent: string(a.ID), Roles: []string{"user"}}
	step := func(tool, turn string) *haft.Result {
		return w.do(haft.Call{Tool: tool, Principal: p, Turn: turn, Args: json.RawMessage(`{"x":1}`)})
	}
	if res := step("first", ""); kindOf(res) != haft.FailRule {
		t.Errorf("without a turn: %+v", res)
	}
	if res := step("second", "t1"); kindOf(res) != haft.FailRule {
		t.Errorf("second before first: %+v", res)
	}
	if res := step("first", "t1"); string(res.Value) != `{"x":7}` {
		t.Errorf("first: %s %+v", res.Value, res.Error)
	}
	if res := step("other", "t1"); kindOf(res) != haft.FailRule {
		t.Errorf("other after first: %+v", res)
	}
	want(t, step("second", "t1"), haft.StatusSuccess)
	want(t, step("other", "t1"), haft.StatusPending)
}
