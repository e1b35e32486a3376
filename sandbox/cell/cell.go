package cell

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"haft/sandbox"
)

// Key says which cells are alike. Cells are never shared between keys.
type Key struct {
	// Tenant is the organisation.
	Tenant string
	// Environment is the interpreter and what can be imported in it.
	Environment string
	// Policy is the digest of limits, network and demanded isolation.
	Policy string
	// Tool names the one tool of a plan with Reuse; empty otherwise.
	Tool string
}

// A Plan says how the cells of one key are made.
type Plan struct {
	Key Key
	// Run starts a sandbox: [sandbox.Provider.Run] or [sandbox.Template.Run].
	Run func(context.Context, sandbox.Spec) (sandbox.Exit, error)
	// Spec is what is run. Channel, Stdout, Stderr, Outlet, Begin, Prepared,
	// Parked, Finish and Ended are the pool's.
	Spec sandbox.Spec
	// Boot returns when the command is up, or says why it is not. Nil means that
	// nobody can tell: a cell is handed out at once and started by Begin, so that
	// nothing that the command writes, and no connection it makes, comes too early.
	Boot func(conn *os.File) error
	// Warm makes a booted cell fit for parking. Nil means that cells of this key
	// are not worth keeping: each Take starts one.
	Warm func(conn *os.File) error
	// Reuse gives a cell back after a call. See the package comment for its cost.
	Reuse bool
	// Spoilt, if not nil, is called when a parked cell did more than wait, and was
	// ended for it: what Warm did to it is better left out.
	Spoilt func()
}

// A Cell is one run, in the hands of one caller.
//
// Lifecycle: Serve, if it has an outlet, and Begin once (again after each Take with
// Plan.Reuse), then talk over Conn, then Release, then wait for Ended and read Exit.
type Cell struct {
	// Conn is the host's end of the channel.
	Conn *os.File
	// Hit says that the cell was parked before it was asked for.
	Hit bool

	pool           *Pool
	shelf          *shelf
	plan           Plan
	stdout, stderr tap
	outlet         outlet
	cancel         context.CancelCauseFunc
	begin, finish  chan struct{}
	prepared       chan struct{}
	parked         chan struct{}
	began, over    sync.Once
	left           atomic.Int32 // of the caller and the run
	ended          chan struct{}
	once           sync.Once // for ended

	// Set before ended is closed.
	exit sandbox.Exit
	err  error
}

// Begin starts the clock of the call and sends output to these writers. What was
// written before belongs to nobody and is dropped.
func (c *Cell) Begin(stdout, stderr io.Writer) {
	c.stdout.to(stdout)
	c.stderr.to(stderr)
	c.began.Do(func() { close(c.begin) })
}

// Serve says who serves the connections of the call, in a plan whose network is
// [sandbox.NetworkOutlet], as [sandbox.Spec.Outlet]. It comes before Begin. Until
// then, and again after Release, connections are closed at once.
func (c *Cell) Serve(outlet func(context.Context, net.Conn)) { c.outlet.to(c.pool.ctx, outlet) }

// Release says that the caller has what it wants. If keep is set and the plan
// allows reuse, the cell goes back to its shelf; otherwise the run ends now, and
// Conn is closed when it has. Every taken cell must be released.
func (c *Cell) Release(keep bool) {
	if keep && c.plan.Reuse {
		c.outlet.stop()
		if c.pool.giveBack(c) {
			return
		}
	}
	c.discard()
}

// discard ends the run. It can be called twice.
func (c *Cell) discard() {
	c.over.Do(func() {
		close(c.finish)
		c.leave()
	})
}

// leave closes the channel when both the caller and the run are done with it. Not
// before: a command that sees it closed ends by itself, while processors have better
// things to do.
func (c *Cell) leave() {
	if c.left.Add(1) == 2 {
		_ = c.Conn.Close() // nothing more is read from it, so a failed close loses nothing
	}
}

// Cancel stops the run as if its context had ended.
func (c *Cell) Cancel(cause error) { c.cancel(cause) }

// Ended is closed when the end of the run is known. The sandbox may still be
// being torn down.
func (c *Cell) Ended() <-chan struct{} { return c.ended }

// Exit says how the run ended, or why it could not be started. It is valid once
// Ended is closed.
func (c *Cell) Exit() (sandbox.Exit, error) { return c.exit, c.err }

// Early returns the beginning of what the command wrote before Begin: what a
// broken interpreter says.
func (c *Cell) Early() string { return c.stderr.early() + c.stdout.early() }

// end records how the run ended; the first to know wins.
func (c *Cell) end(exit sandbox.Exit, err error) {
	c.once.Do(func() {
		c.exit, c.err = exit, err
		close(c.ended)
	})
}

// spoil tells the plan that a cell which waited, or was about to, met a limit.
func (c *Cell) spoil(waited bool) {
	if waited && c.exit.Cause == sandbox.CauseLimit && c.plan.Spoilt != nil {
		c.plan.Spoilt()
	}
}

// alive reports whether the run has not ended.
func (c *Cell) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// start begins a run in a goroutine that the pool waits for.
func (p *Pool) start(s *shelf, plan Plan) (*Cell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	host, inside, err := pair()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	c := &Cell{
		Conn: host, pool: p, shelf: s, plan: plan, cancel: cancel,
		begin: make(chan struct{}), finish: make(chan struct{}), ended: make(chan struct{}),
		prepared: make(chan struct{}), parked: make(chan struct{}),
	}
	spec := plan.Spec
	spec.Channel, spec.Stdout, spec.Stderr = inside, &c.stdout, &c.stderr
	spec.Begin, spec.Prepared, spec.Finish = c.begin, c.prepared, c.finish
	spec.Parked = sync.OnceFunc(func() { close(c.parked) })
	if spec.Network == sandbox.NetworkOutlet {
		spec.Outlet = c.outlet.one
	}
	spec.Ended = func(e sandbox.Exit) { c.end(e, nil) }
	p.running.Go(func() {
		defer cancel(nil)
		if plan.Boot == nil {
			select {
			case <-c.begin:
			case <-c.finish:
			case <-ctx.Done():
			}
		}
		exit, err := plan.Run(ctx, spec)
		_ = inside.Close() // who waits for the command to come up hears that it will not; usually closed already
		c.outlet.stop()    // of which nothing is open
		c.end(exit, err)
		c.spoil(p.forget(c))
		c.leave()
	})
	return c, nil
}

// maxEarly is how much of an unclaimed output is kept.
const maxEarly = 4 << 10

// tap is an output whose destination is known only when a call takes the cell.
type tap struct {
	mu    sync.Mutex
	began bool
	dst   io.Writer
	kept  []byte
}

// Write passes b on, or keeps its beginning as long as nobody has begun.
func (t *tap) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.kept = append(t.kept, b[:min(len(b), maxEarly-len(t.kept))]...)
		return len(b), nil
	}
	if t.dst == nil {
		return len(b), nil
	}
	return t.dst.Write(b)
}

// to sets the destination.
func (t *tap) to(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.dst = true, w
}

// early returns what was written before there was a destination.
func (t *tap) early() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
