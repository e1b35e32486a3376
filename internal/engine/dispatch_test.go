package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/limit"
	"haft/internal/store"
)

// until waits for something that other goroutines bring about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not come to that", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // it is asked for, not slept for
	}
}

// submit has calls of a tool accepted.
func (w *world) submit(tool string, n int) []haft.CallID {
	w.t.Helper()
	ids := make([]haft.CallID, n)
	for i := range ids {
		rec, err := w.Submit(w.t.Context(), haft.Call{Tool: tool, Principal: user("o", "ann"),
			Args: json.RawMessage(`{"x":1}`)})
		if err != nil {
			w.t.Fatal(err)
		}
		ids[i] = rec.Call.ID
	}
	return ids
}

// held has the tools of a world wait. Each run is told, and ends when it is let go or, with
// a cancelled result, when its context ends.
func (w *world) held() (started chan haft.CallID, letGo chan struct{}) {
	started, letGo = make(chan haft.CallID, 100), make(chan struct{})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		started <- req.Call
		select {
		case <-letGo:
			return ok(req, "1"), nil
		case <-ctx.Done():
			return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
		}
	})
	return started, letGo
}

// chainEnd waits until a chain has ended.
func (w *world) chainEnd(id haft.ChainID) *haft.Chain {
	w.t.Helper()
	var c *haft.Chain
	until(w.t, "the end of a chain", func() (done bool) {
		var err error
		if c, err = w.Chain(w.t.Context(), admin("o"), id); err != nil {
			w.t.Fatal(err)
		}
		return c.Status.Final()
	})
	return c
}

