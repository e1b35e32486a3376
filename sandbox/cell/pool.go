package cell

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"haft"
)

// Config bounds a pool. The zero value is a good choice for a server.
type Config struct {
	// Least is how many cells a key keeps ready once it was used; 0 means 2, so
	// that a call does not compete with the start of the cell that replaces its own.
	Least int
	// Most is how many a key keeps ready at the height of demand; 0 means 16.
	Most int
	// Total bounds the idle cells of all keys, and so their memory; 0 means
	// 64. At the bound, the key that was unused longest gives its cells up.
	Total int
	// Starting bounds how many cells are started at once, and so the processor
	// time that starting takes; 0 means one for each processor.
	Starting int
	// Idle is how long a key keeps its cells without being used; 0 means a minute.
	Idle time.Duration
	// Boot bounds booting and warming; 0 means 20 seconds.
	Boot time.Duration
	// Backoff is the first pause after a start that failed, doubled with each
	// further one up to a minute; 0 means a second.
	Backoff time.Duration
}

// maxBackoff is the longest pause between attempts to start.
const maxBackoff = time.Minute

// ErrClosed is returned by Take after Close.
var ErrClosed = &haft.Error{Code: haft.CodeUnavailable, Message: "the server is stopping"}

// A Pool keeps cells ready. It is safe for concurrent use.
//
// Lifecycle: New, Take as often as needed, Close.
type Pool struct {
	cfg     Config
	ctx     context.Context // the lifetime of all cells
	cancel  context.CancelFunc
	running sync.WaitGroup
	starts  startQueue

	mu     sync.Mutex
	closed bool
	keys   map[Key]*keyState
	idle   int // cells of all keys
	making int // in advance, for all keys
}

// A keyState is the idle cells of one key, and what is known about it. Its fields are
// guarded by the pool's mu.
type keyState struct {
	plan     Plan
	ready    []*Cell
	making   int
	waiters  []chan *Cell // one for each call that found no idle cell
	demand   demand
	failures int
	until    time.Time // no start before, because of broken
	broken   error
	unused   *time.Timer
	soon     bool // a refill is scheduled
	missed   bool // a refill waits for the call that found no cell
	dropped  bool
	// advance ends when the key is dropped, and with it the cells that are made in advance.
	advance context.Context
	stop    context.CancelFunc
	// noRefills is when idle cells are made again, after one that did not become idle.
	noRefills time.Time
}

// setDefault sets a field that is not positive to its default.
func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// New returns an empty pool. Its cells end when ctx does, at the latest.
func New(ctx context.Context, cfg Config) *Pool {
	setDefault(&cfg.Least, 2)
	setDefault(&cfg.Most, 16)
	setDefault(&cfg.Total, 64)
	setDefault(&cfg.Starting, runtime.GOMAXPROCS(0))
	setDefault(&cfg.Idle, time.Minute)
	setDefault(&cfg.Boot, 20*time.Second)
	setDefault(&cfg.Backoff, time.Second)
	ctx, cancel := context.WithCancel(ctx)
	return &Pool{cfg: cfg, ctx: ctx, cancel: cancel, keys: map[Key]*keyState{},
		starts: startQueue{free: cfg.Starting}}
}

// Take returns a cell that is up and that nobody had before: an idle one if
// there is one, else a fresh one. The caller owns it until Release.
//
// An error is the end of ctx, [ErrClosed], or that cells of this plan do not
// start. For a while after such a failure, Take returns its error without trying again.
func (p *Pool) Take(ctx context.Context, plan Plan) (*Cell, error) {
	waiter := make(chan *Cell, 1)
	s, c, err := p.takeIdle(plan, waiter)
	if c != nil || err != nil {
		return c, err
	}
	t := p.starts.enter(plan.Key, false)
	defer p.starts.leave(t)
	select {
	case c := <-waiter:
		return c, nil
	case <-t.ready:
	case <-ctx.Done():
	}
	if c := p.stopWaiting(s, waiter); c != nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for a cell: %w", context.Cause(ctx))
	}
	if err := p.recentFailure(s); err != nil {
		return nil, err
	}
	c, err = p.make(ctx, s, plan, false)
	if err != nil && ctx.Err() == nil && p.failedOnce(s) {
		// A single failure may be transient. After two in a row, stop trying.
		c, err = p.make(ctx, s, plan, false)
	}
	return c, err
}

// Try is Take without waiting: it returns nil if no cell is idle.
func (p *Pool) Try(plan Plan) *Cell {
	p.mu.Lock()
	s := p.keys[plan.Key]
	none := s == nil || len(s.ready) == 0
	p.mu.Unlock()
	if none {
		return nil
	}
	// Another call may take it meanwhile, and then one is being made.
	_, c, _ := p.takeIdle(plan, nil)
	return c
}

// failedOnce reports whether only one start has failed since the last success.
func (p *Pool) failedOnce(s *keyState) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.failures == 1
}

