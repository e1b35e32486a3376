package engine_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

func TestNewCallID_rises_and_cannot_be_guessed(t *testing.T) {
	a, b := haft.NewCallID(), haft.NewCallID()
	if len(a) != 32 || a == b || a[:7] != b[:7] && a > b {
		t.Errorf("ids %s and %s", a, b)
	}
	if a[12:] == b[12:] {
		t.Error("the random part is the same")
	}
}

// hold returns a world, and what has a call of organisation a run until it is told to end.
func hold(t *testing.T) (w *world, begin func(c haft.Call), end func() *haft.Result) {
	t.Helper()
	w = setup(t, allowAll, engine.Config{})
	w.tool("a", "work", nil)
	w.tool("b", "work", nil)
	started, ending, done := make(chan struct{}), make(chan struct{}), make(chan *haft.Result, 1)
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		if req.Org == "a" {
			close(started)
			<-ending
		}
		return ok(req, "1"), nil
	})
	stop := sync.OnceFunc(func() { close(ending) })
	t.Cleanup(stop)
	begin = func(c haft.Call) {
		go func() {
			res, err := w.Call(t.Context(), c)
			check(t, err)
			done <- res
		}()
		<-started
	}
	return w, begin, func() *haft.Result {
		stop()
		return <-done
	}
}

// TestCall_that_cannot_begin_gives_its_key_back: whoever chose an id that is taken, or
// came too late, can use the idempotency key for another call.
func TestCall_that_cannot_begin_gives_its_key_back(t *testing.T) {
	keyed := func(org string, id haft.CallID) haft.Call {
		return haft.Call{ID: id, Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user(org, "ann"),
			IdempotencyKey: "k"}
	}
	claimed := func(w *world, org string) haft.CallID {
		t.Helper()
		winner, _, err := w.store.Calls.Claim(t.Context(), org, "ann", "", "k", "other", "c_other", time.Now())
		check(t, err)
		return winner
	}
	t.Run("the id runs for another organisation", func(t *testing.T) {
		w, begin, end := hold(t)
		begin(keyed("a", "c_x"))
		if _, err := w.Call(t.Context(), keyed("b", "c_x")); haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("the second call with the id: %v", err)
		}
		want(t, w.do(keyed("b", "")), haft.StatusSuccess)
		want(t, end(), haft.StatusSuccess)
		want(t, w.record("a", "c_x").Result, haft.StatusSuccess)
	})
	t.Run("the id begins to run meanwhile", func(t *testing.T) {
		w, begin, end := hold(t)
		_, err := w.CallWith(t.Context(), keyed("b", "c_x"), func() { begin(keyed("a", "c_x")) })
		if haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("the second call with the id: %v", err)
		}
		want(t, w.do(keyed("b", "")), haft.StatusSuccess)
		want(t, end(), haft.StatusSuccess)
		want(t, w.record("a", "c_x").Result, haft.StatusSuccess)
		if winner := claimed(w, "a"); winner != "c_x" {
			t.Errorf("the key of the call that ran is that of %s", winner)
		}
	})
	t.Run("the same call begins to run meanwhile", func(t *testing.T) {
		w, begin, end := hold(t)
		_, err := w.CallWith(t.Context(), keyed("a", "c_x"), func() { begin(keyed("a", "c_x")) })
		if haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("the second call with the id: %v", err)
		}
		want(t, end(), haft.StatusSuccess)
		if winner := claimed(w, "a"); winner != "c_x" {
			t.Errorf("the key of the call that ran is that of %s", winner)
		}
	})
	t.Run("the engine is closed", func(t *testing.T) {
		w, _, _ := hold(t)
		check(t, w.Engine.Close())
		if _, err := w.Call(t.Context(), keyed("b", "")); haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("a call of a closed engine: %v", err)
		}
		if winner := claimed(w, "b"); winner != "c_other" {
			t.Errorf("the key is that of %s", winner)
		}
	})
}

// TestID_of_a_call_that_has_ended_meanwhile: a call that came in before another one of its
// id was recorded does not write over that record.
func TestID_of_a_call_that_has_ended_meanwhile(t *testing.T) {
	for name, args := range map[string]string{"that would run": `{}`, "that is refused": `[]`} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, allowAll, engine.Config{})
			w.tool("o", "work", nil)
			w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
				return ok(req, "1"),
					nil
			})
			c := haft.Call{ID: "c_1", Tool: "work", Args: json.RawMessage(`{}`), Principal: user("o", "ann")}
			again := c
			again.Args = json.RawMessage(args)
			res, err := w.CallWith(t.Context(), again, func() { want(t, w.do(c), haft.StatusSuccess) })
			if haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("the second call: %v, %v, want a conflict", res, err)
			}
			if r := w.record("o", "c_1"); r.Status != haft.StatusSuccess {
				t.Errorf("the record of the first call says %s now", r.Status)
			}
			if n := w.script.count(); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

// TestRefused_early_leaves_nothing: a call that is refused before it is on its way is
// forgotten.
func TestRefused_early_leaves_nothing(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		call haft.Call
	}{
		"the key holds a secret": {t.Context(), haft.Call{IdempotencyKey: "k-hunter2hunter2",
			Env: map[string]string{"PASSWORD": "hunter2hunter2"}}},
		"the key cannot be taken": {gone, haft.Call{IdempotencyKey: "k"}},
		"the key belongs to nobody": {t.Context(), haft.Call{IdempotencyKey: "k",
			Principal: haft.Principal{Org: "o", Roles: []string{"user"}}}},
		"the id cannot be looked for": {gone, haft.Call{ID: "c_1"}},
	} {
		c.call.Tool, c.call.Args = "work", json.RawMessage(`{}`)
		if c.call.Principal.Org == "" {
			c.call.Principal = user("o", "ann")
		}
		if _, err := w.Call(c.ctx, c.call); err == nil {
			t.Errorf("%s: the call is made", name)
		}
		if n := w.FreshCalls(); n != 0 {
			t.Fatalf("%s: %d calls are remembered", name, n)
		}
	}
}

// TestYield: a call that only waits for another one gives up the slot that the other one needs.
func TestYield(t *testing.T) {
	w := setup(t, allowAll+"rules:\n  - {id: one, effect: limit, concurrency: {max: 1}}\n", engine.Config{})
	w.tool("o", "work", nil)
	c := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "ann")}
	first := true
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		if first {
			first = false
			executor.Yield(ctx)
			want(t, w.do(c), haft.StatusSuccess)
		}
		return ok(req, "1"), nil
	})
	want(t, w.do(c), haft.StatusSuccess)
}
