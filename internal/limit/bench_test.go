package limit_test

import (
	"fmt"
	"testing"
	"time"

	"haft/internal/limit"
)

func TestEnter_makes_few_allocations(t *testing.T) {
	l := limit.New(limit.Config{})
	for name, ask := range map[string]limit.Ask{
		"no slots":  {Tenant: "a"},
		"two slots": {Tenant: "a", Slots: []limit.Slot{{Key: "x", Max: 2}, {Key: "y", Max: 2}}},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := l.Take(t.Context(), ask, noon); err != nil {
				t.Fatal(err)
			}
			g, _, err := l.Enter(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			g.Leave()
		}); n > 1 {
			t.Errorf("%s: %v allocations, want 1, the grant", name, n)
		}
	}
}

func BenchmarkEnter(b *testing.B) {
	for name, slots := range map[string][]limit.Slot{
		"free":  nil,
		"slots": {{Key: "x", Max: 2}, {Key: "y", Max: 2}},
	} {
		b.Run(name, func(b *testing.B) {
			l := limit.New(limit.Config{})
			ask := limit.Ask{Tenant: "a", Slots: slots}
			b.ReportAllocs()
			for b.Loop() {
				g, _, err := l.Enter(b.Context(), ask)
				if err != nil {
					b.Fatal(err)
				}
				g.Leave()
			}
		})
	}
}

// One call leaves and the next runs, with so many waiting for the same two keys.
func BenchmarkEnter_queue(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := limit.New(limit.Config{Running: 10, Queue: 2 * n})
			var line []*limit.Grant
			for i := range n {
				line = append(line, join2(b, l, i))
			}
			b.ReportAllocs()
			i := n
			for b.Loop() {
				line[0].Leave()
				line = append(line[1:], join2(b, l, i))
				i++
			}
		})
	}
}

func join2(b *testing.B, l *limit.Limiter, i int) *limit.Grant {
	b.Helper()
	g, err := l.Join(limit.Ask{
		Tenant: "a", Slots: []limit.Slot{{Key: "user", Max: 3}, {Key: fmt.Sprint("tool", i%2), Max: 1}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func BenchmarkTake(b *testing.B) {
	l := limit.New(limit.Config{})
	ask := rate("r", 1e9, 1e9)
	ask.Quotas = daily("q", 1<<60, noon).Quotas
	now := noon
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		if _, err := l.Take(b.Context(), ask, now); err != nil {
			b.Fatal(err)
		}
	}
}
