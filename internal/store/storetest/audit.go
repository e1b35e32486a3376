package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// trail keeps n entries of acme whose times go back now and then, and returns them
// as they were linked.
func trail(t testing.TB, s *store.Store, n int) []audit.Entry {
	t.Helper()
	head := audit.Genesis("acme")
	var all []audit.Entry
	for from := 0; from < n; from += 500 {
		var b store.Batch
		for i := from; i < min(from+500, n); i++ {
			e := audit.Entry{
				Org: "acme", Kind: []string{"call.started", "call.ended", "call.refused"}[i%3],
				Call: haft.CallID(count("c", i/2)), Tool: count("t", i%5),
				Actor: haft.Principal{Org: "acme", User: count("u", i%7), Agent: count("a", i%4)},
				Time:  at.Add(time.Duration(i-(i%10)*3) * time.Second),
			}
			if i%11 == 0 {
				e.Tool, e.Call, e.Actor.Agent = "", "", ""
			}
			linked := audit.Link(head, e)
			head = linked.Head()
			all, b.Audit = append(all, linked), append(b.Audit, e)
		}
		b.Audit = append(b.Audit, entry("other", "call.started"))
		commit(t, s, b)
	}
	return all
}

// fits says what a filter means.
func fits(f haft.AuditFilter, e audit.Entry) bool {
	return (f.Kind == "" || f.Kind == e.Kind) && (f.User == "" || f.User == e.Actor.User) &&
		(f.Agent == "" || f.Agent == e.Actor.Agent) &&
		(f.Tool == "" || f.Tool == e.Tool) && (f.Call == "" || f.Call == e.Call) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// found reads all pages of what fits f.
func found(t testing.TB, s *store.Store, f haft.AuditFilter) []audit.Entry {
	t.Helper()
	var all []audit.Entry
	var after haft.AuditPlace
	for range 10_000 {
		list, next, err := s.Audit.FindAudit(t.Context(), "acme", f, after)
		if err != nil {
			t.Fatalf("FindAudit(%+v): %v", f, err)
		}
		if f.Limit > 0 && len(list) > f.Limit {
			t.Fatalf("FindAudit(%+v) gives %d", f, len(list))
		}
		if all = append(all, list...); next == nil {
			return all
		}
		after = *next
	}
	t.Fatalf("FindAudit(%+v) does not end", f)
	return nil
}

// auditFound: what fits a filter is listed once, in order, whatever the size of a
// page, and nothing else.
func auditFound(t testing.TB, s *store.Store) {
	all := trail(t, s, 700)
	for _, f := range []haft.AuditFilter{
		{}, {Kind: "call.refused"}, {Kind: "nothing"}, {User: "u3"}, {Agent: "a1"}, {Tool: "t2"}, {Call: "c7"},
		{Kind: "call.ended", User: "u1"},
		{Kind: "call.ended", User: "u1", Agent: "a1", Tool: "t4", Call: "c60"}, {User: "u1", Tool: "t2"},
		{User: "nobody", Kind: "call.ended"},
		{Since: at.Add(100 * time.Second)}, {Until: at.Add(100 * time.Second)},
		{Since: at.Add(100*time.Second + time.Nanosecond), Until: at.Add(150*time.Second + time.Nanosecond)},
		{Since: at.Add(50 * time.Second), Until: at.Add(400 * time.Second), Kind: "call.started", Agent: "a2"},
		{Since: at.Add(time.Hour)},
	} {
		for _, oldest := range []bool{false, true} {
			var want []audit.Entry
			for _, e := range all {
				if fits(f, e) {
					want = append(want, e)
				}
			}
			if f.Narrow() {
				slices.SortStableFunc(want, func(a, b audit.Entry) int { return a.Time.Compare(b.Time) })
			}
			if f.Oldest = oldest; !oldest {
				slices.Reverse(want)
			}
			for _, size := range []int{0, 1, 7} {
				if size == 1 && len(want) > 100 {
					continue
				}
				f.Limit = size
				if diff := cmp.Diff(want, found(t, s, f)); diff != "" {
					t.Errorf("FindAudit(%+v): %s", f, diff)
				}
			}
		}
	}
	if list, next, err := s.Audit.FindAudit(t.Context(), "acme2", haft.AuditFilter{Kind: "call.started"},
		haft.AuditPlace{}); err != nil || list != nil || next != nil {
		t.Errorf("FindAudit of a stranger = %v, %v, %v", list, next, err)
	}
}

// auditIndexed: what IndexAudit has made findable is left to no search, and is found.
func auditIndexed(t testing.TB, s *store.Store) {
	for round := range 3 {
		all := trail(t, s, 700)
		if orgs, next, err := s.Audit.Unindexed(t.Context(), ""); err != nil || next != "" ||
			!slices.Equal(orgs, []string{"acme", "other"}) {
			t.Errorf("round %d: Unindexed = %q, %q, %v, want both organisations", round, orgs, next, err)
		}
		var both sync.WaitGroup // as of two servers
		for range 2 {
			both.Go(func() {
				if err := s.Audit.IndexAudit(t.Context()); err != nil {
					t.Errorf("IndexAudit: %v", err)
				}
			})
		}
		both.Wait()
		if orgs, _, err := s.Audit.Unindexed(t.Context(), ""); err != nil || len(orgs) > 0 {
			t.Errorf("round %d: Unindexed = %q, %v, want none", round, orgs, err)
		}
		want := 0
		for _, e := range all {
			if e.Tool == "t2" {
				want += round + 1
			}
		}
		if got := len(found(t, s, haft.AuditFilter{Tool: "t2"})); got != want {
			t.Errorf("round %d: %d entries are found, want %d", round, got, want)
		}
	}
}

// auditFoundLater: entries that are added after a search are found by the next one,
// also while many search at once.
func auditFoundLater(t testing.TB, s *store.Store) {
	f := haft.AuditFilter{Kind: "later", Oldest: true}
	for round := range 3 {
		var b store.Batch
		for range 300 {
			b.Audit = append(b.Audit, entry("acme", "later"))
		}
		commit(t, s, b)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				n, after := 0, haft.AuditPlace{}
				for {
					list, next, err := s.Audit.FindAudit(t.Context(), "acme", f, after)
					if err != nil {
						t.Errorf("FindAudit: %v", err)
						return
					}
					n += len(list)
					if next == nil {
						break
					}
					after = *next
				}
				if n != 300*(round+1) {
					t.Errorf("%d are found, want %d", n, 300*(round+1))
				}
			})
		}
		wg.Wait()
	}
}
