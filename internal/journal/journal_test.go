package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"haft/internal/store"
)

// WEAKNESS: of several who move a call at once, one who is too late has the place of the one who is not, and the end
// of a call that ran is given up. Each waits for its turn, and the store says who was too late.
func TestJournal_waits_for_its_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(nil, func() string { return "here" }, nil, nil)
		late, end := &store.Batch{}, &store.Batch{}
		if err := j.reserve(t.Context(), "c", late); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- j.reserve(context.Background(), "c", end) }()
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("reserve does not wait: %v", <-got)
		}
		j.drop("c", end) // it has no turn to give back
		j.drop("another", late)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("reserve returned when something else was dropped")
		}
		if err := j.reserve(t.Context(), "another", &store.Batch{}); err != nil {
			t.Fatalf("reserve of another call: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := j.reserve(ctx, "c", &store.Batch{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("reserve when nobody waits for it: %v", err)
		}
		j.drop("c", late)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if r := j.moving["c"]; r == nil || r.part != end {
			t.Errorf("the turn is with %v", r)
		}
	})
}

func TestJournal_outcome_is_of_one_part(t *testing.T) {
	j := New(nil, nil, nil, nil)
	late, end := &store.Batch{}, &store.Batch{}
	why := errors.New("too late")
	j.settled[late] = why
	if _, known := j.outcome(end); known {
		t.Error("the outcome of another part is taken")
	}
	if err, known := j.outcome(late); err != why || !known {
		t.Errorf("outcome = %v, %v", err, known)
	}
	if _, known := j.outcome(late); known {
		t.Error("the outcome is told twice")
	}
}
