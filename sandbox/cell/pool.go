package cell

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"haft"
)

// Config bounds a pool. The zero value is a good choice for a server.
type Config struct {
	// Least is how many cells a key keeps ready once it was used; 0 means 2, so
	// that the one that replaces the first need not be made while that is used.
	Least int
	// Most is how many a key keeps ready at the height of demand; 0 means 16.
	Most int
	// Total bounds the parked cells of all keys, and so their memory; 0 means
	// 64. At the bound, the key that was idle longest gives its cells up.
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
	gate    gate

	mu      sync.Mutex
	closed  bool
	shelves map[Key]*shelf
	parked  int
	making  int // for stock, of all shelves
}

// A shelf holds the cells of one key. Its fields are guarded by the pool's mu.
type shelf struct {
	plan     Plan
	ready    []*Cell
	making   int
	waiters  []chan *Cell // one for each call that found the shelf empty
	demand   demand
	failures int
	until    time.Time // no start before, because of broken
	broken   error
	idle     *time.Timer
	soon     bool // a refill is on its way
	gone     bool
}

// New returns an empty pool. Its cells end when ctx does, at the latest.
func New(ctx context.Context, cfg Config) *Pool {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	defTime := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&cfg.Least, 2)
	def(&cfg.Most, 16)
	def(&cfg.Total, 64)
	def(&cfg.Starting, runtime.GOMAXPROCS(0))
	defTime(&cfg.Idle, time.Minute)
	defTime(&cfg.Boot, 20*time.Second)
	defTime(&cfg.Backoff, time.Second)
	ctx, cancel := context.WithCancel(ctx)
	return &Pool{
		cfg: cfg, ctx: ctx, cancel: cancel, shelves: map[Key]*shelf{},
		gate: gate{free: cfg.Starting},
	}
}

// Take returns a cell that is up and that nobody had before: a parked one if
// there is one, else a fresh one. The caller owns it until Release.
//
// An error is the end of ctx, [ErrClosed], or that cells of this plan do not
// start; while that is known, Take says so without trying again.
func (p *Pool) Take(ctx context.Context, plan Plan) (*Cell, error) {
	s, c, err := p.fromShelf(plan)
	if c != nil || err != nil {
		return c, err
	}
	waiter := make(chan *Cell, 1)
	p.wait(s, waiter)
	t := p.gate.ask(plan.Key, false)
	defer p.gate.leave(t)
	select {
	case c := <-waiter:
		return c, nil
	case <-t.ready:
	case <-ctx.Done():
	}
	if c := p.unwait(s, waiter); c != nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for a cell: %w", context.Cause(ctx))
	}
	if err := p.known(s); err != nil {
		return nil, err
	}
	c, err = p.make(ctx, s, plan, false)
	if err != nil && ctx.Err() == nil && p.firstFailure(s) {
		// Machines have bad moments. Twice in a row is a reason to stop trying.
		c, err = p.make(ctx, s, plan, false)
	}
	return c, err
}

// Try is Take where that needs no waiting: it returns nil if no cell is parked.
func (p *Pool) Try(plan Plan) *Cell {
	p.mu.Lock()
	s := p.shelves[plan.Key]
	none := s == nil || len(s.ready) == 0
	p.mu.Unlock()
	if none {
		return nil
	}
	// Another may take it meanwhile, and then one is being made.
	_, c, _ := p.fromShelf(plan)
	return c
}

// firstFailure reports whether only one start failed since the last that did not.
func (p *Pool) firstFailure(s *shelf) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.failures == 1
}

