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

// An egressListener is the only way out of a sandbox. The listener is made inside the
// network namespace of the run, and Haft accepts its connections from outside. Nothing is
// copied, and no process of Haft runs inside for it.
//
//	sandbox                                   Haft
//	  socket, bind, listen in its own network
//	  the listener, over the socket ─────────► accepts on it
//	  connect 127.0.0.1:7718 ────────────────► Spec.ServeEgress(conn)
//
// Lifecycle: openEgress → close, which can be called again.
type egressListener struct {
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
	// egressGrace is how long connections stay open after the end of the command, so
	// that an answer that is almost sent is not recorded as cut.
	egressGrace = 20 * time.Millisecond
	// acceptPause is how long no connection is accepted after a failure, which means that
	// there are no more descriptors.
	acceptPause = 10 * time.Millisecond
)

// listen plans the listener of a run that has egress, or the loopback of one that may listen itself.
// It comes after the step that keeps the private directories: see run.takeDescriptors.
func listen(pl *plan.Plan, spec *sandbox.Spec) {
	if spec.Network == sandbox.NetworkEgress {
		pl.Listen(sandbox.EgressPort, sandbox.EgressConns)
	} else if spec.Loopback {
		pl.Loopback()
	}
}

// socketMemory bounds what the connections of one run hold, where that is not a part of its memory.
const socketMemory = 16 << 20

// mayLoopback forbids a loopback whose connections would hold memory that nobody bounds.
func (p *Provider) mayLoopback(spec *sandbox.Spec) {
	spec.Loopback = spec.Loopback && p.machine.namespaces && p.machine.tree.BoundsSockets()
}

// closeConn serves the egress connections of a template, which has none.
func closeConn(_ context.Context, conn net.Conn) { _ = conn.Close() } // nothing was written

// openEgress begins to accept from the listener fd, which it takes over. The end
// of ctx does not close the listener: the command may run for a short time after it.
func openEgress(ctx context.Context, fd int, serve func(context.Context, net.Conn)) (*egressListener, error) {
	f := os.NewFile(uintptr(fd), "outlet")
	l, err := net.FileListener(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("open egress: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &egressListener{
		l: l, serve: serve, ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, sandbox.EgressConns), conns: map[net.Conn]struct{}{},
	}
	o.work.Go(o.accept)
	return o, nil
}

// accept accepts connections up to the limit. Others wait in the queue of the kernel,
// which is bounded.
func (o *egressListener) accept() {
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
			case <-time.After(acceptPause):
				continue
			case <-o.ctx.Done():
				return
			}
		}
		o.work.Go(func() {
			defer func() { <-o.slots }()
			o.serveConn(conn)
		})
	}
}

// serveConn serves one connection.
func (o *egressListener) serveConn(conn net.Conn) {
	defer conn.Close() // errors were seen by the writer
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

// close ends the egress of a run whose command is being killed, or is gone. It
// returns when no connection is served any more. A nil listener is closed.
func (o *egressListener) close() {
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
		o.closeReads()
		timer := time.NewTimer(egressGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		o.cancel()
		o.closeConns()
		<-done
	})
}

// closeReads ends the reading side of all connections. Data that has arrived can still be
// read.
func (o *egressListener) closeReads() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for conn := range o.conns {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseRead() // or it is closed altogether
		}
	}
}

// closeConns closes all connections.
func (o *egressListener) closeConns() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for conn := range o.conns {
		_ = conn.Close() // the command is gone
	}
}
