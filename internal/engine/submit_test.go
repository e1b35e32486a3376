package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/limit"
)

// try has a call accepted, or not.
func (w *world) try(p haft.Principal, tool string) (*haft.Record, error) {
	return w.Submit(w.t.Context(), haft.Call{Tool: tool, Principal: p, Args: json.RawMessage(`{"x":1}`)})
}

// What cannot be promised is refused before it is accepted, and what was accepted ends,
// however small the queue is.
func TestSubmit_refuses_what_it_cannot_promise(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Backlog: 30, BacklogAll: 40,
		Limits: limit.Config{Running: 1, PerTenant: 1, Queue: 4}})
	w.tool("o", "work", nil)
	w.tool("p", "work", nil)
	release := make(chan struct{})
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		<-release
		return ok(r, `1`), nil
	})
	var accepted []haft.CallID
	var codes []haft.Code
	for range 33 {
		rec, err := w.try(user("o", "ann"), "work")
		if err == nil {
			accepted = append(accepted, rec.Call.ID)
			continue
		}
		codes = append(codes, haft.CodeOf(err))
		if x, ok := err.(*haft.Error); !ok || x.RetryAfter <= 0 {
			t.Errorf("the refusal does not say when to come back: %v", err)
		}
	}
	if len(accepted) != 30 || len(codes) != 3 || codes[0] != haft.CodeRateLimited {
		t.Errorf("%d were accepted, and others refused as %v", len(accepted), codes)
	}
	for range 10 {
		rec, err := w.try(user("p", "bob"), "work")
		if err != nil {
			t.Fatalf("another organisation is refused: %v", err)
		}
		accepted = append(accepted, rec.Call.ID)
	}
	if _, err := w.try(user("p", "bob"), "work"); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("beyond what the server takes of all: %v", err)
	}
	close(release)
	for i, id := range accepted {
		p := user("o", "ann")
		if i >= 30 {
			p = user("p", "bob")
		}
		want(t, w.end(p, id), haft.StatusSuccess)
	}
	if n := w.script.count(); n != len(accepted) {
		t.Errorf("%d calls ran %d times", len(accepted), n)
	}
	rec, err := w.try(user("o", "ann"), "work")
	if err != nil {
		t.Fatalf("there is room again: %v", err)
	}
	want(t, w.end(user("o", "ann"), rec.Call.ID), haft.StatusSuccess)
}
