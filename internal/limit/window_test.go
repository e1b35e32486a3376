package limit_test

import (
	"context"
	"testing"
	"time"

	"haft"
	"haft/internal/limit"
)

func window(key string, most int, within time.Duration) limit.Ask {
	return limit.Ask{Windows: []limit.Window{{Key: key, Max: most, Within: within}}}
}

func TestTake_window(t *testing.T) {
	l := limit.New(limit.Config{})
	ask := window("w", 60, time.Minute)
	for _, step := range []struct {
		name string
		at   time.Duration
		want int
	}{
		{"half of them", 0, 30},
		{"the other half, later", 40 * time.Second, 30},
		{"nothing just before a minute is over", time.Minute - time.Microsecond, 0},
		{"as many as began a minute ago", time.Minute, 30},
		{"nothing for a clock that is overtaken a little", time.Minute - time.Millisecond, 0},
		{"the rest a minute after they began", 100 * time.Second, 30},
		{"all at once after a long time", time.Hour, 60},
		{"nothing for a clock that was set back", 0, 0},
		{"and a minute after that all", time.Minute, 60},
	} {
		n := 100
		if step.at == 0 && step.want == 30 || step.at == 40*time.Second {
			n = 30
		}
		if got := taken(t, l, ask, noon.Add(step.at), n); got != step.want {
			t.Errorf("%s: %d calls, want %d", step.name, got, step.want)
		}
	}
}

// However calls come, no stretch of the window's length has more than its calls.
func TestTake_window_holds_in_any_stretch(t *testing.T) {
	for _, most := range []int{1, 7, 60, 64, 65, 1000} {
		l := limit.New(limit.Config{})
		ask := window("w", most, time.Minute)
		var began []time.Time
		for i := range 5 * most {
			now := noon.Add(time.Duration(i*i%977) * time.Millisecond)
			now = now.Add(time.Duration(i) * 2 * time.Minute / time.Duration(most))
			if len(began) > 0 && now.Before(began[len(began)-1]) {
				now = began[len(began)-1]
			}
			if taken(t, l, ask, now, 1) == 1 {
				began = append(began, now)
			}
		}
		if len(began) < most {
			t.Errorf("%d in a minute: only %d calls began", most, len(began))
		}
		for i := most; i < len(began); i++ {
			if d := began[i].Sub(began[i-most]); d < time.Minute {
				t.Errorf("%d in a minute: %d began within %v", most, most+1, d)
			}
		}
	}
}

func TestTake_window_says_when_to_come_again(t *testing.T) {
	l := limit.New(limit.Config{})
	ask := window("w", 3, time.Minute)
	for i := range 3 {
		taken(t, l, ask, noon.Add(time.Duration(i)*10*time.Second), 1)
	}
	if got := retry(t, l, ask, noon.Add(30*time.Second)); got != 30*time.Second {
		t.Errorf("the wait is %v, want 30s", got)
	}
	if got := taken(t, l, ask, noon.Add(time.Minute), 2); got != 1 {
		t.Errorf("%d calls after the wait, want 1", got)
	}
	if got := taken(t, l, window("w", 5, time.Minute), noon.Add(time.Minute), 9); got != 2 {
		t.Errorf("%d calls when two more are permitted, want 2", got)
	}
}

// A restart gives nothing: the parts of the window are loaded again.
func TestTake_window_survives(t *testing.T) {
	kept := map[string]limit.State{}
	load := func(_ context.Context, keys []string) (all []limit.State, err error) {
		for _, key := range keys {
			if s, ok := kept[key]; ok {
				all = append(all, s)
			}
		}
		return all, nil
	}
	ask, began := window("w", 100, time.Minute), 0
	for range 130 {
		l := limit.New(limit.Config{Load: load})
		states, err := l.Take(t.Context(), ask, noon)
		if err == nil {
			began++
		} else if haft.CodeOf(err) != haft.CodeRateLimited {
			t.Fatal(err)
		}
		for _, s := range states {
			kept[s.Key] = s
		}
	}
	if began != 100 || len(kept) > 64 {
		t.Errorf("%d calls began and %d states are kept, want 100 and at most 64", began, len(kept))
	}
}

// A refused call takes nothing from a window.
func TestTake_window_all_or_nothing(t *testing.T) {
	l := limit.New(limit.Config{})
	both := window("w", 2, time.Minute)
	both.Rates = rate("r", 0.001, 1).Rates
	if got := taken(t, l, both, noon, 5); got != 1 {
		t.Fatalf("%d calls, want 1", got)
	}
	if got := taken(t, l, window("w", 2, time.Minute), noon, 5); got != 1 {
		t.Errorf("%d calls are left in the window, want 1", got)
	}
	for _, bad := range []limit.Window{{Key: "x", Max: 0, Within: time.Minute}, {Key: "x", Max: 1},
		{Key: "x", Max: 1, Within: 25 * time.Hour}} {
		_, err := l.Take(t.Context(), limit.Ask{Windows: []limit.Window{bad}}, noon)
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%+v: %v, want invalid", bad, err)
		}
	}
}

// A raised burst can be used at once, but going back and forth between two gains nothing.
func TestTake_changed_burst(t *testing.T) {
	l := limit.New(limit.Config{})
	if got := taken(t, l, rate("r", 0.001, 1), noon, 5); got != 1 {
		t.Fatalf("%d calls, want 1", got)
	}
	if got := taken(t, l, rate("r", 0.001, 10), noon, 20); got != 9 {
		t.Errorf("%d calls after the burst was raised to 10, want 9", got)
	}
	for range 3 {
		if got := taken(t, l, rate("r", 0.001, 1), noon, 5) + taken(t, l, rate("r", 0.001, 10), noon, 20); got != 0 {
			t.Errorf("%d calls after going back and forth, want none", got)
		}
	}
}

func TestAddRate(t *testing.T) {
	minute := haft.Millis(time.Minute)
	low := limit.LowestRate(haft.Rate{Calls: 60, Within: minute}, haft.Rate{Calls: 5, Within: haft.Millis(time.Second)})
	if low != (haft.Rate{Calls: 5, Within: minute}) {
		t.Errorf("the lowest of two windows is %+v", low)
	}
	var ask limit.Ask
	ask.AddRate("k", limit.LowestRate(haft.Rate{Calls: 60, Within: minute}, haft.Rate{PerSecond: 2}))
	if len(ask.Windows) != 1 || len(ask.Rates) != 1 || ask.Rates[0].Burst != 2 {
		t.Errorf("a window and a bucket need %+v", ask)
	}
}

// A shorter window does not make calls forgotten that still count in a longer one.
func TestTake_window_that_grows_again(t *testing.T) {
	l := limit.New(limit.Config{})
	if got := taken(t, l, window("w", 10, time.Hour), noon, 10); got != 10 {
		t.Fatalf("%d calls", got)
	}
	later := noon.Add(2 * time.Minute)
	if got := taken(t, l, window("w", 1, time.Minute), later, 3); got != 1 {
		t.Errorf("%d calls in the shorter window, want 1", got)
	}
	if got := taken(t, l, window("w", 13, time.Hour), later, 5); got != 2 {
		t.Errorf("%d calls in the longer window, want 2", got)
	}
}
