package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft/internal/store"
)

// leases: at any moment one owner has a lease, until it ends or is given back.
func leases(t testing.TB, s *store.Store) {
	ctx := t.Context()
	take := func(owner string, d time.Duration, want bool) {
		t.Helper()
		if mine, err := s.Settings.Lease(ctx, "l", owner, d); err != nil || mine != want {
			t.Errorf("Lease of %s for %v = %v, %v", owner, d, mine, err)
		}
	}
	take("a", time.Minute, true)
	take("b", time.Minute, false)
	take("a", -time.Second, true) // which is over at once
	take("b", time.Minute, true)
	for _, owner := range []string{"a", "b"} { // of a it is not any more
		take("c", time.Minute, false)
		if err := s.Settings.EndLease(ctx, "l", owner); err != nil {
			t.Error(err)
		}
	}
	take("c", time.Minute, true)

	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if mine, err := s.Settings.Lease(ctx, "race", count("o", i), time.Minute); err != nil {
				t.Error(err)
			} else if mine {
				won.Add(1)
			}
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("%d have the lease", won.Load())
	}
}
