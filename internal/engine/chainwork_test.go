package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"haft"
	"haft/internal/store"
)

// TestChainWork_of_one_organisation_does_not_keep_others_waiting: every organisation has a
// chain that goes on, and all are run once.
func TestChainWork_of_one_organisation_does_not_keep_others_waiting(t *testing.T) {
	end, ran := make(chan struct{}), make(chan chainRef, 10*chainsAtOnce)
	w := newChainWork(10*chainsAtOnce, func(f func(context.Context)) bool { go f(t.Context()); return true },
		func(_ context.Context, c chainRef) {
			if c.org == "a" {
				<-end
			}
			ran <- c
		})
	for i := range 2 * chainsAtOnce {
		w.push(chainRef{"a", haft.ChainID("a" + strconv.Itoa(i))})
	}
	for i := range 5 {
		w.push(chainRef{"b", haft.ChainID("b" + strconv.Itoa(i))})
	}
	for range 5 {
		if c := <-ran; c.org != "b" {
			t.Errorf("%s has run first", c.org)
		}
	}
	close(end)
	for range 2 * chainsAtOnce {
		<-ran
	}
	left := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.queues) + len(w.orgs) + w.workers
	}
	for left() != 0 { // or the test takes too long
		time.Sleep(time.Millisecond) //nolint:forbidigo // the last workers are about to say so
	}
}

// TestDispatcher_begun_by_others: that a call has not begun here says nothing of one that
// another server has begun since.
func TestDispatcher_begun_by_others(t *testing.T) {
	d := newDispatcher(10, 10, 10)
	ex := &execution{call: haft.Call{ID: "c"}}
	ex.rec = haft.Record{Call: ex.call, Started: time.Now()}
	d.noteUnbegun(ex)
	if !d.neverBegan(&ex.rec) {
		t.Error("a call whose start could not be written is not known to have never begun")
	}
	later := ex.rec
	later.Started = ex.rec.Started.Add(time.Second)
	if d.neverBegan(&later) {
		t.Error("a call that another server has begun would run again")
	}
}

// TestDispatcher_counts_each_organisation: what others have cancelled is not counted for ever
// because a neighbour is busy.
func TestDispatcher_counts_each_organisation(t *testing.T) {
	d := newDispatcher(1, 10, 10)
	if err := d.reserve("a"); err != nil {
		t.Fatal(err)
	}
	d.settle("a", true)
	seen := d.seen()
	if err := d.reserve("b"); err != nil {
		t.Fatal(err)
	}
	d.count(map[string]int{}, seen)
	if err := d.reserve("a"); err != nil {
		t.Errorf("no call waits: %v", err)
	}
	if err := d.reserve("b"); err == nil {
		t.Error("a call that is about to be accepted is not counted")
	}
}

// TestDispatcher_keeps_reserved_places: an execution that finishes takes no place of a call that is
// about to be accepted, also not if its own was taken by a count.
func TestDispatcher_keeps_reserved_places(t *testing.T) {
	d := newDispatcher(1, 10, 10)
	key, ex := store.OrgKey("a"), &execution{}
	ex.asked.Principal.Org = "a"
	if !d.takePlace(key) {
		t.Fatal("there is no place in memory")
	}
	if err := d.reserve("a"); err != nil {
		t.Fatal(err)
	}
	d.returnPlace(ex, nil)
	d.settle("a", true)
	if q := d.queues[key]; q == nil || q.kept != 1 || q.reserved != 0 || d.kept != 1 {
		t.Errorf("one call waits: %+v", q)
	}
}
