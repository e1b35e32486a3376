package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/limit"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func rate(key string, perSecond float64, burst int) limit.Ask {
	return limit.Ask{Rates: []limit.Rate{{Key: key, PerSecond: perSecond, Burst: burst}}}
}

func daily(key string, most int64, now time.Time) limit.Ask {
	start := now.Truncate(24 * time.Hour)
	return limit.Ask{Quotas: []limit.Quota{{Key: key, Max: most, Start: start, End: start.Add(24 * time.Hour)}}}
}

// taken counts how many of n calls at the given time are let through.
func taken(t testing.TB, l *limit.Limiter, ask limit.Ask, now time.Time, n int) int {
	t.Helper()
	ok := 0
	for range n {
		_, err := l.Take(t.Context(), ask, now)
		switch haft.CodeOf(err) {
		case "":
			ok++
		case haft.CodeRateLimited:
		default:
			t.Fatal(err)
		}
	}
	return ok
}

// retry returns how long Take says to wait; it must refuse.
func retry(t testing.TB, l *limit.Limiter, ask limit.Ask, now time.Time) time.Duration {
	t.Helper()
	_, err := l.Take(t.Context(), ask, now)
	e, ok := errors.AsType[*haft.Error](err)
	if !ok || e.Code != haft.CodeRateLimited {
		t.Fatalf("Take = %v, want %s", err, haft.CodeRateLimited)
	}
	return e.RetryAfter.D()
}

func TestTake_rate(t *testing.T) {
	l := limit.New(limit.Config{})
	ask := rate("r", 2, 5)
	for _, step := range []struct {
		name string
		at   time.Duration
		want int
	}{
		{"a burst", 0, 5},
		{"nothing more at once", 0, 0},
		{"two after a second", time.Second, 2},
		{"one after half a second", 1500 * time.Millisecond, 1},
		{"no more than a burst after a long time", time.Hour, 5},
		{"nothing for a clock that is overtaken a little", time.Hour - time.Millisecond, 0},
		{"nothing for a clock that was set back", 0, 0},
		{"and it gains from there on", time.Second, 2},
		{"at most a burst when it is set ahead again", 2 * time.Hour, 5},
	} {
		if got := taken(t, l, ask, noon.Add(step.at), 20); got != step.want {
			t.Errorf("%s: %d calls, want %d", step.name, got, step.want)
		}
	}
}

// Callers read the clock and then come one after the other, not always in order.
func TestTake_one_who_is_overtaken_gives_nothing_back(t *testing.T) {
	l := limit.New(limit.Config{})
	ask := rate("r", 1000, 1000)
	if got := taken(t, l, ask, noon, 2000); got != 1000 {
		t.Fatalf("%d calls, want 1000", got)
	}
	before := noon.Add(-500 * time.Millisecond)
	if got, want := retry(t, l, ask, before), 501*time.Millisecond; got != want {
		t.Errorf("come again after %v, want %v", got, want)
	}
	if got := taken(t, l, ask, noon, 2000); got != 0 {
		t.Errorf("%d calls more, want none", got)
	}
}

func TestTake_quota(t *testing.T) {
	l := limit.New(limit.Config{})
	day := 24 * time.Hour
	for _, step := range []struct {
		name string
		at   time.Duration
		want int
	}{
		{"as many as there are", 0, 3},
		{"none later that day", 6 * time.Hour, 0},
		{"as many on the next day", 12 * time.Hour, 3},
		{"none for one who is overtaken at midnight", 12*time.Hour - time.Millisecond, 0},
		{"and that gives nothing back", 12 * time.Hour, 0},
		{"none when the clock is set back", 0, 0},
		{"as many on the day after that", 12 * time.Hour, 3},
		{"as many when it is set ahead", 30 * day, 3},
	} {
		now := noon.Add(step.at)
		if got := taken(t, l, daily("q", 3, now), now, 9); got != step.want {
			t.Errorf("%s: %d calls, want %d", step.name, got, step.want)
		}
	}
}

