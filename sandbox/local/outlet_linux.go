package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"haft/sandbox"
	"haft/sandbox/local/internal/plan"
)

// An outlet is the one way out of a sandbox: a listener that was made inside the
// network namespace of the run and is accepted from out here. Nothing is copied,
// and no process of ours runs inside for it.
//
//	sandbox                                   Haft
//	  socket, bind, listen in its own network
//	  the listener, over the socket ─────────► accepts on it
//	  connect 127.0.0.1:7718 ────────────────► Spec.Outlet(conn)
//
// Lifecycle: openOutlet → close, which can be called again.
type outlet struct {
	l      net.Listener
	serve  func(context.Context, net.Conn)
	ctx    context.Context // of the connections
	cancel context.CancelFunc
	slots  chan struct{}
	once   sync.Once
	work   sync.WaitGroup // the acceptor and the connections

	mu    sync.Mutex
	ended bool
	conns map[net.Conn]struct{}
}

const (
	// outletGrace is what connections have after the end of the command, so that
	// an answer that is all but sent is not recorded as one that was cut.
	outletGrace = 20 * time.Millisecond
	// outletPause is how long nobody is let in after a failure to accept, which
	// is for want of descriptors.
	outletPause = 10 * time.Millisecond
)

// listen plans the listener of a run that has an outlet. It follows what keeps the
// private directories: see run.hold.
func listen(pl *plan.Plan, spec *sandbox.Spec) {
	if spec.Network == sandbox.NetworkOutlet {
		pl.Listen(sandbox.OutletPort, sandbox.OutletConns)
	}
}

// nobody is the outlet of a template.
func nobody(_ context.Context, conn net.Conn) { _ = conn.Close() } // nothing was written

// openOutlet begins to accept from the listener fd, which it takes over. The end
// of ctx is not that of the outlet: a command has a moment after it.
func openOutlet(ctx context.Context, fd int, serve func(context.Context, net.Conn)) (*outlet, error) {
	f := os.NewFile(uintptr(fd), "outlet")
	l, err := net.FileListener(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open outlet: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &outlet{
		l: l, serve: serve, ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, sandbox.OutletConns), conns: map[net.Conn]struct{}{},
	}
	o.work.Go(o.accept)
	return o, nil
}

// accept lets connections in as long as there is room. What finds none waits in
// the queue of the kernel, and beyond that outside.
func (o *outlet) accept() {
	for {
		select {
		case o.slots <- struct{}{}:
		case <-o.ctx.Done():
			return
		}
		conn, err := o.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-o.slots
			select {
			case <-time.After(outletPause):
				continue
			case <-o.ctx.Done():
				return
			}
		}
		o.work.Go(func() {
			defer func() { <-o.slots }()
			o.one(conn)
		})
	}
}

// one serves one connection.
func (o *outlet) one(conn net.Conn) {
	defer conn.Close() // whoever wrote to it has seen what became of it
	o.mu.Lock()
	ended := o.ended
	o.conns[conn] = struct{}{}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.conns, conn)
	}()
	if !ended {
		o.serve(o.ctx, conn)
	}
}

// close ends the outlet of a run whose command is being killed, or is gone. It
// returns when nobody is served any more. A nil outlet is closed.
func (o *outlet) close() {
	if o == nil {
		return
	}
	o.once.Do(func() {
		_ = o.l.Close() // only accepted from
		done := make(chan struct{})
		go func() {
			o.work.Wait()
			close(done)
		}()
		o.hush()
		timer := time.NewTimer(outletGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		o.cancel()
		o.cut()
		<-done
	})
}

// hush ends the reading side of all connections, behind what has arrived: those
// that wait for a request have waited for the last.
func (o *outlet) hush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for conn := range o.conns {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseRead() // or it is closed altogether
		}
	}
}

// cut closes all connections.
func (o *outlet) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for conn := range o.conns {
		_ = conn.Close() // nobody is there to miss what was not sent
	}
}
