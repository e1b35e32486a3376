package cell

import (
	"context"
	"net"
	"sync"
)

// An egressSession serves the egress connections of a run. Its server is known only
// when a call takes the cell. The zero value closes every connection.
type egressSession struct {
	mu     sync.Mutex
	serve  func(context.Context, net.Conn)
	call   context.Context // ends with the call
	cancel context.CancelFunc
	open   sync.WaitGroup
}

// serveConn serves a connection of the call that has the cell, or closes it if there is
// no call.
func (e *egressSession) serveConn(ctx context.Context, conn net.Conn) {
	e.mu.Lock()
	serve, call := e.serve, e.call
	if serve != nil {
		e.open.Add(1)
	}
	e.mu.Unlock()
	if serve == nil {
		_ = conn.Close() // nothing was written
		return
	}
	defer e.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(call, func() {
		cancel()
		_ = conn.Close() // the process goes on, so that it does not close it
	})
	defer stop()
	serve(ctx, conn)
}

// start sets the server of the call. The context is the lifetime of all cells.
func (e *egressSession) start(ctx context.Context, serve func(context.Context, net.Conn)) {
	e.stop()
	if serve == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve = serve
	e.call, e.cancel = context.WithCancel(ctx)
}

// stop ends the connections of the call and waits for them.
func (e *egressSession) stop() {
	e.mu.Lock()
	cancel := e.cancel
	e.serve, e.cancel = nil, nil
	e.mu.Unlock()
	if cancel != nil {
		cancel()
		e.open.Wait()
	}
}
