package script

import (
	"context"
	"sync"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// An expectation is a cell that is being started for a call that is likely to
// come. Its fields are set before ready is closed.
type expectation struct {
	ready chan struct{}
	key   cell.Key
	cell  *cell.Cell
}

// expectations holds at most one.
type expectations struct {
	mu   sync.Mutex
	next *expectation
	work sync.WaitGroup
}

// Expect begins to start an interpreter for a call like req, while its schema and
// arguments are still being looked at: of req only what confines the call is
// read. The next Execute takes it if it is of the right kind; otherwise it is
// ended. Nothing is lost by an expectation that does not come true but the
// processor time.
func (x *Executor) Expect(ctx context.Context, req executor.Request) {
	if req.Kind == haft.KindBash {
		return // a shell is started with its script
	}
	e := &expectation{ready: make(chan struct{})}
	if old := x.expected.swap(e); old != nil {
		x.disappoint(old)
	}
	x.expected.work.Go(func() {
		defer close(e.ready)
		r := &run{x: x, req: req, limits: x.Limits(req.Limits)}
		var err error
		if r.rt, err = x.finder.Find(ctx, req.Kind, x.cfg.Hints[req.Kind]); err != nil {
			return // the call itself will meet it, and say so
		}
		plan := r.plan()
		e.key = plan.Key
		if e.cell, err = x.pool.Take(ctx, plan); err != nil {
			e.cell = nil // as above
		}
	})
}

// swap puts e in the place of what was expected.
func (xs *expectations) swap(e *expectation) *expectation {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	old := xs.next
	xs.next = e
	return old
}

// met returns the cell that was expected for key, or nil.
func (x *Executor) met(ctx context.Context, key cell.Key) *cell.Cell {
	e := x.expected.swap(nil)
	if e == nil {
		return nil
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		x.disappoint(e)
		return nil
	}
	if e.cell == nil || e.key != key {
		x.disappoint(e)
		return nil
	}
	return e.cell
}

// disappoint ends what was expected in vain, when it is there.
func (x *Executor) disappoint(e *expectation) {
	x.expected.work.Go(func() {
		<-e.ready
		if e.cell != nil {
			e.cell.Release(false)
		}
	})
}
