package limit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"haft"
	"haft/internal/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// join enters without waiting.
func join(t testing.TB, l *limit.Limiter, tenant string, slots ...limit.Slot) *limit.Grant {
	t.Helper()
	g, err := l.Join(limit.Ask{Tenant: tenant, Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	check(t, l)
	return g
}

func leave(t testing.TB, l *limit.Limiter, g *limit.Grant) {
	t.Helper()
	g.Leave()
	check(t, l)
}

func check(t testing.TB, l *limit.Limiter) {
	t.Helper()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
}

func one(key string) limit.Slot { return limit.Slot{Key: key, Max: 1} }

func TestEnter_runs_at_once_what_has_a_free_slot(t *testing.T) {
	l := limit.New(limit.Config{Running: 2})
	ask := limit.Ask{Tenant: "a", Slots: []limit.Slot{{Key: "k", Max: 2}}}
	for range 2 {
		g, waited, err := l.Enter(t.Context(), ask)
		if err != nil || g == nil || waited != 0 {
			t.Fatalf("Enter = %v, %v, %v, want a grant at once", g, waited, err)
		}
		defer g.Leave()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Enter(ctx, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("Enter = %v, want %v", err, context.Canceled)
	}
	if _, _, err := l.Enter(t.Context(), limit.Ask{Slots: []limit.Slot{{Key: "k"}}}); haft.CodeOf(
		err) != haft.CodeInvalid {
		t.Errorf("Enter with a slot that nobody may have = %v, want %s", err, haft.CodeInvalid)
	}
}

func TestEnter_waits_for_a_slot(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg          limit.Config
		first, again limit.Ask
	}{
		"of all":        {limit.Config{Running: 1}, limit.Ask{Tenant: "a"}, limit.Ask{Tenant: "b"}},
		"of its tenant": {limit.Config{Running: 9, PerTenant: 1}, limit.Ask{Tenant: "a"}, limit.Ask{Tenant: "a"}},
		"of its key": {limit.Config{}, limit.Ask{Tenant: "a", Slots: []limit.Slot{one("k")}},
			limit.Ask{Tenant: "b", Slots: []limit.Slot{{Key: "other", Max: 9}, one("k")}}},
		"of a key it names twice": {limit.Config{}, limit.Ask{Slots: []limit.Slot{{Key: "k", Max: 2}, one("k")}},
			limit.Ask{Slots: []limit.Slot{one("k"), {Key: "k", Max: 2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limit.New(tc.cfg)
				first, _, err := l.Enter(t.Context(), tc.first)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(3*time.Second, first.Leave)
				again, waited, err := l.Enter(t.Context(), tc.again)
				if err != nil || waited != 3*time.Second {
					t.Fatalf("Enter = %v after %v, want a grant after 3s", err, waited)
				}
				again.Leave()
				if !l.Empty() {
					t.Errorf("something is left: %+v", l.Stats())
				}
			})
		})
	}
}

func TestGrant_Leave_twice_gives_one_slot(t *testing.T) {
	l := limit.New(limit.Config{Running: 1})
	a, b, c := join(t, l, "a"), join(t, l, "a"), join(t, l, "a")
	leave(t, l, a)
	leave(t, l, a)
	if !b.Running() || c.Running() {
		t.Errorf("b runs: %v, c runs: %v, want b only", b.Running(), c.Running())
	}
	leave(t, l, c) // out of the queue
	leave(t, l, b)
	var none *limit.Grant
	none.Leave()
	if !l.Empty() {
		t.Errorf("something is left: %+v", l.Stats())
	}
}

func TestEnter_ends_with_its_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Running: 1, Queue: 1})
		first := join(t, l, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g, waited, err := l.Enter(ctx, limit.Ask{Tenant: "a", Slots: []limit.Slot{one("k")}})
		if !errors.Is(err, context.DeadlineExceeded) || g != nil || waited != time.Second {
			t.Fatalf("Enter = %v after %v, want the end of ctx after 1s", err, waited)
		}
		if s := l.Stats(); s.Waiting != 0 {
			t.Errorf("%d calls wait, want none", s.Waiting)
		}
		second := join(t, l, "a") // there is room in the queue again
		leave(t, l, first)
		if !second.Running() {
			t.Error("the slot went to one who had left")
		}
		leave(t, l, second)
	})
}