// takeIdle takes an idle cell, and starts to make another one. If there is none, the
// waiter, if not nil, gets the next cell that is made in advance.
func (p *Pool) takeIdle(plan Plan, waiter chan *Cell) (*keyState, *Cell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	s := p.keys[plan.Key]
	if s == nil {
		s = &keyState{plan: plan}
		if plan.Warm != nil || plan.Reuse {
			p.keys[plan.Key] = s
			s.advance, s.stop = context.WithCancel(p.ctx)
			s.unused = time.AfterFunc(p.cfg.Idle, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.drop(s)
			})
		}
	} else {
		s.unused.Reset(p.cfg.Idle)
	}
	s.demand.arrive(time.Now())
	var c *Cell
	for len(s.ready) > 0 && c == nil {
		c, s.ready = s.ready[0], s.ready[1:]
		p.idle--
		if !c.alive() {
			c.discard()
			c = nil
		}
	}
	if c != nil {
		c.Hit = true
	} else if s.broken != nil && time.Now().Before(s.until) {
		return nil, nil, s.broken
	}
	switch {
	case c != nil && len(s.ready) > 0:
		p.refillSoon(s)
	case c == nil && waiter != nil && !s.missed:
		s.missed = true
		time.AfterFunc(missDelay, func() { p.refillAfterMiss(s) })
	default:
		p.refill(s)
	}
	if c == nil && waiter != nil {
		s.waiters = append(s.waiters, waiter)
	}
	return s, c, nil
}

// refillDelay is how long a refill waits while there still is an idle cell.
// Making one takes a processor for longer than most calls take; the call that
// just took a cell should have it first.
const refillDelay = 2 * time.Millisecond

// missDelay bounds how long the refill for a call that found no cell waits for the end of this call.
// Cells that import in advance what the call imports itself would compete with it for processors.
const missDelay = 500 * time.Millisecond

// refillAfterMiss makes up for a refill that waited for a call, if none has yet.
func (p *Pool) refillAfterMiss(s *keyState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.missed {
		s.missed = false
		p.refill(s)
	}
}

// refillSoon refills after a moment. Preconditions: mu is held.
func (p *Pool) refillSoon(s *keyState) {
	if s.soon {
		return
	}
	s.soon = true
	time.AfterFunc(refillDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.soon = false
		p.refill(s)
	})
}

// refill starts to make the idle cells that a key lacks. Preconditions: mu is held.
func (p *Pool) refill(s *keyState) {
	if p.closed || s.dropped || s.plan.Warm == nil || s.plan.Reuse || s.broken != nil ||
		time.Now().Before(s.noRefills) {
		return
	}
	want := s.demand.want(p.cfg.Least, p.cfg.Most)
	for len(s.ready)+s.making < want && p.freeIdleSlot(s) {
		s.making++
		p.making++
		p.running.Go(func() { p.makeIdle(s) })
	}
}

// freeIdleSlot makes sure that one more cell may be idle. If necessary it ends one of the
// key that was unused longest. It reports whether it succeeded. Preconditions: mu is held.
func (p *Pool) freeIdleSlot(s *keyState) bool {
	if p.idle+p.making < p.cfg.Total {
		return true
	}
	var oldest *keyState
	for _, o := range p.keys {
		if o != s && len(o.ready) > 0 && (oldest == nil || o.demand.last.Before(oldest.demand.last)) {
			oldest = o
		}
	}
	if oldest == nil || oldest.demand.last.After(s.demand.last) {
		return false
	}
	oldest.ready[0].discard()
	oldest.ready = oldest.ready[1:]
	p.idle--
	return true
}

// makeIdle makes one cell in advance.
func (p *Pool) makeIdle(s *keyState) {
	t := p.starts.enter(s.plan.Key, true)
	defer p.starts.leave(t)
	var c *Cell
	select {
	case <-t.ready:
		if p.recentFailure(s) == nil {
			c, _ = p.make(s.advance, s, s.plan, true) // make keeps the error for the next Take
		}
	case <-s.advance.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.making--
	p.making--
	switch {
	case c == nil:
	case !c.warm && len(s.waiters) == 0: // the call that it was made for got another one, or has gone
		c.discard()
		p.refill(s)
	default:
		p.addIdle(s, c)
	}
}

// addIdle hands c to a waiting call, or keeps it idle. Preconditions: mu is held.
func (p *Pool) addIdle(s *keyState, c *Cell) {
	switch {
	case len(s.waiters) > 0 && c.alive():
		s.waiters[0] <- c
		s.waiters = s.waiters[1:]
		p.refill(s) // this one was meant to be idle
	case s.dropped || p.closed || !c.alive():
		c.discard()
	default:
		s.ready = append(s.ready, c)
		p.idle++
	}
}

// make starts a cell and waits until it is up, and idle if it is made in advance.
func (p *Pool) make(ctx context.Context, s *keyState, plan Plan, inAdvance bool) (*Cell, error) {
	began := time.Now()
	c, err := p.start(s, plan)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Cancel(context.Cause(ctx)); c.discard() })
	defer stop()
	if err = c.Conn.SetDeadline(began.Add(p.cfg.Boot)); err == nil && plan.Boot != nil {
		err = plan.Boot(c.Conn)
	}
	if err == nil && inAdvance && plan.Warm != nil && !p.isAwaited(s) {
		c.warm = true
		if err = plan.Warm(c.Conn); err == nil {
			err = c.awaitIdle(p.cfg.Boot)
		}
	}
	if err == nil {
		err = c.Conn.SetDeadline(time.Time{})
	}
	if err == nil && stop() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.failures, s.broken = 0, nil
		s.demand.made(time.Since(began))
		return c, nil
	}
	c.discard()
	<-c.ended
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start a cell: %w", context.Cause(ctx))
	}
	if errors.Is(err, errNotIdle) {
		// It came up: a call may have one. Only idle ones are not made for a while.
		p.stopRefills(s)
		return nil, err
	}
	return nil, p.fail(s, c, err)
}

