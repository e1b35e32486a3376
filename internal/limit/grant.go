package limit

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// What has become of a call that entered.
type stage byte

const (
	waiting stage = iota
	running
	gone
)

// A Grant is the right to run, until Leave.
type Grant struct {
	scheduler *scheduler
	tenant    *tenant
	seq       uint64 // of arrival
	keys      []*key // that it needs a slot of
	few       [2]*key

	stage   stage
	settled bool
	began   time.Time     // to run
	done    chan struct{} // closed when it may run; nil if it never waited

	// While it waits it is in the list of its group.
	group      *group
	prev, next *Grant
}

// Enter waits until the call may run: see the package comment. It returns how long that took.
// The caller of Enter has to call [Grant.Leave].
//
// If too many calls of the tenant wait already, the error is a
// [haft.CodeRateLimited] whose RetryAfter is an estimate. If ctx ends first, the
// call is out of the queue when Enter returns, and the error is that of ctx.
func (l *Limiter) Enter(ctx context.Context, ask Ask) (*Grant, time.Duration, error) {
	for _, s := range ask.Slots {
		if s.Max < 1 {
			return nil, 0, invalid("at least one call with a key has to be able to run")
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("wait for a turn: %w", err)
	}
	g, err := l.scheduler.enter(ask)
	if err != nil || g.done == nil {
		return g, 0, err
	}
	from := time.Now()
	select {
	case <-g.done:
		return g, time.Since(from), nil
	case <-ctx.Done():
		g.Leave() // also if its turn came at the same moment
		return nil, time.Since(from), fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
}

// Leave gives back what the call held. Leaving again changes nothing.
func (g *Grant) Leave() {
	if g == nil {
		return
	}
	s := g.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g.stage {
	case waiting:
		s.abandon(g)
	case running:
		s.leave(g)
	}
}

// Settle says that the call takes long, because it sleeps or waits for others: it goes on and
// keeps the slots of its keys, and another call may run in its place. It reports false if too
// many calls have settled already: then the call keeps its place, so that the number of running
// calls stays bounded.
func (g *Grant) Settle() bool {
	s := g.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.stage != running || g.settled {
		return g.settled
	}
	if s.settled >= s.long || g.tenant.settled >= (s.long*3+3)/4 {
		return false
	}
	g.settled = true
	s.settled++
	g.tenant.settled++
	s.running--
	g.tenant.running--
	s.line(g.tenant)
	s.dispatch()
	return true
}

// enter returns a grant that is running, or one that waits and has a channel.
func (s *scheduler) enter(ask Ask) (*Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	g := &Grant{scheduler: s, seq: s.seq}
	g.keys = g.few[:0]
	for _, slot := range ask.Slots {
		s.need(g, slot)
	}
	t := s.tenant(ask.Tenant) // after need, which may forget tenants without calls
	g.tenant = t
	// If there is a free slot now, no waiting call is passed: see the invariants of scheduler.
	if s.running < s.most && t.running < s.perTenant && full(g.keys, nil) == nil {
		s.start(g)
		return g, nil
	}
	if t.waiting >= s.queue {
		wait := s.estimate(t)
		s.part(g)
		return nil, &haft.Error{
			Code: haft.CodeRateLimited, Message: "too many calls are waiting already", RetryAfter: haft.Millis(wait),
		}
	}
	g.done = make(chan struct{})
	s.await(g)
	return g, nil
}

// estimate returns when the queue of t may have a free place: the recent duration of calls,
// divided by the slots that t has if all present tenants share them.
func (s *scheduler) estimate(t *tenant) time.Duration {
	share := min(s.perTenant, max(1, s.most/max(1, len(s.tenants))))
	if t.running > 0 {
		share = min(share, t.running) // its keys may allow for less
	}
	wait := s.took / time.Duration(max(1, share))
	return min(max(wait, 10*time.Millisecond), time.Minute)
}
