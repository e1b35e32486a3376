package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"haft"
)

// The circuit breaker of one server: how long it is not tried again after failures in a
// row.
const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = time.Minute
)

// errDropped says that a slot was dropped while a caller waited for it.
var errDropped = errors.New("the session was dropped")

// A slot holds at most one open session. It opens one at a time, for all waiting
// callers, and has a circuit breaker.
type slot struct {
	pool   *Pool
	key    key
	server haft.MCPServer // as it was when the slot was made

	mu       sync.Mutex
	current  *session
	opening  chan struct{} // closed when the opening is over; nil if there is none
	failure  error         // of the last opening
	failures int           // in a row
	until    time.Time     // no attempt before
	calls    int
	used     time.Time
	dropped  bool
	why      error // why the slot was ended, for its running calls; may be nil
}

// acquire returns the session, and opens it if there is none.
func (s *slot) acquire(ctx context.Context, to target) (*session, error) {
	for waited := false; ; waited = true {
		got, opening, err := s.try(to, waited)
		if got != nil || err != nil {
			return got, err
		}
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try returns the session, a channel that is closed when the current opening is over, or
// an error. Waited says that the caller has waited for an opening before.
func (s *slot) try(to target, waited bool) (*session, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dropped:
		return nil, nil, errDropped
	case s.current != nil:
		s.calls++
		s.used = time.Now()
		return s.current, nil, nil
	case s.opening != nil:
		return nil, s.opening, nil
	case waited && s.failure != nil:
		return nil, nil, s.failure
	}
	if left := time.Until(s.until); left > 0 {
		return nil, nil, &Failed{Fault: FaultNetwork, Broken: true, After: left,
			Message: "the server failed of late and is left alone for a while", Err: s.failure}
	}
	s.opening = make(chan struct{})
	if !s.pool.spawn(func() { s.open(to) }) {
		s.opening = nil
		return nil, nil, errClosed
	}
	return nil, s.opening, nil
}

// open connects, and wakes the waiting callers.
func (s *slot) open(to target) {
	got, err := s.pool.connect(s, to)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	switch {
	case err != nil:
		s.countFailure(err)
	case s.dropped:
		s.failure = errDropped
		s.pool.work.Go(got.close) // this goroutine is the pool's, so that Close still waits
	default:
		s.current = got
	}
	close(s.opening)
	s.opening = nil
}

// countFailure starts or lengthens the backoff. Precondition: mu is held.
func (s *slot) countFailure(err error) {
	if NeedsLogin(err) || haft.CodeOf(err) == haft.CodeDenied {
		return // it is not the server's fault
	}
	s.failures++
	wait := min(firstBackoff<<min(s.failures-1, 10), lastBackoff)
	s.until = time.Now().Add(time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64())))
}

// release ends the use of a session. A call that was answered closes the circuit.
func (s *slot) release(answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.used = time.Now()
	if answered {
		s.failures, s.until = 0, time.Time{}
	}
}

// forget removes a session that the server ended, which counts as a failure.
func (s *slot) forget(was *session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != was {
		return
	}
	s.current = nil
	s.failure = &Failed{Fault: FaultNetwork, Message: "the session with the server ended", Err: err}
	s.countFailure(s.failure)
}

// live returns the open session, or nil.
func (s *slot) live() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// lastUse returns when the slot was used last, and whether it is in use.
func (s *slot) lastUse() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.calls > 0 || s.opening != nil
}

// endReason returns why the slot was ended, or nil.
func (s *slot) endReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// end ends the session. One that is being opened ends as soon as it is open. Why, if
// not nil, is what running calls report.
func (s *slot) end(why error) {
	s.mu.Lock()
	s.dropped = true
	if s.why == nil {
		s.why = why
	}
	was := s.current
	s.current = nil
	s.mu.Unlock()
	if was != nil {
		was.close()
	}
}
