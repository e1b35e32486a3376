package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"haft"
)

// The circuit of one server: how long it is left alone after failures in a row.
const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = time.Minute
)

// errGone says that a slot was dropped while somebody waited for it.
var errGone = errors.New("the session was dropped")

// A slot is the place of one session: at most one is open, and one is opened at a
// time, for all who wait. It has a circuit of its own.
type slot struct {
	pool   *Pool
	key    key
	server haft.MCPServer // as it was when the slot was made

	mu       sync.Mutex
	current  *session
	opening  chan struct{} // closed when the opening is over; nil if there is none
	failure  error         // of the last opening
	failures int           // in a row
	until    time.Time     // nothing is tried before
	calls    int
	used     time.Time
	gone     bool
	why      error // why it was ended, for those whose calls end with it; may be nil
}

// take returns the session, and opens it if there is none.
func (s *slot) take(ctx context.Context, w wanted) (*session, error) {
	for waited := false; ; waited = true {
		s.mu.Lock()
		switch {
		case s.gone:
			s.mu.Unlock()
			return nil, errGone
		case s.current != nil:
			s.calls++
			s.used = time.Now()
			got := s.current
			s.mu.Unlock()
			return got, nil
		case waited && s.opening == nil && s.failure != nil:
			err := s.failure
			s.mu.Unlock()
			return nil, err
		case s.opening == nil:
			if left := time.Until(s.until); left > 0 {
				err := &Failed{Fault: FaultNetwork, Broken: true, After: left,
					Message: "the server failed of late and is left alone for a while", Err: s.failure}
				s.mu.Unlock()
				return nil, err
			}
			s.opening = make(chan struct{})
			if !s.pool.spawn(func() { s.open(w) }) {
				s.opening = nil
				s.mu.Unlock()
				return nil, errClosed
			}
		}
		opening := s.opening
		s.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open connects, and tells who waits.
func (s *slot) open(w wanted) {
	got, err := s.pool.connect(s, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	switch {
	case err != nil:
		s.failed(err)
	case s.gone:
		s.failure = errGone
		s.pool.spawnLocked(got.close)
	default:
		s.current = got
	}
	close(s.opening)
	s.opening = nil
}

// spawnLocked runs work whether or not the pool is closed: the caller is a
// goroutine of the pool, for which Close waits.
func (p *Pool) spawnLocked(work func()) { p.work.Go(work) }

// failed counts a failure. Precondition: mu is held.
func (s *slot) failed(err error) {
	if _, ok := errors.AsType[*needLogin](err); ok || haft.CodeOf(err) == haft.CodeDenied {
		return // it is not the server's fault
	}
	s.failures++
	wait := min(firstBackoff<<min(s.failures-1, 10), lastBackoff)
	s.until = time.Now().Add(time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64())))
}

// give gives a session back. A call that was answered closes the circuit.
func (s *slot) give(answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.used = time.Now()
	if answered {
		s.failures, s.until = 0, time.Time{}
	}
}

// lose forgets a session that has ended. If nobody ended it, that is a failure.
func (s *slot) lose(was *session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != was {
		return
	}
	s.current = nil
	if err != nil {
		s.failure = &Failed{Fault: FaultNetwork, Message: "the session with the server ended", Err: err}
		s.failed(s.failure)
	}
}

// live returns the session if there is one.
func (s *slot) live() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// idle returns when the slot was used last, and whether it is in use.
func (s *slot) idle() (used time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.calls > 0 || s.opening != nil
}

// ended returns why the slot was ended by somebody, or nil.
func (s *slot) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// end ends the session, and whatever is being opened ends when it is open.
func (s *slot) end() { s.endFor(nil) }

// endFor is end, for a reason.
func (s *slot) endFor(why error) {
	s.mu.Lock()
	s.gone = true
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

// Fault is whose fault it is that a server gave no result.
type Fault string

// The faults.
const (
	FaultNetwork  Fault = "network"  // it cannot be reached, or went away
	FaultProtocol Fault = "protocol" // it does not speak MCP
	FaultCommand  Fault = "command"  // it cannot be started, or ended
)

// Failed says why there is no session with a server, or no list of its tools.
type Failed struct {
	Fault   Fault
	Message string
	// Broken says that nothing was tried, because it failed too often of late.
	Broken bool
	// After is how long to wait before trying again.
	After time.Duration
	Err   error
}

// Error implements error. It is for the operator; Message is for callers.
func (f *Failed) Error() string {
	if f.Err == nil {
		return f.Message
	}
	return fmt.Sprintf("%s: %s", f.Message, f.Err.Error())
}

// Unwrap returns the cause.
func (f *Failed) Unwrap() error { return f.Err }

// Coded returns err as an error with a code and words for callers.
func Coded(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	if n, ok := errors.AsType[*needLogin](err); ok {
		return &haft.Error{Code: haft.CodeDenied, Message: n.Error(), Err: err}
	}
	if f, ok := errors.AsType[*Failed](err); ok {
		return &haft.Error{Code: haft.CodeUnavailable, Message: f.Message, RetryAfter: haft.Millis(f.After), Err: err}
	}
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the server cannot be reached", Err: err}
}
