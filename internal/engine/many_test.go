package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

func TestBatch(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "par", func(d *haft.Draft) { d.Settings.Parallel = true })
	w.tool("o", "seq", nil)
	var at, most atomic.Int64
	release := make(chan struct{})
	var waiting atomic.Int64
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		n := at.Add(1)
		defer at.Add(-1)
		most.Store(max(most.Load(), n))
		if r.Tool == "par" { // all three must be here before any may go
			if waiting.Add(1) == 3 {
				close(release)
			}
			<-release
		} else if n != 1 {
			t.Errorf("a sequential call ran beside %d others", n-1)
		}
		return ok(r, string(r.Args)), nil
	})
	var calls []haft.Call
	for i, tool := range []string{"par", "par", "par", "seq", "seq", "nothing"} {
		calls = append(calls, haft.Call{Tool: tool, Principal: user("o", "ann"),
			Args: json.RawMessage(fmt.Sprintf(`{"x":%d}`, i))})
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
	c, err := w.Run(ctx, ann, haft.Plan{Background: true,
		Steps: []haft.Step{{ID: "a", Tool: "add", Args: json.RawMessage(`{"x":1}`)}}})
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

// Whoever is gone before a batch or a plan begins has nothing run for them, and what
// has yet to begin when they leave is not run.
func TestBatch_of_somebody_who_is_gone(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "seq", nil)
	calls := make([]haft.Call, 128)
	for i := range calls {
		calls[i] = haft.Call{Tool: "seq", Principal: user("o", "ann"), Args: json.RawMessage(`{}`)}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.Batch(gone, calls); err == nil || w.script.count() != 0 {
		t.Errorf("a batch of somebody who is gone: %v, %d runs", err, w.script.count())
	}
	ctx, leave := context.WithCancel(t.Context())
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		leave()
		return ok(r, "1"), nil
	})
	if _, err := w.Batch(ctx, calls); err != nil || w.script.count() != 1 {
		t.Errorf("somebody left while the first call ran: %v, %d runs", err, w.script.count())
	}
	if _, err := w.Batch(t.Context(), make([]haft.Call, 129)); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a batch of 129: %v", err)
	}
}

func TestCall_in_a_sandbox_that_is_not_there(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "f", nil)
	for _, name := range []string{"e2b", "modal", "gvisor", "process", "nonsense", "LOCAL"} {
		res := w.do(haft.Call{Tool: "f", Principal: user("o", "ann"), Args: json.RawMessage(`{}`), Sandbox: name})
		want(t, res, haft.StatusValidation)
		if res.Error == nil || !strings.Contains(res.Error.Message, "on this server; it has local") {
			t.Errorf("%s: %+v", name, res.Error)
		}
		_, err := w.PutTool(t.Context(), admin("o"),
			haft.Draft{Name: "g", Kind: haft.KindPython, Source: "def g(): pass",
				Settings: haft.Settings{Sandbox: name}})
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("a tool for %s: %v", name, err)
		}
		_, err = w.PutSandboxConfig(t.Context(), admin("o"), haft.SandboxConfig{Type: haft.SandboxType(name)})
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("a configuration for %s: %v", name, err)
		}
	}
	if n := w.script.count(); n != 0 {
		t.Errorf("%d calls ran elsewhere", n)
	}
	for _, name := range []string{"", "auto", "local"} {
		want(t, w.do(haft.Call{Tool: "f", Principal: user("o", "ann"), Args: json.RawMessage(`{}`), Sandbox: name}),
			haft.StatusSuccess)
	}
}

func TestFilters_are_bounded(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	for _, err := range w.Records(t.Context(), admin("o"), haft.CallFilter{Status: make([]haft.Status, 21)}) {
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("21 statuses: %v", err)
		}
	}
	for _, err := range w.Watch(t.Context(), admin("o"), haft.EventFilter{Types: make([]haft.EventType, 21)}, 0) {
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Fatalf("21 types: %v", err)
		}
	}
}
