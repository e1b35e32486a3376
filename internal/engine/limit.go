package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"haft"
	"haft/internal/backlog"
	"haft/internal/limit"
	"haft/internal/store"
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
		if err := Pause(ctx, backlog.PostponeMost/10); err != nil {
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
	a := limit.Ask{Tenant: p.Org}
	for _, r := range ex.decision.Rates {
		a.Rates = append(a.Rates, limit.Rate{Key: r.Key, PerSecond: r.PerSecond, Burst: r.Burst})
	}
	if r := t.Version.Settings.Rate; r.PerSecond > 0 {
		name := key("tool-rate", p.Org, p.Owner(), string(t.ID))
		a.Rates = append(a.Rates, limit.Rate{Key: name, PerSecond: r.PerSecond, Burst: burst(r)})
	}
	for _, q := range ex.decision.Quotas {
		start, end := q.Period.Window(now)
		a.Quotas = append(a.Quotas, limit.Quota{Key: q.Key, Max: q.Calls, Start: start, End: end})
	}
	for _, c := range ex.decision.Concurrency {
		a.Slots = append(a.Slots, limit.Slot{Key: c.Key, Max: c.Max})
	}
	if n := t.Version.Settings.Concurrency; n > 0 {
		a.Slots = append(a.Slots, limit.Slot{Key: key("tool-slots", p.Org, string(t.ID)), Max: n})
	}
	a.Slots = slices.DeleteFunc(a.Slots, func(s limit.Slot) bool { return ex.parent.holding(s.Key) })
	ex.keys = nil
	for _, s := range a.Slots {
		ex.keys = append(ex.keys, s.Key)
	}
	return a
}

// burst is how many calls a tool's rate lets come at once; 0 if it bounds nothing.
func burst(r haft.Rate) int {
	if r.Burst == 0 && r.PerSecond > 0 {
		return max(1, int(math.Ceil(r.PerSecond)))
	}
	return r.Burst
}

// key joins names so that no two lists look alike.
func key(parts ...string) string {
	b := make([]byte, 0, 128) // on the stack, which most names fit in
	for i, p := range parts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendQuote(b, p)
	}
	return string(b)
}

// open makes the queues.
func (l *limiter) open() {
	l.limits = limit.New(l.cfg.heavyLimits(l.store.Limits.Limits))
	l.light = limit.New(limit.Config{Running: lightRunning, PerTenant: lightRunning * 3 / 4, Queue: l.cfg.Limits.Queue})
}
