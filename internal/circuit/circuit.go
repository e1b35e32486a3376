// Package circuit keeps callers from tools for a while: from tools that fail in a row, and
// after a critical failure.
package circuit

import (
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"haft"
)

// Config says when a tool counts as broken: calls are then refused at once
// for a while, and one is let through to see whether it works again.
type Config struct {
	// Failures in a row open the circuit; 0 means 5, less than 0 never.
	Failures int
	// Delay is how long it stays open; 0 means 30 seconds.
	Delay time.Duration
	// Kept bounds how many tools are watched; 0 means 10,000.
	Kept int
}

// Breakers are the circuits of tools, by organisation and version: a new version
// begins anew.
type Breakers struct {
	cfg Config

	mu  sync.Mutex
	all map[Tool]circuitbreaker.CircuitBreaker[any]
}

// A Tool has one circuit.
type Tool struct {
	Org, Digest string
	ID          haft.ToolID
}

// NewBreakers returns circuits that are all closed.
func NewBreakers(cfg Config) *Breakers {
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.Delay == 0 {
		cfg.Delay = 30 * time.Second
	}
	if cfg.Kept == 0 {
		cfg.Kept = 10_000
	}
	return &Breakers{cfg: cfg, all: make(map[Tool]circuitbreaker.CircuitBreaker[any])}
}

// circuit returns that of the tool, or nil if it has none and needs none.
func (b *Breakers) circuit(t Tool, make bool) circuitbreaker.CircuitBreaker[any] {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.all[t]
	if c == nil && make {
		if len(b.all) >= b.cfg.Kept {
			for k, old := range b.all { // any that is closed tells nothing
				if old.IsClosed() {
					delete(b.all, k)
					break
				}
			}
		}
		c = circuitbreaker.NewBuilder[any]().WithFailureThreshold(uint(b.cfg.Failures)).WithDelay(
			b.cfg.Delay).WithSuccessThreshold(1).Build()
		b.all[t] = c
	}
	return c
}

// Admit reports whether the tool is not broken, or else when to try again.
func (b *Breakers) Admit(t Tool) (retry time.Duration, ok bool) {
	if b.cfg.Failures < 0 {
		return 0, true
	}
	c := b.circuit(t, false)
	if c == nil || c.TryAcquirePermit() {
		return 0, true
	}
	return c.RemainingDelay(), false
}

// Report tells the circuit what became of a call. Only failures that are not the
// caller's count; tools that never failed have no circuit.
func (b *Breakers) Report(t Tool, failed bool) {
	if b.cfg.Failures < 0 {
		return
	}
	c := b.circuit(t, failed)
	switch {
	case c == nil:
	case failed:
		c.RecordFailure()
	default:
		c.RecordSuccess()
	}
}

// Blocks keep callers from tools for a while after a critical failure.
type Blocks struct {
	period time.Duration

	mu    sync.Mutex
	until map[string]time.Time
}

// maxBlocks bounds how many are kept.
const maxBlocks = 10_000

// NewBlocks returns blocks of nobody.
func NewBlocks(period time.Duration) *Blocks {
	return &Blocks{period: period, until: make(map[string]time.Time)}
}

// Add blocks a name, which is that of a caller and a tool.
func (b *Blocks) Add(name string) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) >= maxBlocks {
		for k, t := range b.until {
			if now.After(t) {
				delete(b.until, k)
			}
		}
	}
	b.until[name] = now.Add(b.period)
}

// Left returns for how long a name is still blocked; 0 means that it is not.
func (b *Blocks) Left(name string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.until[name]
	if !ok {
		return 0
	}
	left := time.Until(t)
	if left <= 0 {
		delete(b.until, name)
		return 0
	}
	return left
}