func TestTake_takes_from_all_or_from_none(t *testing.T) {
	l := limit.New(limit.Config{})
	wide, narrow := rate("wide", 1, 10), rate("narrow", 1, 1)
	both := limit.Ask{Rates: append(wide.Rates, narrow.Rates...), Quotas: daily("q", 10, noon).Quotas}
	if got := taken(t, l, both, noon, 8); got != 1 {
		t.Fatalf("%d calls, want 1", got)
	}
	if got := taken(t, l, wide, noon, 20); got != 9 {
		t.Errorf("%d calls are left of the wide rate, want 9", got)
	}
	if got := taken(t, l, daily("q", 10, noon), noon, 20); got != 9 {
		t.Errorf("%d calls are left of the quota, want 9", got)
	}
}

func TestTake_says_exactly_when_to_come_again(t *testing.T) {
	slow, fast := rate("slow", 0.1, 1), rate("fast", 10, 1)
	for name, ask := range map[string]limit.Ask{
		"one rate":         fast,
		"an odd rate":      rate("odd", 1.0/3, 1),
		"a tiny rate":      rate("tiny", 1e-5, 1),
		"the slowest":      {Rates: append(fast.Rates, slow.Rates...)},
		"a quota":          daily("q", 1, noon),
		"a rate and quota": {Rates: slow.Rates, Quotas: daily("q", 1, noon).Quotas},
		"one rate twice":   {Rates: append(rate("twice", 1, 2).Rates, rate("twice", 1, 2).Rates...)},
	} {
		t.Run(name, func(t *testing.T) {
			l := limit.New(limit.Config{})
			if _, err := l.Take(t.Context(), ask, noon); err != nil {
				t.Fatal(err)
			}
			wait := retry(t, l, ask, noon)
			if early := noon.Add(wait - time.Millisecond); taken(t, l, ask, early, 1) != 0 {
				t.Errorf("there is enough a millisecond before %v", wait)
			}
			then := noon.Add(wait)
			for i := range ask.Quotas {
				ask.Quotas[i] = daily("q", 1, then).Quotas[0]
			}
			if taken(t, l, ask, then, 1) != 1 {
				t.Errorf("there is too little after %v", wait)
			}
		})
	}
	if wait := retry(t, limit.New(limit.Config{}), daily("q", 0, noon), noon); wait != 0 {
		t.Errorf("a quota of nothing says to come again after %v", wait)
	}
}

