package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"haft"
	"haft/engine"
	"haft/executor"
)

func TestBatch(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "par", func(d *haft.Draft) { d.Settings.Parallel = true })
	w.tool("o", "seq", nil)
	var at, most atomic.Int64
	gate := make(chan struct{})
	var waiting atomic.Int64
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		n := at.Add(1)
		defer at.Add(-1)
		most.Store(max(most.Load(), n))
		if r.Tool == "par" { // all three must be here before any may go
			if waiting.Add(1) == 3 {
				close(gate)
			}
			<-gate
		} else if n != 1 {
			t.Errorf("a sequential call ran beside %d others", n-1)
		}
		return ok(r, string(r.Args)), nil
	})
	var calls []haft.Call
	for i, tool := range []string{"par", "par", "par", "seq", "seq", "nothing"} {
		calls = append(calls, haft.Call{Tool: tool, Principal: user("o", "ann"), Args: json.RawMessage(fmt.Sprintf(`{"x":%d}`, i))})
	}
	results, err := w.Batch(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range results[:5] {
		if got, want := string(res.Value), fmt.Sprintf(`{"x":%d}`, i); got != want {
			t.Errorf("result %d is %s, want %s", i, got, want)
		}
	}
	if kindOf(results[5]) != haft.FailNotFound {
		t.Errorf("the call of nothing: %+v", results[5])
	}
}

func TestRun_chain(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "add", func(d *haft.Draft) { d.Settings.Parallel = true })
	w.tool("o", "delete", nil)
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		var in struct{ X int }
		if err := json.Unmarshal(r.Args, &in); err != nil {
			return nil, err
		}
		return ok(r, fmt.Sprintf(`{"sum":%d}`, in.X+1)), nil
	})
	ann := user("o", "ann")
	c, err := w.Run(t.Context(), ann, haft.Plan{Input: json.RawMessage(`{"x":1}`), Steps: []haft.Step{
		{ID: "a", Tool: "add", Args: json.RawMessage(`{"x":{"$from":"input/x"}}`)},
		{ID: "b", Tool: "add", Args: json.RawMessage(`{"x":{"$from":"a.value/sum"}}`)},
		{ID: "no", Tool: "add", Args: json.RawMessage(`{"x":1}`), If: `steps.a.value.sum > 100`},
		{ID: "d", Tool: "delete", Args: json.RawMessage(`{"x":{"$from":"b.value/sum"}}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status != haft.StatusPending {
		t.Fatalf("the chain is %s: %+v", c.Status, c)
	}
	for a, err := range w.Approvals(t.Context(), approver("o"), haft.ApprovalFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
		w.end(ann, a.Call)
	}
	for c.Status == haft.StatusPending || c.Status == haft.StatusRunning {
		if c, err = w.Chain(t.Context(), ann, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	if c.Status != haft.StatusSuccess {
		t.Fatalf("the chain is %s: %+v", c.Status, c.Error)
	}
	if got := string(c.Steps[3].Result.Value); got != `{"sum":4}` || c.Steps[2].State != haft.StepSkipped {
		t.Errorf("the last step gave %s, the conditional one is %s", got, c.Steps[2].State)
	}
	if w.script.count() != 3 {
		t.Errorf("%d runs", w.script.count())
	}
	if _, err := w.Chain(t.Context(), user("o", "bob"), c.ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("somebody else's chain: %v", err)
	}
}

func TestRun_in_the_background_outlives_the_one_who_asked(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "add", nil)
	release := make(chan struct{})
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		<-release
		return ok(r, `1`), nil
	})
	ann := user("o", "ann")
	ctx, leave := context.WithCancel(t.Context())
	c, err := w.Run(ctx, ann, haft.Plan{Background: true, Steps: []haft.Step{{ID: "a", Tool: "add", Args: json.RawMessage(`{"x":1}`)}}})
	leave()
	close(release)
	if err != nil || c.Status != haft.StatusRunning {
		t.Fatalf("Run: %+v, %v", c, err)
	}
	for !c.Status.Final() {
		if c, err = w.Chain(t.Context(), ann, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	if c.Status != haft.StatusSuccess || string(c.Steps[0].Result.Value) != "1" {
		t.Errorf("the chain is %s: %+v", c.Status, c.Error)
	}
}
