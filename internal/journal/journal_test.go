package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// WEAKNESS: of several who move a call at once, one who is too late has the place of the one who is not, and the end
// of a call that ran is given up. Each waits for its turn, and the store says who was too late.
func TestJournal_waits_for_its_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(nil, func() string { return "here" }, nil, nil)
		late, end := &store.Batch{}, &store.Batch{}
		if err := j.reserve("c", late); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- j.reserve("c", end) }()
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
		if err := j.reserve("another", &store.Batch{}); err != nil {
			t.Fatalf("reserve of another call: %v", err)
		}
		j.drop("c", late)
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if r := j.moving["c"]; r == nil || r.part != end {
			t.Errorf("the turn is with %v", r)
		}
		if err := j.reserve("c", late); !errors.Is(err, errNoTurn) {
			t.Errorf("reserve, for longer than anybody waits: %v", err)
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

// WEAKNESS: what somebody who is too late says of a call takes the events of the call with it that are written in the
// same transaction.
func TestJournal_publishes_beside_those_who_are_too_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &dropping{drop: 2}
		hub := event.New(event.Config{Log: log})
		j := New(nil, func() string { return "here" }, nil, nil)
		ev, err := haft.NewEvent(haft.Call{ID: "c", Principal: haft.Principal{Org: "o", User: "u"}}, haft.EventOutput,
			time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = j.Publish(t.Context(), hub, ev, nil); !errors.Is(err, event.ErrDropped) || log.n != 2 {
			t.Errorf("Publish of what is dropped twice: %v after %d tries", err, log.n)
		}
		log.drop, log.n = 1, 0
		if _, err = j.Publish(t.Context(), hub, ev, nil); err != nil || log.n != 2 {
			t.Errorf("Publish of what is dropped once: %v after %d tries", err, log.n)
		}
		if len(j.moving)+len(j.settled) > 0 {
			t.Errorf("left behind: %v, %v", j.moving, j.settled)
		}
	})
}

// dropping is a log that drops the first events.
type dropping struct {
	event.Log
	drop, n int
}

func (l *dropping) Last(context.Context, []haft.CallID) (int64, map[haft.CallID]int64, error) {
	return 0, nil, nil
}

func (l *dropping) Append(_ context.Context, events []haft.Event) error {
	if l.n++; l.n <= l.drop {
		events[0].Cursor = 0
	}
	return nil
}
