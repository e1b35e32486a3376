package cell

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"haft/sandbox"
)

// A Key names a set of interchangeable cells. Cells are never shared between keys.
type Key struct {
	// Tenant is the organisation.
	Tenant string
	// Environment is the interpreter and what can be imported in it.
	Environment string
	// Policy is the digest of limits, network and required isolation.
	Policy string
	// Tool names the one tool of a plan with Reuse; empty otherwise.
	Tool string
}

// A Plan says how the cells of one key are made.
type Plan struct {
	Key Key
	// Run starts a sandbox: [sandbox.Provider.Run] or [sandbox.Template.Run].
	Run func(context.Context, sandbox.Spec) (sandbox.Exit, error)
	// Spec describes the run. The pool sets Channel, Stdout, Stderr, Given, Egress, Begin,
	// Prepared, Idle, Metered, Finish and Ended.
	Spec sandbox.Spec
	// Boot returns when the command is up, or an error. Nil means that the command does
	// not report it: Take returns the cell at once and Begin starts it, so that no output
	// and no connection of the command comes too early.
	Boot func(conn *sandbox.Pipe) error
	// Warm prepares a booted cell to be idle. Nil means that cells of this key are not
	// made in advance: each Take starts one.
	Warm func(conn *sandbox.Pipe) error
	// Reuse gives a cell back after a call. See the package comment for its cost.
	Reuse bool
	// Spoilt, if not nil, is called when an idle cell was ended because it did more than
	// wait: the next cells should be warmed less.
	Spoilt func()
}

// A Cell is one run that belongs to one caller.
//
// Lifecycle: ServeEgress, if it has egress, and Begin once (again after each Take with
// Plan.Reuse), then talk over Conn, then Release, then wait for Ended and read Exit.
type Cell struct {
	// Conn is the host's end of the channel.
	Conn *sandbox.Pipe
	// Hit says that the cell was idle before Take.
	Hit bool

	pool           *Pool
	state          *keyState
	plan           Plan
	stdout, stderr lateWriter
	egress         egressSession
	cancel         context.CancelCauseFunc
	begin, finish  chan struct{}
	prepared       chan struct{}
	idle           chan struct{}
	began, over    sync.Once
	left           atomic.Int32 // of the caller and the run
	given          atomic.Pointer[[]string]
	cpu            atomic.Value // of func() time.Duration
	ended          chan struct{}
	once           sync.Once // for ended

	warm bool // it was made in advance, and may become idle

	// Set before ended is closed.
	exit sandbox.Exit
	err  error
}

// Begin starts the clock of the call and sends output to these writers. Earlier output
// is dropped.
func (c *Cell) Begin(stdout, stderr io.Writer) {
	c.stdout.setWriter(stdout)
	c.stderr.setWriter(stderr)
	c.began.Do(func() { close(c.begin) })
}

// Give names files of the caller, see [sandbox.Spec.Given]. It must be called before Begin.
func (c *Cell) Give(names []string) { c.given.Store(&names) }

// givenFiles returns what Give was called with.
func (c *Cell) givenFiles() []string {
	if names := c.given.Load(); names != nil {
		return *names
	}
	return nil
}

// ServeEgress sets the function that serves the egress connections of the call, in a plan whose
// network is [sandbox.NetworkEgress], as [sandbox.Spec.Egress]. It must be called before
// Begin. Until then, and again after Release, connections are closed at once.
func (c *Cell) ServeEgress(serve func(context.Context, net.Conn)) { c.egress.start(c.pool.ctx, serve) }

// Release ends the use of a cell. If keep is set and the plan allows reuse, the cell is
// idle again; otherwise the run ends now, and Conn is closed when it has ended. Every
// taken cell must be released.
func (c *Cell) Release(keep bool) {
	if keep && c.plan.Reuse {
		c.egress.stop()
		if c.pool.giveBack(c) {
			return
		}
	}
	c.discard()
	if !c.Hit {
		c.pool.refillAfterMiss(c.state)
	}
}

