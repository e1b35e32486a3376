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
func TestJournal_Reserve_waits_for_its_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(nil, func() string { return "here" }, nil, nil)
		late, end := &store.Batch{}, &store.Batch{}
		if err := j.Reserve(t.Context(), "c", late); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- j.Reserve(context.Background(), "c", end) }()
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("Reserve does not wait: %v", <-got)
		}
		j.Drop("c", end) // it has no turn to give back
		j.Drop("another", late)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("Reserve returned when something else was dropped")
		}
		if err := j.Reserve(t.Context(), "another", &store.Batch{}); err != nil {
			t.Fatalf("Reserve of another call: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := j.Reserve(ctx, "c", &store.Batch{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Reserve when nobody waits for it: %v", err)
		}
		j.Drop("c", late)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if r := j.moving["c"]; r == nil || r.part != end {
			t.Errorf("the turn is with %v", r)
		}
	})
}

func TestJournal_Outcome_is_of_one_part(t *testing.T) {
	j := New(nil, nil, nil, nil)
	late, end := &store.Batch{}, &store.Batch{}
	why := errors.New("too late")
	j.settled[late] = why
	if _, known := j.Outcome(end); known {
		t.Error("the outcome of another part is taken")
	}
	if err, known := j.Outcome(late); err != why || !known {
		t.Errorf("Outcome = %v, %v", err, known)
	}
	if _, known := j.Outcome(late); known {
		t.Error("the outcome is told twice")
	}
}