// isAwaited reports whether a call waits for the next cell. To warm it first would only make the call wait longer.
func (p *Pool) isAwaited(s *keyState) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(s.waiters) > 0
}

// stopRefills makes no idle cells of a key for the longest backoff.
func (p *Pool) stopRefills(s *keyState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.noRefills = time.Now().Add(maxBackoff)
}

// errNotIdle says that a cell was ended because it did not become idle.
var errNotIdle = errors.New("it is more than one process, or does not come to rest")

// awaitIdle waits until the provider has seen that the command only waits.
func (c *Cell) awaitIdle(most time.Duration) error {
	close(c.prepared)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c.idle:
		return nil
	case <-c.ended:
		c.reportSpoilt()
	case <-timer.C: // a provider that does not answer
	}
	return errNotIdle
}

// A StartError says that the command of a cell did not come up.
type StartError struct {
	// Said is the beginning of its output.
	Said string
	Err  error
}

// Error returns the error without the output of the command.
func (e *StartError) Error() string { return "start a cell: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// fail records a failed start, so that the next ones wait, and returns its error.
func (p *Pool) fail(s *keyState, c *Cell, err error) error {
	if _, runErr := c.Exit(); runErr != nil {
		err = runErr
	} else {
		err = &StartError{Said: c.Early(), Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeDenied {
		// A rule refused it; trying costs nothing, and the rule may change.
		return err
	}
	// Starts that were under way when the first one failed fail for the same reason: all
	// callers get that one error, so that an operator reads one report and not one for each start.
	now := time.Now()
	if s.broken == nil || !now.Before(s.until) {
		s.broken = err
	}
	s.until = now.Add(min(p.cfg.Backoff<<min(s.failures, 10), maxBackoff))
	s.failures++
	return s.broken
}

// recentFailure returns the error of a start that failed a moment ago, or nil.
func (p *Pool) recentFailure(s *keyState) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.broken != nil && time.Now().Before(s.until) {
		return s.broken
	}
	return nil
}

// stopWaiting removes a waiter. It returns the cell if the waiter got one meanwhile.
func (p *Pool) stopWaiting(s *keyState, w chan *Cell) *Cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(s.waiters, w); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
		return nil
	}
	return <-w
}

// giveBack makes a used cell of a plan with Reuse idle again.
func (p *Pool) giveBack(c *Cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := c.state
	if p.closed || s.dropped || !c.alive() || len(s.ready) >= p.cfg.Most || p.idle >= p.cfg.Total {
		return false
	}
	c.stdout.setWriter(nil)
	c.stderr.setWriter(nil)
	p.addIdle(s, c)
	return true
}

// removeIdle removes a cell whose run has ended, and reports whether it was idle.
func (p *Pool) removeIdle(c *Cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(c.state.ready, c)
	if i < 0 {
		return false
	}
	c.state.ready = slices.Delete(c.state.ready, i, i+1)
	p.idle--
	c.discard()
	return true
}

// drop ends the idle cells of a key, and those that are made in advance, and forgets it. Preconditions: mu is held.
func (p *Pool) drop(s *keyState) {
	if s.dropped {
		return
	}
	s.dropped = true
	if s.unused != nil {
		s.unused.Stop()
		s.stop()
	}
	delete(p.keys, s.plan.Key)
	for _, c := range s.ready {
		c.discard()
	}
	p.idle -= len(s.ready)
	s.ready = nil
}

// Drop ends the idle cells of the matching keys, and those that are made in advance, as after a
// change of policy. Cells in use go on.
func (p *Pool) Drop(match func(Key) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, s := range p.keys {
		if match(k) {
			p.drop(s)
		}
	}
}

// Count returns how many cells of the matching keys are idle.
func (p *Pool) Count(match func(Key) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for k, s := range p.keys {
		if match(k) {
			n += len(s.ready)
		}
	}
	return n
}

// Close ends all cells, those in use too, and waits until nothing of them is
// left. It can be called twice.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.keys {
		p.drop(s)
	}
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
}
