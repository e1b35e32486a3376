package engine

import (
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"haft"
	"haft/policy"
)

// BreakerConfig says when a tool counts as broken: calls are then refused at once
// for a while, and one is let through to see whether it works again.
type BreakerConfig struct {
	// Failures in a row open the circuit; 0 means 5, less than 0 never.
	Failures int
	// Delay is how long it stays open; 0 means 30 seconds.
	Delay time.Duration
	// Kept bounds how many tools are watched; 0 means 10,000.
	Kept int
}

// breakers are the circuits of tools, by organisation and version: a new version
// begins anew.
type breakers struct {
	cfg BreakerConfig

	mu  sync.Mutex
	all map[watched]circuitbreaker.CircuitBreaker[any]
}

// watched is what has one circuit.
type watched struct {
	org, digest string
	tool        haft.ToolID
}

// newBreakers returns circuits that are all closed.
func newBreakers(cfg BreakerConfig) *breakers {
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.Delay == 0 {
		cfg.Delay = 30 * time.Second
	}
	if cfg.Kept == 0 {
		cfg.Kept = 10_000
	}
	return &breakers{cfg: cfg, all: make(map[watched]circuitbreaker.CircuitBreaker[any])}
}

// circuit returns that of the tool, or nil if it has none and needs none.
func (b *breakers) circuit(ex *execution, make bool) circuitbreaker.CircuitBreaker[any] {
	name := watched{org: ex.call.Principal.Org, digest: ex.tool.Tool.Version.Digest, tool: ex.tool.Tool.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.all[name]
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
		b.all[name] = c
	}
	return c
}

// admit refuses a call of a tool that is broken.
func (b *breakers) admit(ex *execution) error {
	if b.cfg.Failures < 0 {
		return nil
	}
	c := b.circuit(ex, false)
	if c == nil || c.TryAcquirePermit() {
		return nil
	}
	r := refuse(haft.StatusError, haft.FailBroken, haft.RetrySame,
		"the tool has failed too often of late and is given a rest")
	r.failure.RetryAfter = haft.Millis(c.RemainingDelay())
	return r
}

// report tells the circuit what became of a call. Only failures that are not the
// caller's count; tools that never failed have no circuit.
func (b *breakers) report(ex *execution) {
	if b.cfg.Failures < 0 {
		return
	}
	bad := ex.res == nil || ex.res.Error != nil &&
		(policy.Transient(ex.res.Error.Kind) || ex.res.Status == haft.StatusLimit ||
			ex.res.Status == haft.StatusUnknown)
	c := b.circuit(ex, bad)
	switch {
	case c == nil:
	case bad:
		c.RecordFailure()
	default:
		c.RecordSuccess()
	}
}

// blocks keep callers from tools for a while after a critical failure.
type blocks struct {
	period time.Duration

	mu    sync.Mutex
	until map[string]time.Time
}

// maxBlocks bounds how many are kept.
const maxBlocks = 10_000

// newBlocks returns blocks of nobody.
func newBlocks(period time.Duration) *blocks {
	return &blocks{period: period, until: make(map[string]time.Time)}
}

// name is who is blocked from what.
func (b *blocks) name(ex *execution) string {
	p := ex.call.Principal
	return key(p.Org, p.Owner(), p.Agent, string(ex.tool.Tool.ID))
}

// add blocks the caller of f from its tool.
func (b *blocks) add(ex *execution) {
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
	b.until[b.name(ex)] = now.Add(b.period)
}

// check refuses the call of somebody who is blocked.
func (b *blocks) check(ex *execution) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) == 0 {
		return nil
	}
	name := b.name(ex)
	t, ok := b.until[name]
	if !ok {
		return nil
	}
	left := time.Until(t)
	if left <= 0 {
		delete(b.until, name)
		return nil
	}
	r := refuse(haft.StatusDenied, haft.FailDenied, haft.RetrySame,
		"after a critical failure this caller cannot use the tool for a while").by("block")
	r.failure.RetryAfter = haft.Millis(left)
	return r
}
