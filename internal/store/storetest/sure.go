package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/limit"
	"haft/internal/store"
)

// sure holds a store to keep batches that cannot clash like all others: whatever it
// does with them, each reader sees them at once, and what comes after them does.
func sure(t testing.TB, s *store.Store) {
	ctx := t.Context()
	cursor, _, err := s.Events.LastEvents(ctx, nil)
	if err != nil {
		t.Fatalf("LastEvents: %v", err)
	}
	for i := range 60 {
		id := count("c", i)
		open, end := record("acme", id, haft.StatusRunning), record("acme", id, haft.StatusSuccess)
		open.Sealed, end.ToolID, end.Ended = json.RawMessage(`{"a":1}`), "tool_1", at
		end.Result = &haft.Result{Call: haft.CallID(id), Tool: "add", Status: haft.StatusSuccess,
			Value: json.RawMessage("3"), Usage: haft.Usage{Wall: haft.Millis(time.Second)}}
		for seq, r := range []haft.Record{open, end} {
			b := store.Batch{Sure: true, Records: []haft.Record{r},
				Events: []haft.Event{happened("acme", id, cursor+1, int64(seq+1))},
				Audit:  []audit.Entry{entry("acme", count("k", 2*i+seq))},
				Limits: []limit.State{{Key: "k", Tokens: 100 - float64(i), Used: int64(i + 1), At: at}}}
			commit(t, s, b)
			cursor = b.Events[0].Cursor
			if (2*i+seq)%7 == 0 { // else several wait together
				surely(t, s, r, cursor)
			}
		}
		switch i % 10 {
		case 3: // something else in between
			put(t, s, tool("acme", "t"+id, "sha256:"+id, "A tool."))
		case 6:
			commit(t, s, store.Batch{Records: []haft.Record{record("acme", "other"+id, haft.StatusSuccess)},
				Audit: []audit.Entry{entry("acme", "other"), entry("new"+id, "other")}})
		case 8:
			refused(t, "Commit of a call that has ended", s.Commit(ctx, store.Batch{Records: []haft.Record{open}}),
				haft.CodeConflict)
		}
	}
	surelyAll(t, s)
}

// surely checks what was kept last.
func surely(t testing.TB, s *store.Store, r haft.Record, cursor int64) {
	t.Helper()
	got, err := s.Calls.Record(t.Context(), "acme", r.Call.ID)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	same(t, "Record", got, &r)
	events, err := s.Events.EventsAfter(t.Context(), event.Filter{Org: "acme", Call: r.Call.ID}, cursor-1, 10)
	if err != nil || len(events) != 1 || events[0].Cursor != cursor {
		t.Errorf("EventsAfter = %v, %v, want one with cursor %d", events, err, cursor)
	}
}

// surelyAll checks what is kept of all.
func surelyAll(t testing.TB, s *store.Store) {
	ctx := t.Context()
	entries, err := s.Audit.AuditEntries(ctx, "acme", 0, store.MaxPage)
	if err != nil || len(entries) != 2*60+6 {
		t.Fatalf("AuditEntries: %d, %v, want %d", len(entries), err, 2*60+6)
	}
	head := audit.Genesis("acme")
	for i, e := range entries {
		if want := audit.Link(head, e); e.Seq != int64(i+1) || e.Prev != head.Hash || e.Hash != want.Hash {
			t.Fatalf("entry %d does not follow the one before", i)
		}
		head = e.Head()
	}
	sums, err := s.Calls.Usage(ctx, "acme", haft.UsageQuery{From: at.Add(-time.Hour), Until: at.Add(time.Hour),
		By: []haft.UsageBy{haft.ByTool}})
	if err != nil || len(sums) != 2 || sums[0].Tool != "add" || sums[0].Calls != 60 ||
		sums[0].Wall != haft.Millis(time.Minute) {
		t.Errorf("Usage = %+v, %v", sums, err)
	}
	limits, err := s.Limits.Limits(ctx, []string{"k"})
	if err != nil {
		t.Fatalf("Limits: %v", err)
	}
	same(t, "Limits", limits, []limit.State{{Key: "k", Tokens: 41, Used: 60, At: at}})
	if list, err := s.Calls.Records(ctx, haft.CallFilter{Org: "acme",
		Status: []haft.Status{haft.StatusRunning}}); err != nil || len(list) != 0 {
		t.Errorf("%d calls still run, %v", len(list), err)
	}
}
