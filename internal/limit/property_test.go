package limit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"haft"
	"haft/internal/limit"
)

// A light tenant with one call that waits sees each other tenant have at most one
// turn before its own.
func TestProperty_each_other_tenant_has_at_most_one_turn_first(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "running")
		l := limit.New(limit.Config{Running: most, PerTenant: rapid.IntRange(0, most).Draw(t, "per tenant")})
		var live []*limit.Grant
		owner := make(map[*limit.Grant]int)
		enter := func(tenant int) *limit.Grant {
			ask := limit.Ask{Tenant: fmt.Sprint(tenant)}
			if rapid.IntRange(0, 3).Draw(t, "keyed") == 0 {
				ask.Slots = []limit.Slot{{Key: fmt.Sprint("own", tenant), Max: 2}}
			}
			g, err := l.Join(ask)
			if err != nil {
				t.Fatal(err)
			}
			live, owner[g] = append(live, g), tenant
			return g
		}
		for range rapid.IntRange(0, 60).Draw(t, "crowd") {
			enter(rapid.IntRange(1, 5).Draw(t, "tenant"))
		}
		light, err := l.Join(limit.Ask{Tenant: "light"})
		if err != nil {
			t.Fatal(err)
		}
		turns := make(map[int]int)
		for !light.Running() {
			if rapid.IntRange(0, 2).Draw(t, "arrives") == 0 {
				enter(rapid.IntRange(1, 6).Draw(t, "tenant"))
			}
			before := make(map[*limit.Grant]bool)
			var running []*limit.Grant
			for _, g := range live {
				if before[g] = g.Running(); before[g] {
					running = append(running, g)
				}
			}
			rapid.SampledFrom(running).Draw(t, "leaves").Leave()
			for _, g := range live {
				if g.Running() && !before[g] {
					turns[owner[g]]++
				}
			}
			if err := l.Check(); err != nil {
				t.Fatal(err)
			}
			for tenant, n := range turns {
				if n > 1 {
					t.Fatalf("tenant %d had %d turns before the light one", tenant, n)
				}
			}
		}
	})
}

// Whatever comes and goes, what is promised of slots holds after each step, calls
// that need the same keys run in order, and in the end nothing is left.
func TestProperty_slots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { play(t, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "steps")) })
}

func FuzzLimiter(f *testing.F) {
	f.Add([]byte("a long game with many a call, and some of them leave early"))
	f.Add([]byte{0, 1, 2, 3, 250, 251, 4, 5, 252, 253, 6, 7, 254, 255})
	f.Fuzz(func(t *testing.T, steps []byte) {
		play(t, steps[:min(len(steps), 2000)])
		bargain(t, steps[:min(len(steps), 2000)])
	})
}

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// play does what steps say with slots.
func play(t failer, steps []byte) {
	t.Helper()
	l := limit.New(limit.Config{Running: 6, PerTenant: 4, Queue: 30})
	var live []*limit.Grant
	lines := make(map[string][]*limit.Grant) // by tenant and keys, in order of arrival
	for _, b := range steps {
		if b >= 128 && len(live) > 0 {
			i := int(b-128) % len(live)
			g := live[i]
			live = slices.Delete(live, i, i+1)
			g.Leave()
			g.Leave()
			for name := range lines {
				lines[name] = slices.DeleteFunc(lines[name], func(x *limit.Grant) bool { return x == g })
			}
		} else {
			ask := limit.Ask{Tenant: fmt.Sprint(b % 3)}
			for i, name := range []string{"x", "y", "z"} {
				if b>>(2+i)&1 == 1 {
					ask.Slots = append(ask.Slots, limit.Slot{Key: name, Max: 1 + i})
				}
			}
			g, err := l.Join(ask)
			if err != nil {
				if haft.CodeOf(err) != haft.CodeRateLimited {
					t.Fatal(err)
				}
				continue
			}
			live = append(live, g)
			name := fmt.Sprint(ask)
			lines[name] = append(lines[name], g)
		}
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		for name, line := range lines {
			waits := false
			for _, g := range line {
				if waits && g.Running() {
					t.Fatalf("a call of %s runs before one that came earlier", name)
				}
				waits = waits || !g.Running()
			}
		}
	}
	// All who are left run, one after the other: nobody is forgotten.
	for len(live) > 0 {
		i := slices.IndexFunc(live, (*limit.Grant).Running)
		if i < 0 {
			t.Fatalf("%d calls wait and none runs", len(live))
		}
		live[i].Leave()
		live = slices.Delete(live, i, i+1)
	}
	if !l.Empty() {
		t.Fatalf("something is left: %+v", l.Stats())
	}
}

// bargain takes what steps say, and compares with a model that knows only what was
// taken when.
func bargain(t *testing.T, steps []byte) {
	t.Helper()
	const burst, perSecond, most = 3, 0.5, 4
	type bucket struct {
		tokens float64
		at     time.Time
	}
	l := limit.New(limit.Config{})
	buckets, used := make(map[string]bucket), make(map[string]int)
	now := noon
	for _, b := range steps {
		now = now.Add(time.Duration(b%8) * 300 * time.Millisecond)
		start := now.Truncate(time.Minute)
		var ask limit.Ask
		free := true
		for i := range 3 {
			if b>>(3+i)&1 == 0 {
				continue
			}
			r, q := fmt.Sprint("r", i), fmt.Sprint("q", i)
			ask.Rates = append(ask.Rates, limit.Rate{Key: r, PerSecond: perSecond, Burst: burst})
			ask.Quotas = append(ask.Quotas, limit.Quota{Key: q, Max: most, Start: start, End: start.Add(time.Minute)})
			have, ok := buckets[r]
			if !ok {
				have = bucket{burst, now}
			}
			have.tokens = min(burst, have.tokens+now.Sub(have.at).Seconds()*perSecond)
			have.at = now
			buckets[r] = have
			free = free && have.tokens > 1-1e-6 && used[q+start.String()] < most
		}
		_, err := l.Take(t.Context(), ask, now)
		if (err == nil) != free {
			t.Fatalf("Take(%v) = %v, the model says %v", ask, err, free)
		}
		if err != nil {
			continue
		}
		for i := range ask.Rates {
			have := buckets[ask.Rates[i].Key]
			have.tokens--
			buckets[ask.Rates[i].Key] = have
			used[ask.Quotas[i].Key+start.String()]++
		}
	}
}
