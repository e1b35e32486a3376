package limit

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"time"

	"haft"
)

// The defaults of a [Config].
const (
	defaultSettled = 4096
	defaultRunning = 256
	defaultQueue   = 1000
	defaultKeys    = 100_000
)

// Config has the settings of a limiter. The zero value is good.
type Config struct {
	// Running is how many calls may run at once; 0 means 256.
	Running int
	// PerTenant is how many of them one tenant may have; 0 means all.
	PerTenant int
	// Settled is how many calls may have [Grant.Settle]d; 0 means 4,096. One tenant
	// may have three quarters of them.
	Settled int
	// Queue is how many calls of one tenant may wait; 0 means 1,000 and a
	// negative number that none may.
	Queue int
	// Load returns the kept states of those of the keys that have one. Nil means
	// that nothing is kept: every bucket is full when it is first asked for.
	Load func(ctx context.Context, keys []string) ([]State, error)
	// Keys is how many rates and quotas are remembered; 0 means 100,000. One that
	// is as if it had never been used is forgotten first, and then, if there is a
	// Load, one that was not used for five minutes and so is
	// kept elsewhere by now. If there is none, calls with further keys are refused.
	Keys int
}

// An Ask is what a call needs.
type Ask struct {
	// Tenant is whose turn it is.
	Tenant  string
	Rates   []Rate
	Windows []Window
	Quotas  []Quota
	Slots   []Slot
}

// A Rate is a token bucket: it gains PerSecond and holds at most Burst. A call
// takes one. Keys of rates and of quotas must differ. If Burst is raised, the bucket gains
// the difference once: going back and forth between two bursts gains nothing.
type Rate struct {
	Key       string
	PerSecond float64
	Burst     int
}

// A Quota lets Max calls begin from Start until before End. Windows of one key
// follow on each other.
type Quota struct {
	Key        string
	Max        int64
	Start, End time.Time
}

// A Slot is held while a call runs: at most Max calls with the same Key do. If
// Max differs from call to call, that of the latest counts.
type Slot struct {
	Key string
	Max int
}

// A State is the stored state of a rate or a quota.
//
// Several states of one key may be on their way to the store. The latest has the later At; of
// two with the same At it has the fewer Tokens or the greater Used.
type State struct {
	Key string
	// Tokens are in the bucket of a rate.
	Tokens float64
	// Used counts the calls in the window of a quota, or in a part of a [Window]. It is the
	// largest burst that a rate has had.
	Used int64
	// At is when there were so many tokens, when the window of a quota began, or when the last
	// call of the part of a window did, in whole microseconds.
	At time.Time
}

// A Limiter is safe for concurrent use.
type Limiter struct {
	quotas    quotas
	scheduler scheduler
}

// New returns a limiter that nothing was taken from.
func New(cfg Config) *Limiter {
	cfg.Running = cmp.Or(max(cfg.Running, 0), defaultRunning)
	cfg.PerTenant = min(cmp.Or(max(cfg.PerTenant, 0), cfg.Running), cfg.Running)
	cfg.Settled = cmp.Or(max(cfg.Settled, 0), defaultSettled)
	cfg.Queue = cmp.Or(cfg.Queue, defaultQueue)
	cfg.Keys = cmp.Or(max(cfg.Keys, 0), defaultKeys)
	return &Limiter{
		quotas: quotas{
			load: cfg.Load, most: cfg.Keys,
			entries: make(map[string]*entry), loads: make(map[string]*load),
		},
		scheduler: scheduler{
			most: cfg.Running, perTenant: cfg.PerTenant, long: cfg.Settled, queue: max(0, cfg.Queue),
			tenants: make(map[string]*tenant), keys: make(map[string]*key),
		},
	}
}

// check reports why a makes no sense. A rule that cannot be held is refused and
// not passed over.
func (a Ask) check() error {
	for _, r := range a.Rates {
		if !(r.PerSecond > 0) || math.IsInf(r.PerSecond, 0) || r.Burst < 1 {
			return invalid("a rate needs more than 0 calls per second and a burst of at least 1")
		}
	}
	for _, w := range a.Windows {
		if w.Max < 1 || w.Within < time.Millisecond || w.Within > MaxWithin {
			return invalid("a window needs at least 1 call in a time between 1 ms and 24 h")
		}
	}
	for _, q := range a.Quotas {
		if !q.Start.Before(q.End) {
			return invalid("the window of a quota ends after it begins")
		}
	}
	return nil
}

func invalid(message string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: message}
}

// Key joins names so that no two lists look alike.
func Key(parts ...string) string {
	b := make([]byte, 0, 128) // on the stack, which most names fit in
	for i, p := range parts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendQuote(b, p)
	}
	return string(b)
}