// twoSteps is a chain in the background whose second step is made whatever the first does.
func (w *world) twoSteps(tool string) *haft.Chain {
	w.t.Helper()
	c, err := w.Run(w.t.Context(), user("o", "ann"), haft.Plan{Background: true, Steps: []haft.Step{
		{ID: "a", Tool: tool, OnError: haft.OnErrorContinue},
		{ID: "b", Tool: tool, After: []string{"a"}, OnError: haft.OnErrorContinue}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestChain_goes_on_without_a_step_that_waited: who cancels a step that waits for a person has its chain go on at once,
// not when somebody looks at all chains again.
func TestChain_goes_on_without_a_step_that_waited(t *testing.T) {
	w := setup(t, allowAll+"\nrules: [{id: x, effect: ask}]\n", engine.Config{Beat: time.Hour})
	w.tool("o", "work", nil)
	c := w.twoSteps("work")
	cancel := func(i int) {
		var id haft.CallID
		until(t, "a step waits for a person", func() bool {
			now, err := w.Chain(t.Context(), admin("o"), c.ID)
			check(t, err)
			if id = now.Steps[i].Call; id == "" {
				return false
			}
			r, err := w.store.Calls.Record(t.Context(), "o", id)
			return err == nil && r.Status == haft.StatusPending && w.Running() == 0
		})
		check(t, w.Cancel(t.Context(), user("o", "ann"), id))
	}
	cancel(0)
	cancel(1)
	for i, s := range w.chainEnd(c.ID).Steps {
		if s.Result == nil || s.Result.Status != haft.StatusCancelled {
			t.Errorf("step %d ended with %+v", i, s.Result)
		}
	}
}

// TestDispatch_more_than_the_queue_takes: a call that is accepted runs, and one that cannot
// be is refused with a time to come back.
func TestDispatch_more_than_the_queue_takes(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Backlog: 30, Patience: time.Hour,
		Limits: limit.Config{Running: 1, PerTenant: 1, Queue: 2}})
	w.tool("o", "work", nil)
	_, letGo := w.held()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 { // one runs, and two have the queue
		wg.Go(func() { want(t, w.call(user("o", "ann"), "work", `{"x":1}`), haft.StatusSuccess) })
	}
	until(t, "the queue is full", func() bool { return w.Stats().Limits.Waiting == 2 })
	ids := w.submit("work", 30)
	_, err := w.Submit(t.Context(), haft.Call{Tool: "work", Principal: user("o", "ann"), Args: json.RawMessage(`{}`)})
	if x, ok := err.(*haft.Error); !ok || x.Code != haft.CodeRateLimited || x.RetryAfter == 0 {
		t.Errorf("a call too many: %v", err)
	}
	close(letGo)
	for _, id := range ids {
		want(t, w.end(user("o", "ann"), id), haft.StatusSuccess)
	}
	if n := w.script.count(); n != len(ids)+3 {
		t.Errorf("%d calls ran %d times", len(ids)+3, n)
	}
}

// TestRecover_more_than_a_page: what a dead process left is taken up whole.
func TestRecover_more_than_a_page(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	tool := w.tool("o", "work", nil)
	check(t, w.Engine.Close())
	const many = 2100 // more than is read, or adopted, at once
	b := store.Batch{Owner: "p_dead"}
	for i := range many {
		b.Records = append(b.Records,
			haft.Record{Call: haft.Call{ID: haft.CallID(fmt.Sprintf("c_%d", i)), Tool: "work",
				Principal: user("o", "ann")},
				ToolID: tool.ID, Digest: tool.Version.Digest,
				Status: []haft.Status{haft.StatusQueued, haft.StatusRunning}[i%2], Owner: "p_dead", Created: time.Now(),
				Sealed: json.RawMessage(`{"args":{"x":1},"async":true,"free":true}`)})
	}
	check(t, w.store.Commit(t.Context(), b))
	again := open(t, w.store, allowAll, engine.Config{})
	until(t, "the end of all calls", func() bool {
		list, err := w.store.Calls.Records(t.Context(), haft.CallFilter{Org: "o",
			Status: []haft.Status{haft.StatusQueued, haft.StatusRunning}, Limit: 1})
		check(t, err)
		return len(list) == 0
	})
	if n := again.script.count(); n != many/2 {
		t.Errorf("%d of the %d queued calls ran", n, many/2)
	}
}

// TestDispatch_outage takes the store away while one call runs and others wait for it.
func TestDispatch_outage(t *testing.T) {
	a, faults := faulty(t, engine.Config{Beat: 20 * time.Millisecond, DeadAfter: time.Hour, Patience: time.Hour,
		Limits: limit.Config{Running: 1}})
	a.tool("o", "work", nil)
	started, letGo := a.held()
	ids := a.submit("work", 20)
	<-started
	faults.set(true, 0)
	close(letGo)
	began := time.Now() // longer than the end of the first call is tried at once
	until(t, "the next call begins", func() bool { return a.PostponedCalls() > 0 && time.Since(began) > 2*time.Second })
	faults.set(false, 0)
	for _, id := range ids {
		want(t, a.end(user("o", "ann"), id), haft.StatusSuccess)
	}
	if n := a.script.count(); n != len(ids) {
		t.Errorf("%d calls ran %d times", len(ids), n)
	}
}

// TestDispatch_lost_answer: the store says that a call runs, and its server does not know.
func TestDispatch_lost_answer(t *testing.T) {
	b := &between{stage: "approve"}
	w, faults := faulty(t, engine.Config{Beat: 300 * time.Millisecond, DeadAfter: time.Hour, Observer: b})
	w.tool("o", "work", nil)
	b.do = func() { faults.set(false, 1) }
	id := w.submit("work", 1)[0]
	want(t, w.end(user("o", "ann"), id), haft.StatusSuccess)
	if n := w.script.count(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestDrain_leaves_chains_to_the_next: that a server stops is no reason for a chain to end.
func TestDrain_leaves_chains_to_the_next(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Patience: time.Hour, Limits: limit.Config{Running: 1}})
	w.tool("o", "work", nil)
	started, letGo := w.held()
	runs, waits := w.twoSteps("work"), w.twoSteps("work")
	<-started
	until(t, "the step of the other waits", func() bool { return w.Running() == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- w.Drain(ctx) }()
	until(t, "the drain begins", func() bool { _, stopped := w.Stopped(); return stopped })
	letGo <- struct{}{} // the first step of one chain ends, and that of the other begins
	<-started
	cancel()
	<-drained
	check(t, w.Engine.Close()) // which ends that step
	again := open(t, w.store, allowAll, engine.Config{})
	for _, c := range []*haft.Chain{runs, waits} {
		for i, s := range again.chainEnd(c.ID).Steps {
			if s.Result == nil || s.Result.Status != haft.StatusSuccess &&
				(i > 0 || s.Result.Status != haft.StatusCancelled) {
				t.Errorf("step %s: %+v", s.ID, s.Result)
			}
		}
	}
	if n := w.script.count() + again.script.count(); n != 4 {
		t.Errorf("the four steps ran %d times", n)
	}
}

// TestClose_leaves_steps_that_wait: a step that has not begun is made by the next engine.
func TestClose_leaves_steps_that_wait(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Patience: time.Hour, Limits: limit.Config{Running: 1}})
	w.tool("o", "work", nil)
	started, _ := w.held()
	w.submit("work", 1)
	<-started
	c := w.twoSteps("work")
	until(t, "its step waits", func() bool { return w.Running() == 2 })
	check(t, w.Engine.Close())
	again := open(t, w.store, allowAll, engine.Config{})
	for _, s := range again.chainEnd(c.ID).Steps {
		want(t, s.Result, haft.StatusSuccess)
	}
}

// untilEnd is a between whose second function is called when a call leaves.
type untilEnd struct {
	between
	end func()
}

func (u *untilEnd) Begin(ctx context.Context, _ haft.Call) (context.Context, engine.Span) {
	return ctx, u
}

func (u *untilEnd) End(*haft.Result, error) {
	if u.end != nil {
		u.end()
	}
}

// TestChain_goes_on_after_an_outage: that the store does not answer when a step is about to
// begin does not end its chain.
func TestChain_goes_on_after_an_outage(t *testing.T) {
	for name, c := range map[string]struct {
		cut   bool
		lose  int
		first haft.Status // of the first step, which may also be a success: a beat may lose its answer instead
	}{
		"the store is away":  {cut: true, first: haft.StatusSuccess},
		"its answer is lost": {lose: 1, first: haft.StatusError},
	} {
		t.Run(name, func(t *testing.T) {
			u := &untilEnd{between: between{stage: "approve"}}
			w, faults := faulty(t, engine.Config{Beat: 50 * time.Millisecond, DeadAfter: time.Hour, Observer: u})
			w.tool("o", "work", nil)
			u.do = func() { faults.set(c.cut, c.lose) }
			u.end = func() { faults.set(false, 0) }
			chain, ran := w.chainEnd(w.twoSteps("work").ID), 1
			if first := chain.Steps[0].Result; first.Status == haft.StatusSuccess {
				ran = 2
			} else {
				want(t, first, c.first)
			}
			want(t, chain.Steps[1].Result, haft.StatusSuccess)
			if n := w.script.count(); n != ran {
				t.Errorf("the steps ran %d times, want %d", n, ran)
			}
		})
	}
}

// TestChain_has_the_results_of_its_records: that the store does not answer when something of a
// step is written down says nothing about the step.
func TestChain_has_the_results_of_its_records(t *testing.T) {
	for name, c := range map[string]struct {
		stage, args string
		status      haft.Status
	}{
		"refused":   {"validate", `{"x":"no number"}`, haft.StatusValidation},
		"asked for": {"approve", `{"x":1}`, haft.StatusSuccess},
		"was run":   {"", `{"x":1}`, haft.StatusSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			u := &untilEnd{between: between{stage: c.stage}}
			w, faults := faulty(t, engine.Config{Beat: 50 * time.Millisecond, DeadAfter: time.Hour, Observer: u})
			w.tool("o", "work", func(d *haft.Draft) { d.Settings.RequiresApproval = c.stage == "approve" })
			u.do = func() { faults.set(false, 2) }
			if c.stage == "" {
				u.end = func() { faults.set(false, 0) }
				w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
					// else the chain waits long for the store
					check(t, w.Cancel(t.Context(), user("o", "ann"), req.Call))
					faults.set(true, 0)
					return ok(req, "1"), nil
				})
			}
			made, err := w.Run(t.Context(), user("o", "ann"),
				haft.Plan{Background: true, Steps: []haft.Step{{ID: "a", Tool: "work", Args: json.RawMessage(c.args)}}})
			check(t, err)
			until(t, "the end of the chain", func() bool {
				for a, err := range w.Approvals(t.Context(), approver("o"), haft.ApprovalFilter{}) {
					if err == nil {
						_, _ = w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true})
					}
				}
				now, err := w.Chain(t.Context(), admin("o"), made.ID)
				return err == nil && now.Status.Final()
			})
			step := w.chainEnd(made.ID).Steps[0]
			want(t, step.Result, c.status)
			if r := w.record("o", step.Call); r.Status != c.status {
				t.Errorf("the record says %s", r.Status)
			}
		})
	}
}
