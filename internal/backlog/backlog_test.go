package backlog

import (
	"testing"
	"time"

	"haft"
	"haft/internal/store"
)

// TestCalls_begun_by_others: that a call has not begun here says nothing of one that
// another server has begun since.
func TestCalls_begun_by_others(t *testing.T) {
	d := New(10, 10, 10)
	rec := haft.Record{Call: haft.Call{ID: "c"}, Started: time.Now()}
	d.NoteUnbegun("c", rec.Started)
	if !d.NeverBegan(&rec) {
		t.Error("a call whose start could not be written is not known to have never begun")
	}
	later := rec
	later.Started = rec.Started.Add(time.Second)
	if d.NeverBegan(&later) {
		t.Error("a call that another server has begun would run again")
	}
}

// TestCalls_counts_each_organisation: what others have cancelled is not counted for ever
// because a neighbour is busy.
func TestCalls_counts_each_organisation(t *testing.T) {
	d := New(1, 10, 10)
	if err := d.Reserve("a"); err != nil {
		t.Fatal(err)
	}
	d.Settle("a", true)
	seen := d.Changes()
	if err := d.Reserve("b"); err != nil {
		t.Fatal(err)
	}
	d.Count(map[string]int{}, seen)
	if err := d.Reserve("a"); err != nil {
		t.Errorf("no call waits: %v", err)
	}
	if err := d.Reserve("b"); err == nil {
		t.Error("a call that is about to be accepted is not counted")
	}
}

// TestCalls_keeps_reserved_places: an execution that finishes takes no place of a call that is
// about to be accepted, also not if its own was taken by a count.
func TestCalls_keeps_reserved_places(t *testing.T) {
	d := New(1, 10, 10)
	key := store.OrgKey("a")
	if !d.TakePlace(key) {
		t.Fatal("there is no place in memory")
	}
	if err := d.Reserve("a"); err != nil {
		t.Fatal(err)
	}
	d.ReturnPlace("a", "c", false, No)
	d.Settle("a", true)
	if q := d.queues[key]; q == nil || q.kept != 1 || q.reserved != 0 || d.kept != 1 {
		t.Errorf("one call waits: %+v", q)
	}
}
