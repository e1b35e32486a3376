package script

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// ahead is a cell that is being made ready for one call, and is told its source. It
// implements [executor.Prepared].
type ahead struct {
	x    *Executor
	used atomic.Bool
	done chan struct{}

	// Set before done is closed.
	cell *cell.Cell // nil if there is none
	key  cell.Key
	sent bool // it has text
	text string
}

var (
	_ executor.Preparer = (*Executor)(nil)
	_ executor.Prepared = (*ahead)(nil)
)

// Prepare implements [executor.Preparer]: it takes a cell, which is woken by the
// source of the tool and compiles it. The harness runs nothing of it before it is
// told the arguments.
func (x *Executor) Prepare(ctx context.Context, req executor.Request) executor.Prepared {
	a := &ahead{x: x, done: make(chan struct{})}
	r := &run{x: x, req: req, limits: x.Limits(req.Limits)}
	if req.Kind == haft.KindBash || r.reuse() || check(req) != nil {
		close(a.done) // nothing to be made ready, or nothing to be run
		return a
	}
	x.expected.work.Go(func() {
		defer close(a.done)
		var err error
		if r.rt, err = x.finder.Find(ctx, req.Kind, x.cfg.Hints[req.Kind]); err != nil {
			return
		}
		plan := r.plan()
		a.key = plan.Key
		c, err := x.pool.Take(ctx, plan)
		if err != nil {
			return
		}
		if a.cell = c; req.Kind != haft.KindPython {
			return
		}
		head, err := r.head()
		if err == nil {
			err = c.Conn.SetWriteDeadline(time.Now().Add(readTime))
		}
		if err == nil {
			err = writeFrame(c.Conn, head)
		}
		if err == nil {
			err = c.Conn.SetWriteDeadline(time.Time{})
		}
		if a.text, a.sent = string(head), err == nil; err != nil {
			a.cell = nil // what it has of the source nobody knows
			c.Release(false)
		}
	})
	return a
}

// Execute implements [executor.Prepared].
func (a *ahead) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	return a.x.execute(ctx, req, a)
}

// Drop implements [executor.Prepared]. It waits for what is under way: that may use
// what the owner of the request is about to give back.
func (a *ahead) Drop() {
	if a.used.Swap(true) {
		return
	}
	<-a.done
	if a.cell != nil {
		a.cell.Release(false)
	}
}

// take returns the cell if it is there for key, or nil. One that knows another
// source than head is not taken.
func (a *ahead) take(ctx context.Context, key cell.Key, head []byte) *cell.Cell {
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil
	}
	if a.cell == nil || a.key != key || a.sent && a.text != string(head) || a.used.Swap(true) {
		return nil
	}
	return a.cell
}

// head returns the frame that tells a Python harness the source.
func (r *run) head() ([]byte, error) {
	b, err := json.Marshal(sourceFrame{Type: typeSource, File: fileName(r.req.Tool, ".py"), Source: trimBOM(r.req.Source)})
	if err != nil {
		return nil, fmt.Errorf("encode the source: %w", err)
	}
	return b, nil
}
