package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/backlog"
	"haft/internal/limit"
	"haft/internal/pause"
	"haft/internal/store"
	"haft/policy"
)

// A limiter has the stage limit.
type limiter struct {
	cfg        *Config
	store      *store.Store
	authorizer *authorizer

	limits *limit.Limiter // rates and quotas of all, and the queue of what is heavy
	light  *limit.Limiter // the queue of the rest
}

// limit takes what the call costs of rates and quotas, and waits for its turn in
// the fair queue. An attempt counts: what is taken is not given back if a later
// stage refuses the call.
func (l *limiter) limit(ctx context.Context, ex *execution) error {
	now := time.Now()
	ask := l.ask(ex, now)
	if ex.approval == nil && ex.rec.Status != haft.StatusQueued { // it has paid when it was accepted
		taken, err := l.limits.Take(ctx, ask, now)
		if err != nil {
			return limited(err)
		}
		ex.taken = taken
	}
	queue := l.light
	if l.cfg.Heavy(ex.tool.Tool) {
		queue = l.limits
	}
	ex.dropTrees() // it may wait for long
	for {
		grant, waited, err := queue.Enter(ctx, ask)
		ex.timeline.Queue += haft.Millis(waited)
		switch {
		case err == nil:
			ex.grant = grant
			return l.authorizer.renew(ctx, ex)
		case haft.CodeOf(err) != haft.CodeRateLimited:
			return err
		case ex.accepted:
			return fmt.Errorf("%w: %w", errQueueFull, err)
		case !ex.isStep():
			return limited(err)
		}
		if err := pause.For(ctx, backlog.PostponeMost/10); err != nil {
			return err
		}
	}
}

// errQueueFull says that an accepted call has no place in the queue yet.
var errQueueFull = errors.New("the queue is full")

// limited makes a refusal of an error that says to come back later.
func limited(err error) error {
	if haft.CodeOf(err) != haft.CodeRateLimited {
		return err
	}
	r := refuse(haft.StatusRate, haft.FailRate, haft.RetrySame, haft.MessageOf(err))
	r.cause = err
	if x, ok := asError(err); ok {
		r.failure.RetryAfter = x.RetryAfter
	}
	return r
}

// ask is what the call needs of the limiter.
func (l *limiter) ask(ex *execution, now time.Time) limit.Ask {
	p, t := ex.call.Principal, ex.tool.Tool
	a := askOf(p.Org, ex.decision, now)
	a.AddRate(limit.Key("tool-rate", p.Org, p.Owner(), string(t.ID)), t.Version.Settings.Rate)
	for _, c := range ex.decision.Concurrency {
		a.Slots = append(a.Slots, limit.Slot{Key: c.Key, Max: c.Max})
	}
	if n := t.Version.Settings.Concurrency; n > 0 {
		a.Slots = append(a.Slots, limit.Slot{Key: limit.Key("tool-slots", p.Org, string(t.ID)), Max: n})
	}
	a.Slots = slices.DeleteFunc(a.Slots, func(s limit.Slot) bool { return ex.parent.holding(s.Key) })
	ex.keys = nil
	for _, s := range a.Slots {
		ex.keys = append(ex.keys, s.Key)
	}
	return a
}

// askOf is what a decision says that a call costs.
func askOf(org string, d policy.Decision, now time.Time) limit.Ask {
	a := limit.Ask{Tenant: org}
	for _, r := range d.Rates {
		a.AddRate(r.Key, haft.Rate{Calls: r.Calls, Within: r.Within, PerSecond: r.PerSecond, Burst: r.Burst})
	}
	for _, q := range d.Quotas {
		start, end := q.Period.Window(now)
		a.Quotas = append(a.Quotas, limit.Quota{Key: q.Key, Max: q.Calls, Start: start, End: end})
	}
	return a
}

// Charge takes what a decision says that a call costs, for work that is no call, and writes an
// entry of the audit about it.
func (e *Engine) Charge(ctx context.Context, p haft.Principal, d policy.Decision, kind string, body any) error {
	now := time.Now()
	entry, err := e.permissions.entry(ctx, p, kind, body)
	if err != nil {
		return err
	}
	taken, err := e.limiter.limits.Take(ctx, askOf(p.Org, d, now), now)
	if err != nil {
		return err
	}
	return e.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}, Limits: taken})
}

// open makes the queues.
func (l *limiter) open() {
	l.limits = limit.New(l.cfg.heavyLimits(l.store.Limits.Limits))
	l.light = limit.New(limit.Config{Running: lightRunning, PerTenant: lightRunning * 3 / 4, Queue: l.cfg.Limits.Queue})
}