func TestTake_returns_what_to_keep(t *testing.T) {
	l := limit.New(limit.Config{})
	ask := limit.Ask{Rates: append(rate("r", 1, 5).Rates, rate("r", 1, 5).Rates...), Quotas: daily("q", 9, noon).Quotas}
	got, err := l.Take(t.Context(), ask, noon.Add(1500*time.Nanosecond))
	if err != nil {
		t.Fatal(err)
	}
	want := []limit.State{
		{Key: "r", Tokens: 3, Used: 5, At: noon.Add(time.Microsecond)},
		{Key: "q", Used: 1, At: noon.Truncate(24 * time.Hour)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if got, err := l.Take(t.Context(), limit.Ask{Tenant: "a"}, noon); got != nil || err != nil {
		t.Errorf("Take of nothing = %v, %v", got, err)
	}
}

func TestTake_refuses_what_makes_no_sense(t *testing.T) {
	for name, ask := range map[string]limit.Ask{
		"no rate":                  rate("r", 0, 1),
		"a rate below 0":           rate("r", -1, 1),
		"not a number":             rate("r", math.NaN(), 1),
		"an infinite rate":         rate("r", math.Inf(1), 1),
		"no burst":                 rate("r", 1, 0),
		"a window without an end":  {Quotas: []limit.Quota{{Key: "q", Max: 1, Start: noon, End: noon}}},
		"a rate that is a quota":   {Rates: rate("x", 1, 1).Rates, Quotas: daily("x", 1, noon).Quotas},
		"a quota that was another": {Quotas: daily("was a rate", 1, noon).Quotas},
	} {
		t.Run(name, func(t *testing.T) {
			l := limit.New(limit.Config{})
			if _, err := l.Take(t.Context(), rate("was a rate", 1, 1), noon); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Take(t.Context(), ask, noon); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Take = %v, want %s", err, haft.CodeInvalid)
			}
		})
	}
}

// A memoryStore keeps states as a store would: times in microseconds.
type memoryStore struct {
	mu     sync.Mutex
	states map[string]limit.State
	loads  atomic.Int64
	err    error
}

func (s *memoryStore) keep(states []limit.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states == nil {
		s.states = make(map[string]limit.State)
	}
	for _, st := range states {
		st.At = time.UnixMicro(st.At.UnixMicro())
		s.states[st.Key] = st
	}
}

func (s *memoryStore) load(ctx context.Context, keys []string) ([]limit.State, error) {
	s.loads.Add(int64(len(keys)))
	select {
	case <-time.After(time.Second): // under a clock of the test
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []limit.State
	for _, key := range keys {
		if st, ok := s.states[key]; ok {
			found = append(found, st)
		}
	}
	return found, s.err
}

func TestTake_after_restarts_there_is_no_more_than_without(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept memoryStore
		steady, l := limit.New(limit.Config{}), limit.New(limit.Config{Load: kept.load})
		for i := range 200 {
			if i%5 == 0 {
				l = limit.New(limit.Config{Load: kept.load})
			}
			now := noon.Add(time.Duration(i) * 137 * time.Minute / 10)
			ask := limit.Ask{Rates: rate("r", 1.0/999, 3).Rates, Quotas: daily("q", 40, now).Quotas}
			want := taken(t, steady, ask, now, 1)
			states, err := l.Take(t.Context(), ask, now)
			if got := err == nil; got != (want == 1) {
				t.Fatalf("call %d goes through: %v (%v), without restarts: %v", i, got, err, want == 1)
			}
			kept.keep(states)
		}
	})
}

func TestTake_loads_once_however_many_ask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept memoryStore
		kept.keep([]limit.State{{Key: "r", Tokens: 30, At: noon}})
		l := limit.New(limit.Config{Load: kept.load})
		var ok atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				ask := limit.Ask{Rates: append(rate("r", 1, 50).Rates, rate("fresh", 1, 80).Rates...)}
				if _, err := l.Take(t.Context(), ask, noon); err == nil {
					ok.Add(1)
				}
			})
		}
		wg.Wait()
		if ok.Load() != 30 || kept.loads.Load() != 2 {
			t.Errorf("%d calls and %d loads, want 30 and one for each of 2 keys", ok.Load(), kept.loads.Load())
		}
	})
}

func TestTake_is_refused_if_the_state_cannot_be_loaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := memoryStore{err: errors.New("disk gone")}
		l := limit.New(limit.Config{Load: kept.load})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := l.Take(t.Context(), rate("r", 1, 1), noon)
				if haft.CodeOf(err) != haft.CodeUnavailable || !errors.Is(err, kept.err) {
					t.Errorf("Take = %v, want %s", err, haft.CodeUnavailable)
				}
			})
		}
		wg.Wait()
		kept.err = nil
		if got := taken(t, l, rate("r", 1, 1), noon, 3); got != 1 {
			t.Errorf("%d calls when it can be loaded again, want 1", got)
		}
	})
}

func TestTake_one_who_leaves_does_not_fail_the_others(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept memoryStore
		l := limit.New(limit.Config{Load: kept.load})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.Take(ctx, rate("r", 1, 9), noon); err == nil {
				t.Error("Take of one who left is nil")
			}
		})
		synctest.Wait() // it is loading
		for range 5 {
			wg.Go(func() {
				if _, err := l.Take(t.Context(), rate("r", 1, 9), noon); err != nil {
					t.Errorf("Take = %v", err)
				}
			})
		}
		wg.Go(func() {
			if _, err := l.Take(ctx, rate("r", 1, 9), noon); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Take of one who waited and left = %v", err)
			}
		})
		wg.Wait()
	})
}

