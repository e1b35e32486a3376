package limit

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// spans is in how many parts the calls of a window are counted. A window of at most so many
	// calls is exact.
	spans = 64
	// windowMark ends the key of an entry that is a window.
	windowMark = " window"
	// MaxWithin is the longest window.
	MaxWithin = 24 * time.Hour
)

// A Window lets Max calls begin in any stretch of time that is as long as Within, all at once if
// they come so. A call counts until Within after it. If Max is more than 64, calls are counted in
// groups of Max/64, and a group counts until its last call does: never more than Max begin.
type Window struct {
	Key    string
	Max    int
	Within time.Duration
}

// A span is calls of a window that are counted together.
type span struct {
	calls int64
	last  int64 // when the last of them began, in microseconds
}

// spanKeys are the keys under which the spans of a window are kept.
func spanKeys(key string) []string {
	all := make([]string, spans)
	for i := range all {
		all[i] = spanKey(key, i)
	}
	return all
}

func spanKey(key string, i int) string { return key + " " + strconv.Itoa(i) }

// stored returns the keys of the states of entries.
func stored(keys []string) []string {
	var all []string
	for _, key := range keys {
		if strings.HasSuffix(key, windowMark) {
			all = append(all, spanKeys(key)...)
		} else {
			all = append(all, key)
		}
	}
	return all
}

// restore puts the states that were kept of a window into its entry.
func (e *entry) restore(found map[string]State) {
	if !strings.HasSuffix(e.key, windowMark) {
		return
	}
	e.spans = make([]span, spans)
	for i := range e.spans {
		if s, ok := found[spanKey(e.key, i)]; ok {
			e.spans[i] = span{calls: max(0, s.Used), last: s.At.UnixMicro()}
		}
	}
}

// rewind makes calls that began in the future ones of now, when the clock was set back.
func (e *entry) rewind(now int64) {
	if e.spans == nil {
		e.spans = make([]span, spans)
	}
	for i := range e.spans {
		if e.spans[i].last-now > overtake {
			e.spans[i].last = now
		}
	}
}

// begin counts a call in the window, and returns the span that it is in and for how long the call
// may not begin. It counts it then too, and the caller puts the span back.
func (e *entry) begin(w *Window, now int64) (i int, wait int64) {
	within, group := w.Within.Microseconds(), int64((w.Max+spans-1)/spans)
	live, unused, open := int64(0), -1, -1
	for i := range e.spans {
		s := &e.spans[i]
		switch {
		case s.calls == 0 || s.last+within <= now:
			// The calls stay where they are as long as there is room: by a longer window they may still count.
			if unused < 0 || s.calls == 0 || e.spans[unused].calls > 0 && s.last < e.spans[unused].last {
				unused = i
			}
			continue
		case s.calls < group && (open < 0 || s.last > e.spans[open].last):
			open = i
		}
		live += s.calls
	}
	if live >= int64(w.Max) {
		wait = e.until(live-int64(w.Max)+1, within, now)
	}
	if i = open; i < 0 && unused >= 0 { // there is one, unless the call has to wait
		i, e.spans[unused].calls = unused, 0
	}
	i = max(i, 0)
	s := &e.spans[i]
	s.calls, s.last = s.calls+1, max(s.last, now)
	return i, wait
}

// until returns when n calls will no longer count.
func (e *entry) until(n, within, now int64) int64 {
	order := slices.Clone(e.spans)
	slices.SortFunc(order, func(a, b span) int { return int(min(max(a.last-b.last, -1), 1)) })
	for _, s := range order {
		if s.last+within <= now {
			continue
		}
		if n -= s.calls; n <= 0 {
			return max(1, s.last+within-now)
		}
	}
	return max(1, within)
}

// idle returns when nothing in the window counts any more: then it is as if it were fresh.
func (e *entry) idle(w *Window) int64 {
	last := int64(math.MinInt64 / 2)
	for _, s := range e.spans {
		if s.calls > 0 {
			last = max(last, s.last)
		}
	}
	return last + w.Within.Microseconds()
}