// fromShelf takes a parked cell, and sees to it that another is made.
func (p *Pool) fromShelf(plan Plan) (*shelf, *Cell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	s := p.shelves[plan.Key]
	if s == nil {
		s = &shelf{plan: plan}
		if plan.Warm != nil || plan.Reuse {
			p.shelves[plan.Key] = s
			s.idle = time.AfterFunc(p.cfg.Idle, func() { p.clear(s) })
		}
	} else {
		s.idle.Reset(p.cfg.Idle)
	}
	s.demand.arrive(time.Now())
	var c *Cell
	for len(s.ready) > 0 && c == nil {
		c, s.ready = s.ready[0], s.ready[1:]
		p.parked--
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
	if c != nil && len(s.ready) > 0 {
		p.refillSoon(s)
	} else {
		p.refill(s)
	}
	return s, c, nil
}

// refillDelay is how long a refill waits while there still is a parked cell.
// Making one takes a processor for longer than most calls take; the call that
// just took a cell should have it first.
const refillDelay = 2 * time.Millisecond

// refillSoon refills after a moment. Preconditions: mu is held.
func (p *Pool) refillSoon(s *shelf) {
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

// refill starts making what the shelf lacks. Preconditions: mu is held.
func (p *Pool) refill(s *shelf) {
	if p.closed || s.gone || s.plan.Warm == nil || s.plan.Reuse || s.broken != nil {
		return
	}
	want := s.demand.want(p.cfg.Least, p.cfg.Most)
	for len(s.ready)+s.making < want && p.room(s) {
		s.making++
		p.making++
		p.running.Go(func() { p.stock(s) })
	}
}

// room reports whether one more cell may be parked, after taking one from the
// key that was idle longest if need be. Preconditions: mu is held.
func (p *Pool) room(s *shelf) bool {
	if p.parked+p.making < p.cfg.Total {
		return true
	}
	var oldest *shelf
	for _, o := range p.shelves {
		if o != s && len(o.ready) > 0 && (oldest == nil || o.demand.last.Before(oldest.demand.last)) {
			oldest = o
		}
	}
	if oldest == nil || oldest.demand.last.After(s.demand.last) {
		return false
	}
	oldest.ready[0].discard()
	oldest.ready = oldest.ready[1:]
	p.parked--
	return true
}

// stock makes one cell and parks it, or hands it to a call that waits.
func (p *Pool) stock(s *shelf) {
	t := p.gate.ask(s.plan.Key, true)
	defer p.gate.leave(t)
	var c *Cell
	if t.wait(p.ctx) == nil && p.known(s) == nil {
		// The error is kept by make for the next Take.
		c, _ = p.make(p.ctx, s, s.plan, true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.making--
	p.making--
	if c != nil {
		p.park(s, c)
	}
}

// park puts c where it is needed. Preconditions: mu is held.
func (p *Pool) park(s *shelf, c *Cell) {
	switch {
	case len(s.waiters) > 0 && c.alive():
		s.waiters[0] <- c
		s.waiters = s.waiters[1:]
		p.refill(s) // this one was meant for the shelf
	case s.gone || p.closed || !c.alive():
		c.discard()
	default:
		s.ready = append(s.ready, c)
		p.parked++
	}
}

// make starts a cell and waits until it is up, and warm if it is for stock.
func (p *Pool) make(ctx context.Context, s *shelf, plan Plan, warm bool) (*Cell, error) {
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
	if err == nil && warm && plan.Warm != nil {
		if err = plan.Warm(c.Conn); err == nil {
			err = c.settle(p.cfg.Boot)
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
	return nil, p.fail(s, c, err)
}

// errNotAlone says that a cell was ended instead of being parked.
var errNotAlone = errors.New("it is more than one process, or does not come to rest")

// settle waits until the provider has seen that the command only waits.
func (c *Cell) settle(most time.Duration) error {
	close(c.prepared)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c.parked:
		return nil
	case <-c.ended:
		c.spoil(true)
	case <-timer.C: // a provider that does not answer
	}
	return errNotAlone
}

// A StartError says that the command of a cell did not come up.
type StartError struct {
	// Said is the beginning of what it wrote.
	Said string
	Err  error
}

// Error returns what went wrong, without what the command wrote.
func (e *StartError) Error() string { return "start a cell: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// fail notes that a start failed, so that the next ones wait.
func (p *Pool) fail(s *shelf, c *Cell, err error) error {
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

// known returns the error of a start that failed a moment ago.
func (p *Pool) known(s *shelf) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.broken != nil && time.Now().Before(s.until) {
		return s.broken
	}
	return nil
}

// wait adds a call to those that a finished cell is handed to.
func (p *Pool) wait(s *shelf, w chan *Cell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waiters = append(s.waiters, w)
}

// unwait removes it. A cell that was handed over meanwhile is returned.
func (p *Pool) unwait(s *shelf, w chan *Cell) *Cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range s.waiters {
		if x == w {
			s.waiters = append(s.waiters[:i:i], s.waiters[i+1:]...)
			return nil
		}
	}
	return <-w
}

// giveBack parks a used cell of a plan with Reuse.
func (p *Pool) giveBack(c *Cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := c.shelf
	if p.closed || s.gone || !c.alive() || len(s.ready) >= p.cfg.Most || p.parked >= p.cfg.Total {
		return false
	}
	c.stdout.to(nil)
	c.stderr.to(nil)
	p.park(s, c)
	return true
}

// forget takes a cell whose run has ended off its shelf, and reports whether it was
// there.
func (p *Pool) forget(c *Cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range c.shelf.ready {
		if x == c {
			c.shelf.ready = append(c.shelf.ready[:i:i], c.shelf.ready[i+1:]...)
			p.parked--
			c.discard()
			return true
		}
	}
	return false
}

// clear ends the parked cells of s and forgets its key.
func (p *Pool) clear(s *shelf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked(s)
}

// clearLocked is clear. Preconditions: mu is held.
func (p *Pool) clearLocked(s *shelf) {
	if s.gone {
		return
	}
	s.gone = true
	if s.idle != nil {
		s.idle.Stop()
	}
	delete(p.shelves, s.plan.Key)
	for _, c := range s.ready {
		c.discard()
	}
	p.parked -= len(s.ready)
	s.ready = nil
}

// Drop ends the parked cells of the keys that match says so of, as after a
// change of policy. Cells in use go on.
func (p *Pool) Drop(match func(Key) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, s := range p.shelves {
		if match(k) {
			p.clearLocked(s)
		}
	}
}

// Parked returns how many cells of key are ready.
func (p *Pool) Parked(key Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shelves[key]; s != nil {
		return len(s.ready)
	}
	return 0
}

// Close ends all cells, those in use too, and waits until nothing of them is
// left. It can be called twice.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.shelves {
		p.clearLocked(s)
	}
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
}
