package limit

import (
	"math"
	"time"
)

const (
	// overtake is how far the clock of one caller may seem to go back because another came
	// first. A larger step means that the clock was set back.
	overtake = int64(time.Second / time.Microsecond)
	// tiny is less than any bucket is missed by: sums of floats are not exact.
	tiny = 1e-9
	// longest bounds a wait, in microseconds: 100 years.
	longest = int64(100 * 365 * 24 * time.Hour / time.Microsecond)
)

// What an entry is used for.
type kind byte

const (
	noKind kind = iota
	rateKind
	quotaKind
	windowKind
)

// An entry is the state of one rate or quota. Times are in microseconds, as in the store, so
// that a state that was stored and loaded is the same.
type entry struct {
	key    string
	kind   kind
	fresh  bool // never used: full
	tokens float64
	used   int64 // of a rate: the largest burst that it has had
	spans  []span
	at     int64 // of tokens, or the beginning of the window
	free   int64 // when it may be forgotten
	index  int   // in the heap
}

// is makes a fresh entry one of kind k, and reports whether it is one.
func (e *entry) is(k kind) bool {
	if e.kind == noKind {
		e.kind = k
	}
	return e.kind == k
}

func (e *entry) state() State {
	return State{Key: e.key, Tokens: e.tokens, Used: e.used, At: time.UnixMicro(e.at).UTC()}
}

// refill adds what the bucket has gained up to now. When the clock was set back,
// it gains nothing, and goes on gaining from there: waiting for the old time to
// come again could take for ever.
func (e *entry) refill(r *Rate, now int64) {
	burst := float64(r.Burst)
	switch {
	case e.fresh:
		e.fresh, e.tokens, e.used, e.at = false, burst, int64(r.Burst), now
	case now > e.at:
		e.tokens += float64(now-e.at) * r.PerSecond / 1e6
		e.at = now
	case e.at-now > overtake:
		e.at = now
	}
	if e.used > 0 && int64(r.Burst) > e.used { // 0 in states from before it was kept
		e.tokens += float64(int64(r.Burst) - e.used)
	}
	e.used = max(e.used, int64(r.Burst))
	e.tokens = min(e.tokens, burst)
}

// full returns when the bucket will be full: then it is as if it were fresh.
func (e *entry) full(r *Rate) int64 {
	return e.at + micros((float64(r.Burst)-e.tokens)/r.PerSecond)
}

// spend takes a token, and returns for how long there is none. It takes it then
// too, so that the next rate with the same key waits for one more.
func (e *entry) spend(r *Rate, now int64) (wait int64) {
	if e.tokens < 1-tiny {
		wait = max(1, max(0, e.at-now)+micros((1-tiny/2-e.tokens)/r.PerSecond))
	}
	e.tokens--
	if wait == 0 {
		e.tokens = max(0, e.tokens)
	}
	return wait
}

// turn begins the window of q, if that is a later one. When the clock was set back, the used
// amount stays used in the earlier window.
func (e *entry) turn(q *Quota, now int64) {
	start := q.Start.UnixMicro()
	switch {
	case e.fresh || e.at < start:
		e.fresh, e.used, e.at = false, 0, start
	case e.at > start && e.at-now > overtake:
		e.at = start
	}
}

// end returns when the window ends: then it is as if it were fresh.
func (e *entry) end(q *Quota) int64 {
	end := q.End.UnixMicro()
	if start := q.Start.UnixMicro(); e.at != start { // a later one, which is as long
		end += e.at - start
	}
	return end
}

// count counts a call, and returns for how long there may be none.
func (e *entry) count(q *Quota, now int64) (wait int64) {
	switch {
	case q.Max <= 0:
		wait = -1
	case e.used >= q.Max:
		wait = max(1, e.end(q)-now)
	}
	e.used++
	return wait
}

// micros rounds up, so that after a wait there is enough.
func micros(seconds float64) int64 {
	if us := math.Ceil(seconds * 1e6); us < float64(longest) {
		return int64(us)
	}
	return longest
}