func TestTake_nonsense_from_the_store_gives_nothing(t *testing.T) {
	for name, st := range map[string]limit.State{
		"not a number": {Tokens: math.NaN(), At: noon},
		"below 0":      {Tokens: -3, At: noon},
		"infinite":     {Tokens: math.Inf(1), At: noon.Add(-time.Hour)},
		"from ahead":   {Tokens: 1, At: noon.Add(1000 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			st.Key = "r"
			l := limit.New(limit.Config{Load: func(context.Context, []string) ([]limit.State, error) {
				return []limit.State{st, {Key: "other", Tokens: 9}}, nil
			}})
			if got := taken(t, l, rate("r", 1, 2), noon, 9); got > 2 {
				t.Errorf("%d calls, want at most a burst of 2", got)
			}
			if got := taken(t, l, rate("r", 1, 2), noon.Add(time.Second), 9); got != 1 {
				t.Errorf("%d calls a second later, want 1", got)
			}
		})
	}
}

func TestTake_forgets_what_is_as_if_it_had_never_been(t *testing.T) {
	l := limit.New(limit.Config{Keys: 10})
	for i := range 1000 {
		now := noon.Add(time.Duration(i) * time.Second)
		if _, err := l.Take(t.Context(), rate(fmt.Sprint(i), 0.5, 1), now); err != nil {
			t.Fatal(err)
		}
		if n := l.Stats().Keys; n > 10 {
			t.Fatalf("%d keys are remembered, 10 may", n)
		}
	}
}

func TestTake_refuses_rather_than_forgets(t *testing.T) {
	l := limit.New(limit.Config{Keys: 2})
	for _, key := range []string{"a", "b"} {
		if _, err := l.Take(t.Context(), daily(key, 1, noon), noon); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Take(t.Context(), rate("c", 1, 1), noon); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Take = %v, want %s", err, haft.CodeUnavailable)
	}
	if got := taken(t, l, daily("a", 1, noon), noon, 3); got != 0 {
		t.Errorf("%d more calls of a quota that is used up", got)
	}
	// With a place to load them from, those that were not used lately can go.
	synctest.Test(t, func(t *testing.T) {
		var kept memoryStore
		l := limit.New(limit.Config{Keys: 2, Load: kept.load})
		for _, key := range []string{"a", "b"} {
			states, err := l.Take(t.Context(), daily(key, 1, noon), noon)
			if err != nil {
				t.Fatal(err)
			}
			kept.keep(states)
		}
		if _, err := l.Take(t.Context(), rate("c", 1, 1), noon); haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("Take = %v, want %s", err, haft.CodeUnavailable)
		}
		later := noon.Add(time.Hour)
		if got := taken(t, l, rate("c", 1, 1), later, 1); got != 1 {
			t.Error("keys that were not used for an hour are in the way")
		}
		for _, key := range []string{"a", "b"} {
			later = later.Add(time.Minute) // the rate is full again
			if got := taken(t, l, daily(key, 1, later), later, 3); got != 0 {
				t.Errorf("%d more calls of quota %s, which is used up", got, key)
			}
			if got := taken(t, l, rate("c", 1, 1), later.Add(time.Hour), 1); got != 1 {
				t.Error("a rate that was forgotten is not full")
			}
			later = later.Add(time.Hour)
		}
	})
}

func TestHammer_no_more_is_taken_than_there_is(t *testing.T) {
	const most = 500
	l := limit.New(limit.Config{Keys: 100})
	ask := limit.Ask{Rates: rate("r", 1e-9, most).Rates, Quotas: daily("q", 2*most, noon).Quotas}
	var ok atomic.Int64
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 50 {
				now := noon.Add(time.Duration(w*i%7) * time.Microsecond)
				if _, err := l.Take(t.Context(), ask, now); err == nil {
					ok.Add(1)
				}
				if _, err := l.Take(t.Context(), rate(fmt.Sprint("other", w), 1, 100), now); err != nil {
					t.Errorf("Take = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if ok.Load() != most {
		t.Errorf("%d calls, want %d", ok.Load(), most)
	}
}
