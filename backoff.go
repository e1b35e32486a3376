package haft

import (
	"cmp"
	"math"
	"time"
)

// Strategy says how waits grow from try to try.
type Strategy string

// The strategies.
const (
	Constant    Strategy = "constant"           // always the same
	Exponential Strategy = "exponential"        // twice as long each time
	Jitter      Strategy = "exponential_jitter" // anything up to that, so that callers spread out
	Spread      Strategy = "exponential_spread" // that, and up to a tenth more
)

// A Backoff says how often to try again, and how long to wait between tries. The
// zero value never tries again. Tools have other defaults: see [Backoff.ForTool].
type Backoff struct {
	Strategy Strategy `json:"strategy,omitempty"` // empty means [Jitter]
	// Tries counts them all, the first included; 0 means 1.
	Tries int `json:"tries,omitempty"`
	// Initial is the first wait; 0 means 200 ms.
	Initial Millis `json:"initial_ms,omitempty"`
	// Max bounds every wait; 0 means 30 s.
	Max Millis `json:"max_ms,omitempty"`
	// Stretch is by how much the wall time of each further try grows; 0 means 1,
	// which is not at all.
	Stretch float64 `json:"stretch,omitempty"`
}

// The bounds and defaults of a Backoff.
const (
	MaxTries       = 10
	MaxStretch     = 4
	defaultInitial = 200 * time.Millisecond
	defaultMax     = 30 * time.Second
)

// ForTool returns b with the defaults of tools where something of it is set: 4 tries, which are 3
// retries, and waits of [Spread] from 1 s to 60 s.
func (b Backoff) ForTool() Backoff {
	if b == (Backoff{}) {
		return b
	}
	b.Tries, b.Strategy = cmp.Or(b.Tries, 4), cmp.Or(b.Strategy, Spread)
	b.Initial = cmp.Or(b.Initial, Millis(time.Second))
	b.Max = cmp.Or(b.Max, Millis(time.Minute))
	return b
}

// Check reports why b is invalid.
func (b Backoff) Check() error {
	var message string
	switch {
	case b.Strategy != "" && b.Strategy != Constant && b.Strategy != Exponential && b.Strategy != Jitter &&
		b.Strategy != Spread:
		message = "a backoff is constant, exponential, exponential_jitter or exponential_spread"
	case b.Tries < 0 || b.Tries > MaxTries:
		message = "the number of tries is between 1 and 10"
	case b.Initial < 0 || b.Max < 0:
		message = "a wait is not negative"
	case b.Stretch != 0 && !(b.Stretch >= 1 && b.Stretch <= MaxStretch):
		message = "the stretch of a backoff is between 1 and 4"
	default:
		return nil
	}
	return &Error{Code: CodeInvalid, Message: message}
}

// Wait returns how long to wait after the given try, counted from 1, and whether
// there is to be another. chance is a random number in [0,1), which only [Jitter]
// and [Spread] look at.
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
	chance = min(max(chance, 0), 1)
	if b.Strategy == Spread {
		wait *= 1 + chance/10
	}
	wait = min(wait, float64(most))
	if b.Strategy == Jitter || b.Strategy == "" {
		wait *= chance
	}
	return time.Duration(wait), true
}

// Wall returns the wall time of the given try, counted from 1.
func (b Backoff) Wall(first Millis, try int) Millis {
	if b.Stretch <= 1 || try <= 1 || b.Check() != nil {
		return first
	}
	return Millis(float64(first) * math.Pow(b.Stretch, float64(min(try, MaxTries)-1)))
}