func TestEnter_when_the_queue_is_full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Running: 2, PerTenant: 1, Queue: 2})
		for range 8 { // so that it knows how long calls take
			g := join(t, l, "a")
			time.Sleep(time.Second)
			g.Leave()
		}
		grants := []*limit.Grant{join(t, l, "a"), join(t, l, "a"), join(t, l, "a")}
		_, _, err := l.Enter(t.Context(), limit.Ask{Tenant: "a", Slots: []limit.Slot{one("k")}})
		e, ok := errors.AsType[*haft.Error](err)
		if !ok || e.Code != haft.CodeRateLimited || e.RetryAfter.D() < 500*time.Millisecond ||
			e.RetryAfter.D() > time.Second {
			t.Fatalf("Enter = %+v, want %s with about a second", e, haft.CodeRateLimited)
		}
		other := join(t, l, "b") // has a queue of its own
		if !other.Running() {
			t.Error("another tenant waits")
		}
		for _, g := range append(grants, other) {
			leave(t, l, g)
		}
		if !l.Empty() {
			t.Errorf("something is left: %+v", l.Stats())
		}
	})
}

func TestEnter_without_a_queue(t *testing.T) {
	l := limit.New(limit.Config{Running: 1, Queue: -1})
	g := join(t, l, "a")
	defer g.Leave()
	if _, err := l.Join(limit.Ask{Tenant: "b"}); haft.CodeOf(err) != haft.CodeRateLimited {
		t.Errorf("Enter = %v, want %s", err, haft.CodeRateLimited)
	}
}

// order lets the running calls leave one by one and returns in which order the
// others run.
func order(t *testing.T, l *limit.Limiter, running *limit.Grant, waiting map[string]*limit.Grant) []string {
	t.Helper()
	var names []string
	for len(waiting) > 0 {
		leave(t, l, running)
		var now []string
		for name, g := range waiting {
			if g.Running() {
				now = append(now, name)
			}
		}
		if len(now) != 1 {
			t.Fatalf("after %v, %v run, want one", names, now)
		}
		names = append(names, now[0])
		running = waiting[now[0]]
		delete(waiting, now[0])
	}
	running.Leave()
	if !l.Empty() {
		t.Errorf("something is left: %+v", l.Stats())
	}
	return names
}

