package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft/store"
)

// leases: at any moment one owner has a lease, until it ends or is given back.
func leases(t testing.TB, s *store.Store) {
	ctx := t.Context()
	take := func(owner string, now time.Time, want bool) {
		t.Helper()
		if mine, err := s.Lease(ctx, "l", owner, now, now.Add(time.Minute)); err != nil || mine != want {
			t.Errorf("Lease of %s at %v = %v, %v", owner, now.Sub(at), mine, err)
		}
	}
	take("a", at, true)
	take("b", at.Add(time.Second), false)
	take("a", at.Add(time.Second), true)
	take("b", at.Add(time.Minute), false)
	take("b", at.Add(2*time.Minute), true)
	for _, owner := range []string{"a", "b"} { // of a it is not any more
		take("c", at.Add(2*time.Minute), false)
		if err := s.EndLease(ctx, "l", owner); err != nil {
			t.Error(err)
		}
	}
	take("c", at.Add(2*time.Minute), true)

	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if mine, err := s.Lease(ctx, "race", count("o", i), at, at.Add(time.Minute)); err != nil {
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
