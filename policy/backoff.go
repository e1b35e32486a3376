package policy

import (
	"math"
	"time"

	"haft"
)

// Strategy says how waits grow from try to try.
type Strategy string

// The strategies.
const (
	Constant    Strategy = "constant"           // always the same
	Exponential Strategy = "exponential"        // twice as long each time
	Jitter      Strategy = "exponential_jitter" // anything up to that, so that callers spread out
)

// A Backoff says how often to try again and how long to wait before. The zero
// value never tries again.
type Backoff struct {
	Strategy Strategy `json:"strategy,omitempty"` // empty means [Jitter]
	// Tries counts them all, the first included; 0 means 1.
	Tries int `json:"tries,omitempty"`
	// Initial is the first wait; 0 means 200 ms.
	Initial haft.Millis `json:"initial_ms,omitempty"`
	// Max bounds every wait; 0 means 30 s.
	Max haft.Millis `json:"max_ms,omitempty"`
}

// The bounds and defaults of a Backoff.
const (
	MaxTries       = 10
	defaultInitial = 200 * time.Millisecond
	defaultMax     = 30 * time.Second
)

// Check reports why b makes no sense.
func (b Backoff) Check() error {
	switch b.Strategy {
	case "", Constant, Exponential, Jitter:
	default:
		return wrong("a backoff is %s, %s or %s", Constant, Exponential, Jitter)
	}
	if b.Tries < 0 || b.Tries > MaxTries {
		return wrong("the number of tries is between 1 and %d", MaxTries)
	}
	if b.Initial < 0 || b.Max < 0 {
		return wrong("a wait is not negative")
	}
	return nil
}

// Wait returns how long to wait after the given try, counted from 1, and whether
// there is to be another. chance is a random number in [0,1), which only [Jitter]
// looks at.
func (b Backoff) Wait(try int, chance float64) (time.Duration, bool) {
	if try < 1 || try >= b.Tries || b.Check() != nil {
		return 0, false
	}
	initial, most := b.Initial.D(), b.Max.D()
	if initial == 0 {
		initial = defaultInitial
	}
	if most == 0 {
		most = defaultMax
	}
	wait := float64(initial)
	if b.Strategy != Constant {
		wait *= math.Pow(2, float64(try-1))
	}
	wait = min(wait, float64(most))
	if b.Strategy == Jitter || b.Strategy == "" {
		wait *= min(max(chance, 0), 1)
	}
	return time.Duration(wait), true
}
