package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/store"
)

// packageLocks: what was kept first stays, for everybody alike, until somebody
// replaces it; and no organisation sees another's.
func packageLocks(t testing.TB, s *store.Store) {
	ctx := t.Context()
	if _, err := s.Tools.PackageLock(ctx, "acme", "sha256:a"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a lock that is not there: %v", err)
	}
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() {
			kept, err := s.Tools.PutPackageLock(ctx, "acme", "set:x", fmt.Sprintf("body %d", i), false, at)
			if err != nil {
				t.Errorf("PutPackageLock: %v", err)
			}
			got[i] = kept
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] || g == "" {
			t.Errorf("several who find a lock go on with %q", got)
			break
		}
	}
	if _, err := s.Tools.PackageLock(ctx, "other", "set:x"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("another organisation's lock: %v", err)
	}
	if kept, err := s.Tools.PutPackageLock(ctx, "acme", "set:x", "newer", true, at.Add(time.Hour)); err != nil ||
		kept != "newer" {
		t.Errorf("replaced: %q, %v", kept, err)
	}
	long := strings.Repeat("six==1.16.0 --hash=sha256:00\n", 10_000)
	if kept, err := s.Tools.PutPackageLock(ctx, "acme", "sha256:long", long, false, at); err != nil || kept != long {
		t.Errorf("a long lock comes back with %d bytes, %v", len(kept), err)
	}
	for name, bad := range map[string][3]string{
		"no organisation": {"", "x", "y"}, "no id": {"acme", "", "y"}, "no text": {"acme", "x", "\xff"},
		"too long": {"acme", "x", strings.Repeat("x", store.MaxLockBody+1)},
	} {
		if _, err := s.Tools.PutPackageLock(ctx, bad[0], bad[1], bad[2], false,
			at); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
