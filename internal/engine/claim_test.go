package engine_test

import (
	"encoding/json"
	"sync"
	"testing"

	"haft"
	"haft/internal/engine"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// TestClaim_of_a_call_that_is_slow_to_begin repeats a call while the first one has its
// idempotency key and is not recorded yet, as when it waits for its turn or its server is
// paused: one of them runs.
func TestClaim_of_a_call_that_is_slow_to_begin(t *testing.T) {
	for _, where := range []string{"the same server", "another server"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			first := logged(t)
			second := first
			if where == "another server" {
				url := storetest.Postgres(t)
				first, second = server(t, url, engine.Config{}), server(t, url, engine.Config{})
			}
			first.tool("o", "work", nil)
			c := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "ann"),
				IdempotencyKey: "k"}
			var res *haft.Result
			_, err := first.CallWith(t.Context(), c, func() { res = second.do(c) })
			want(t, res, haft.StatusSuccess)
			if haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("the first call, which lost its key: %v", err)
			}
			runs := first.script.count()
			if second != first {
				runs += second.script.count()
			}
			if runs != 1 {
				t.Errorf("the tool ran %d times", runs)
			}
			if again := first.do(c); again.Call != res.Call {
				t.Errorf("the key is that of %s, want %s", again.Call, res.Call)
			}
		})
	}
}

// TestClaim_by_many_at_once submits a call many times at once.
func TestClaim_by_many_at_once(t *testing.T) {
	w := logged(t)
	w.tool("o", "work", nil)
	for i := range 20 {
		c := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "ann"),
			IdempotencyKey: string(rune('a' + i))}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { check(t, second(w.Submit(t.Context(), c))) })
		}
		wg.Wait()
		want(t, w.do(c), haft.StatusSuccess)
		if n := w.script.count(); n != i+1 {
			t.Fatalf("%d keys, and the tool ran %d times", i+1, n)
		}
	}
}

// logged makes a world on a database that has a log in front of it.
func logged(t *testing.T) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Busy: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return open(t, s, allowAll, engine.Config{})
}
