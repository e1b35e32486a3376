package limit

import (
	"context"
	"sync"
	"time"
)

// The defaults of a [Config].
const (
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
	// Queue is how many calls of one tenant may wait; 0 means 1,000 and a
	// negative number that none may.
	Queue int
	// Load returns the kept states of those of the keys that have one. Nil means
	// that nothing is kept: every bucket is full when it is first asked for.
	Load func(ctx context.Context, keys []string) ([]State, error)
	// Keys is how many rates and quotas are remembered; 0 means 100,000. One that
	// is as if it had never been used is forgotten first, and then, if there is a
	// Load, one that was not used for a minute.
	Keys int
}

// An Ask is what a call needs.
type Ask struct {
	// Tenant is whose turn it is.
	Tenant string
	Rates  []Rate
	Quotas []Quota
	Slots  []Slot
}

// A Rate is a token bucket: it gains PerSecond and holds at most Burst. A call
// takes one. Keys of rates and of quotas must differ.
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

// A State is what is to be kept of a rate or a quota.
//
// Several states of one key may be on their way to where they are kept. The
// latest has the later At; of two with the same At it has the fewer Tokens or the
// greater Used.
type State struct {
	Key string
	// Tokens are in the bucket of a rate.
	Tokens float64
	// Used counts the calls in the window of a quota.
	Used int64
	// At is when there were so many tokens, or when the window began, in whole
	// microseconds.
	At time.Time
}

// A Limiter is safe for concurrent use.
type Limiter struct {
	cfg Config
	book
	hall
}

// New returns a limiter that nothing was taken from.
func New(cfg Config) *Limiter {
	if cfg.Running <= 0 {
		cfg.Running = defaultRunning
	}
	if cfg.PerTenant <= 0 || cfg.PerTenant > cfg.Running {
		cfg.PerTenant = cfg.Running
	}
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	if cfg.Keys <= 0 {
		cfg.Keys = defaultKeys
	}
	return &Limiter{cfg: cfg}
}

type book struct{ mu sync.Mutex }
type hall struct{}

// Take takes.
func (l *Limiter) Take(ctx context.Context, ask Ask, now time.Time) ([]State, error) { return nil, nil }

// Enter waits.
func (l *Limiter) Enter(ctx context.Context, ask Ask) (*Grant, time.Duration, error) {
	return &Grant{}, 0, nil
}

// A Grant is held.
type Grant struct{}

// Leave ends.
func (g *Grant) Leave() {}

// Stats are counts.
type Stats struct {
	Running, Waiting, Keys int
	Tenants                []TenantStats
}

// TenantStats are of one.
type TenantStats struct {
	Tenant           string
	Running, Waiting int
}

// Stats returns counts.
func (l *Limiter) Stats() Stats { return Stats{} }
