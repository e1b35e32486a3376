package storetest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"haft/internal/store"
)

// changes: who remembers the counter finds every organisation that was changed since,
// also when many are changed at once.
func changes(t testing.TB, s *store.Store) {
	ctx := t.Context()
	last := int64(0)
	look := func(want ...string) {
		t.Helper()
		now, orgs, err := s.Settings.Changes(ctx, last)
		slices.Sort(orgs)
		if err != nil || !slices.Equal(orgs, want) || (now > last) != (len(want) > 0) {
			t.Fatalf("Changes(%d) = %d %q, %v; want %q", last, now, orgs, err, want)
		}
		last = now
	}
	mark := func(orgs ...string) {
		t.Helper()
		for _, org := range orgs {
			if err := s.Settings.MarkChange(ctx, org); err != nil {
				t.Fatalf("MarkChange: %v", err)
			}
		}
	}
	look()
	mark("acme")
	look("acme")
	look()
	mark("other", "acme", "other")
	look("acme", "other")
	mark("", "per%_:missions")
	look("", "per%_:missions")
	mark(strings.Repeat("x", 5000)) // its name is not kept: all are meant
	look("")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Settings.MarkChange(ctx, "acme"); err != nil {
				t.Errorf("MarkChange: %v", err)
			}
		})
	}
	all.Wait()
	before := last
	look("acme")
	if last != before+8 {
		t.Errorf("eight changes count %d", last-before)
	}
}