// discard ends the run. It can be called twice.
func (c *Cell) discard() {
	c.over.Do(func() {
		close(c.finish)
		c.leave()
	})
}

// leave closes the channel when both the caller and the run are done with it. Not
// before: a command that sees it closed ends by itself, and that takes processor time
// while the caller still needs it.
func (c *Cell) leave() {
	if c.left.Add(1) == 2 {
		_ = c.Conn.Close() // nothing more is read from it, so a failed close loses nothing
	}
}

// Cancel stops the run as if its context had ended.
func (c *Cell) Cancel(cause error) { c.cancel(cause) }

// StopWith stops the run when ctx ends, and kills it when [sandbox.Killed] says so, also if it was
// stopped before, until release is called.
func (c *Cell) StopWith(ctx context.Context) (release func()) {
	end := context.AfterFunc(ctx, func() { c.Cancel(context.Cause(ctx)) })
	kill := context.AfterFunc(sandbox.Killed(ctx), func() {
		c.Cancel(sandbox.ErrNoGrace)
		c.discard()
	})
	return func() { end(); kill() }
}

// Ended returns a channel that is closed when the end of the run is known. The sandbox
// may still be exiting.
func (c *Cell) Ended() <-chan struct{} { return c.ended }

// Exit says how the run ended, or why it could not be started. It is valid once
// Ended is closed.
func (c *Cell) Exit() (sandbox.Exit, error) { return c.exit, c.err }

// CPU returns how much processor time the run has used, or 0 if that is not known.
func (c *Cell) CPU() time.Duration {
	if read, ok := c.cpu.Load().(func() time.Duration); ok {
		return read()
	}
	return 0
}

// Early returns the beginning of the output before Begin, such as the error message of a
// broken interpreter.
func (c *Cell) Early() string { return c.stderr.early() + c.stdout.early() }

// end records how the run ended. Only the first call counts.
func (c *Cell) end(exit sandbox.Exit, err error) {
	c.once.Do(func() {
		c.exit, c.err = exit, err
		close(c.ended)
	})
}

// reportSpoilt calls Plan.Spoilt if an idle cell was ended by a limit.
func (c *Cell) reportSpoilt() {
	if c.exit.Cause == sandbox.CauseLimit && c.plan.Spoilt != nil {
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
func (p *Pool) start(s *keyState, plan Plan) (*Cell, error) {
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
		Conn: sandbox.NewPipe(host), pool: p, state: s, plan: plan, cancel: cancel,
		begin: make(chan struct{}), finish: make(chan struct{}), ended: make(chan struct{}),
		prepared: make(chan struct{}), idle: make(chan struct{}),
	}
	spec := plan.Spec
	spec.Channel, spec.Stdout, spec.Stderr = inside, &c.stdout, &c.stderr
	spec.Begin, spec.Prepared, spec.Finish = c.begin, c.prepared, c.finish
	spec.Idle = sync.OnceFunc(func() { close(c.idle) })
	spec.Metered = func(read func() time.Duration) { c.cpu.Store(read) }
	if spec.Network == sandbox.NetworkEgress {
		spec.ServeEgress = c.egress.serveConn
	}
	if spec.Collect {
		spec.Given = c.givenFiles
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
		_ = inside.Close() // so that Boot sees that the command will not come up; usually closed already
		c.egress.stop()    // its connections are closed
		c.end(exit, err)
		if p.removeIdle(c) {
			c.reportSpoilt()
		}
		c.leave()
	})
	return c, nil
}

// maxEarly is how many bytes of output before Begin are kept.
const maxEarly = 4 << 10

// A lateWriter is an output whose destination is known only when a call takes the cell.
type lateWriter struct {
	mu    sync.Mutex
	began bool
	dst   io.Writer
	kept  []byte
}

// Write passes b on. Before Begin it keeps the beginning of the output.
func (t *lateWriter) Write(b []byte) (int, error) {
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

// setWriter sets the destination.
func (t *lateWriter) setWriter(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.dst = true, w
}

// early returns what was written before there was a destination.
func (t *lateWriter) early() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