func TestEnter_tenants_take_turns(t *testing.T) {
	l := limit.New(limit.Config{Running: 1, Queue: 20_000})
	first := join(t, l, "a")
	waiting := make(map[string]*limit.Grant)
	for i := range 10 {
		waiting[fmt.Sprintf("a%d", i)] = join(t, l, "a")
	}
	for i := range 3 {
		waiting[fmt.Sprintf("b%d", i)] = join(t, l, "b")
	}
	waiting["c0"] = join(t, l, "c")
	// The first of a runs, so a comes after those who have none that runs.
	want := []string{"b0", "c0", "a0", "b1", "a1", "b2", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"}
	if diff := cmp.Diff(want, order(t, l, first, waiting)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestEnter_a_light_tenant_waits_one_turn_of_a_heavy_one(t *testing.T) {
	l := limit.New(limit.Config{Running: 1, Queue: 20_000})
	first := join(t, l, "heavy")
	var heavy []*limit.Grant
	for range 10_000 {
		g, err := l.Join(limit.Ask{Tenant: "heavy"})
		if err != nil {
			t.Fatal(err)
		}
		heavy = append(heavy, g)
	}
	light := join(t, l, "light")
	leave(t, l, first)
	leave(t, l, heavy[0])
	if !light.Running() {
		t.Error("the light tenant waits longer than one turn")
	}
}

func TestEnter_one_who_waits_for_a_key_does_not_hold_up_those_behind(t *testing.T) {
	l := limit.New(limit.Config{Running: 3})
	slow := join(t, l, "a", one("slow"))
	stuck := []*limit.Grant{join(t, l, "a", one("slow")), join(t, l, "a", one("slow"))}
	fast := []*limit.Grant{join(t, l, "a", one("fast")), join(t, l, "a")}
	for i, g := range fast {
		if !g.Running() {
			t.Errorf("call %d that needs another slot waits", i)
		}
		leave(t, l, g)
	}
	leave(t, l, slow)
	if !stuck[0].Running() || stuck[1].Running() {
		t.Error("calls for one key do not run in the order in which they came")
	}
	leave(t, l, stuck[0])
	if !stuck[1].Running() {
		t.Error("the last one waits for nothing")
	}
	leave(t, l, stuck[1])
}

func TestEnter_a_key_that_tenants_share_goes_round(t *testing.T) {
	l := limit.New(limit.Config{Running: 10, PerTenant: 2})
	first := join(t, l, "a", one("shared"))
	waiting := make(map[string]*limit.Grant)
	for i := range 2 {
		for _, tenant := range []string{"a", "b", "c"} {
			waiting[fmt.Sprintf("%s%d", tenant, i)] = join(t, l, tenant, one("shared"))
		}
	}
	got := order(t, l, first, waiting)
	// Nobody has a second turn before all had a first.
	round := slices.Sorted(slices.Values(got[:3]))
	if diff := cmp.Diff([]string{"a0", "b0", "c0"}, round); diff != "" {
		t.Errorf("the first three of %v (-want +got):\n%s", got, diff)
	}
}

// A tenant that has all it may have gets a free slot of a shared key offered, and
// must not sit on it.
func TestEnter_a_tenant_without_a_slot_does_not_hold_a_key(t *testing.T) {
	l := limit.New(limit.Config{Running: 10, PerTenant: 1})
	a, b := join(t, l, "a"), join(t, l, "b", one("k"))
	a2 := join(t, l, "a", one("k"))
	c := join(t, l, "c", one("k"))
	leave(t, l, b)
	if !c.Running() || a2.Running() {
		t.Fatalf("c runs: %v, a2 runs: %v, want c only", c.Running(), a2.Running())
	}
	leave(t, l, a)
	leave(t, l, c)
	if !a2.Running() {
		t.Error("a2 waits for nothing")
	}
	leave(t, l, a2)
}

func TestEnter_one_who_needs_several_keys_is_not_passed_for_ever(t *testing.T) {
	l := limit.New(limit.Config{Running: 100})
	x, y := join(t, l, "a", one("x")), join(t, l, "a", one("y"))
	both := join(t, l, "a", one("x"), one("y"))
	// Both keys are always wanted, and never free at the same time.
	rounds := 0
	for ; !both.Running(); rounds++ {
		if rounds == 50 {
			t.Fatal("the call that needs both keys was passed 50 times")
		}
		next := join(t, l, "a", one("x"))
		leave(t, l, x)
		x = next
		next = join(t, l, "a", one("y"))
		leave(t, l, y)
		y = next
	}
	if rounds < 3 {
		t.Errorf("the call ran after %d rounds: slots were idle for it too early", rounds)
	}
	if l.Due() {
		t.Error("slots are kept for a call that runs")
	}
	leave(t, l, both)
	if !x.Running() || !y.Running() {
		t.Error("what was kept for it is not given back")
	}
}

func TestEnter_leaving_gives_back_what_was_kept(t *testing.T) {
	l := limit.New(limit.Config{Running: 100})
	x, y := join(t, l, "a", one("x")), join(t, l, "b", one("y"))
	both := join(t, l, "c", one("x"), one("y"))
	for range 50 {
		next := join(t, l, "a", one("x"))
		leave(t, l, x)
		if x = next; l.Due() {
			break
		}
		next = join(t, l, "b", one("y"))
		leave(t, l, y)
		if y = next; l.Due() {
			break
		}
	}
	if both.Running() || !l.Due() {
		t.Fatal("nothing is kept for the call that needs both")
	}
	leave(t, l, both)
	if l.Due() || !x.Running() || !y.Running() {
		t.Errorf("kept: %v, x runs: %v, y runs: %v", l.Due(), x.Running(), y.Running())
	}
}

func TestEnter_the_latest_bound_of_a_key_counts(t *testing.T) {
	l := limit.New(limit.Config{Running: 100})
	for range 2 {
		join(t, l, "a", limit.Slot{Key: "k", Max: 2})
	}
	waits := join(t, l, "a", limit.Slot{Key: "k", Max: 2})
	late := join(t, l, "b", limit.Slot{Key: "k", Max: 3})
	if !waits.Running() || late.Running() {
		t.Errorf("the one who waited runs: %v, the one who came with a wider bound: %v", waits.Running(),
			late.Running())
	}
	join(t, l, "a", limit.Slot{Key: "k", Max: 1})
	leave(t, l, waits)
	if late.Running() {
		t.Error("the bound was made narrower and a call runs all the same")
	}
}

func TestStats(t *testing.T) {
	l := limit.New(limit.Config{Running: 2, PerTenant: 1})
	for _, tenant := range []string{"b", "a", "b", "c"} {
		join(t, l, tenant)
	}
	rate := []limit.Rate{{Key: "r", PerSecond: 1, Burst: 1}}
	if _, err := l.Take(t.Context(), limit.Ask{Rates: rate}, time.Now()); err != nil {
		t.Fatal(err)
	}
	want := limit.Stats{Running: 2, Waiting: 2, Keys: 1, Tenants: []limit.TenantStats{
		{Tenant: "a", Running: 1}, {Tenant: "b", Running: 1, Waiting: 1}, {Tenant: "c", Waiting: 1},
	}}
	if diff := cmp.Diff(want, l.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
}

func TestHammer_slots_are_never_exceeded_and_all_are_served(t *testing.T) {
	const (
		workers = 64
		calls   = 200
	)
	l := limit.New(limit.Config{Running: 8, PerTenant: 4})
	var mu sync.Mutex
	counts := make(map[string]int)
	add := func(n int, names ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			counts[name] += n
			if most := map[byte]int{'r': 8, 't': 4, 'k': 2, 's': 3}[name[0]]; counts[name] > most {
				t.Errorf("%d of %s at once, %d may", counts[name], name, most)
			}
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			tenant := fmt.Sprintf("t%d", w%5)
			for i := range calls {
				names := []string{"run", tenant}
				ask := limit.Ask{Tenant: tenant}
				if i%2 == 0 {
					k := fmt.Sprintf("k%s%d", tenant, i%3)
					names, ask.Slots = append(names, k), append(ask.Slots, limit.Slot{Key: k, Max: 2})
				}
				if i%3 == 0 {
					names, ask.Slots = append(names, "shared"), append(ask.Slots, limit.Slot{Key: "shared", Max: 3})
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if i%7 == 0 {
					ctx, cancel = context.WithTimeout(ctx, 50*time.Microsecond)
				}
				g, _, err := l.Enter(ctx, ask)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Enter = %v", err)
					}
					continue
				}
				add(1, names...)
				add(-1, names...)
				g.Leave()
				g.Leave()
			}
		})
	}
	wg.Wait()
	check(t, l)
	if !l.Empty() {
		t.Errorf("something is left: %+v", l.Stats())
	}
}

func TestGrant_Settle_frees_a_slot_and_stays_bounded(t *testing.T) {
	l := limit.New(limit.Config{Running: 1, Settled: 4})
	one := limit.Slot{Key: "k", Max: 5}
	var held []*limit.Grant
	for i := range 4 {
		g, err := l.Join(limit.Ask{Tenant: fmt.Sprint("t", i%2), Slots: []limit.Slot{one}})
		if err != nil || !g.Running() {
			t.Fatalf("call %d does not run: %v", i, err)
		}
		if first, again := g.Settle(), g.Settle(); !first || !again {
			t.Fatalf("call %d does not settle", i)
		}
		held = append(held, g)
	}
	fifth, err := l.Join(limit.Ask{Tenant: "t", Slots: []limit.Slot{one}})
	if err != nil || !fifth.Running() || fifth.Settle() {
		t.Error("a fifth settled")
	}
	sixth, err := l.Join(limit.Ask{Tenant: "t"})
	if err != nil || sixth.Running() {
		t.Error("a sixth runs beside the one that could not settle")
	}
	if s := l.Stats(); s.Running != 1 || s.Settled != 4 || s.Waiting != 1 {
		t.Errorf("Stats = %+v", s)
	}
	fifth.Leave()
	if !sixth.Running() {
		t.Error("nobody took the place that was left")
	}
	for _, g := range append(held, sixth) {
		g.Leave()
	}
	if err := l.Check(); err != nil || !l.Empty() {
		t.Errorf("something is left: %v", err)
	}
}

func TestGrant_Settle_lets_one_tenant_have_three_quarters(t *testing.T) {
	l := limit.New(limit.Config{Running: 8, Settled: 4})
	settled := 0
	for range 4 {
		g, err := l.Join(limit.Ask{Tenant: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if g.Settle() {
			settled++
		}
	}
	if settled != 3 {
		t.Errorf("%d settled, want 3", settled)
	}
}
