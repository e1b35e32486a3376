package cell

import (
	"context"
	"net"
	"sync"
)

// outlet is the outlet of a run, of which it is known only when a call takes the
// cell who serves it. The zero value closes every connection.
type outlet struct {
	mu     sync.Mutex
	serve  func(context.Context, net.Conn)
	call   context.Context // ends with the call
	cancel context.CancelFunc
	open   sync.WaitGroup
}

// one serves a connection of the call that has the cell, if one has.
func (o *outlet) one(ctx context.Context, conn net.Conn) {
	o.mu.Lock()
	serve, call := o.serve, o.call
	if serve != nil {
		o.open.Add(1)
	}
	o.mu.Unlock()
	if serve == nil {
		_ = conn.Close() // nothing was written
		return
	}
	defer o.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(call, func() {
		cancel()
		_ = conn.Close() // the process goes on, so nobody else ends it
	})
	defer stop()
	serve(ctx, conn)
}

// to says who serves from now on. The context is the life of all cells.
func (o *outlet) to(ctx context.Context, serve func(context.Context, net.Conn)) {
	o.stop()
	if serve == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serve = serve
	o.call, o.cancel = context.WithCancel(ctx)
}

// stop ends the connections of the call and waits for them.
func (o *outlet) stop() {
	o.mu.Lock()
	cancel := o.cancel
	o.serve, o.cancel = nil, nil
	o.mu.Unlock()
	if cancel != nil {
		cancel()
		o.open.Wait()
	}
}
