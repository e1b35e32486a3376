package script

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	cell  *cell.Cell // nil if there is none
	key   cell.Key
	sent  bool // it has head
	head  []byte
	armed bool // it has the whole of req, and waits for a word
	req   executor.Request
	rt    *Runtime
	limit haft.Limits
}

// maxArmed bounds what a harness is told ahead: more than that might wait for it to
// read.
const maxArmed = 64 << 10

var (
	_ executor.Preparer = (*Executor)(nil)
	_ executor.Prepared = (*ahead)(nil)
)

// Prepare implements [executor.Preparer]: it takes a cell, which is woken by the
// source of the tool and compiles it. The harness runs nothing of it before it is
// told to.
func (x *Executor) Prepare(ctx context.Context, req executor.Request) executor.Prepared {
	a := &ahead{x: x, done: make(chan struct{})}
	r := &run{x: x, req: req, limits: x.Limits(req.Limits)}
	if req.Kind == haft.KindBash || r.reuse() || check(req) != nil {
		close(a.done) // nothing to be made ready, or nothing to be run
		return a
	}
	if r.rt = x.finder.known(req.Kind, x.cfg.Hints[req.Kind]); r.rt != nil && len(req.Source) <= maxArmed/2 {
		plan := r.plan()
		if c := x.pool.Try(plan); c != nil {
			a.have(r, c, plan.Key)
			close(a.done)
			return a
		}
	}
	x.expected.work.Go(func() {
		defer close(a.done)
		var err error
		if r.rt, err = x.finder.Find(ctx, req.Kind, x.cfg.Hints[req.Kind]); err != nil {
			return
		}
		plan := r.plan()
		if c, err := x.pool.Take(ctx, plan); err == nil {
			a.have(r, c, plan.Key)
		}
	})
	return a
}

// have takes a cell and, if it is one that can be told, tells it what is known of
// the call.
func (a *ahead) have(r *run, c *cell.Cell, key cell.Key) {
	a.cell, a.key = c, key
	if r.req.Kind != haft.KindPython {
		return
	}
	if err := a.tell(r, c); err != nil {
		a.cell, a.armed = nil, false // what it has of the source nobody knows
		c.Release(false)
	}
}

// tell tells a cell the source, which wakes it, and with it the call if that is a
// plain one: then one word is left to be said.
func (a *ahead) tell(r *run, c *cell.Cell) error {
	head, err := r.head()
	if err != nil {
		return err
	}
	a.head, a.sent = head, true
	if len(head) > maxArmed {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(readTime)); err != nil {
			return err
		}
		if err := writeFrame(c.Conn, head); err != nil {
			return err
		}
		return c.Conn.SetWriteDeadline(time.Time{})
	}
	call, err := a.arm(r, maxArmed-len(head))
	if err != nil {
		return err
	}
	frames := frame(nil, head)
	if call != nil {
		frames = frame(frames, call)
	}
	return post(c.Conn, frames)
}

// arm returns the frame that tells a cell the call, if it is a plain one of at most
// so many bytes, or nil.
func (a *ahead) arm(r *run, most int) ([]byte, error) {
	if _, bad := notUTF8(r.req.Source); bad || len(r.req.Files) > 0 || len(r.req.CA) > 0 {
		return nil, nil
	}
	m, failure := r.message()
	if failure != nil {
		return nil, nil // Execute says so
	}
	m.Wait = true
	call, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	if len(call) > most {
		return nil, nil
	}
	a.armed, a.req, a.rt, a.limit = true, r.req, r.rt, r.limits
	return call, nil
}

// goFrame is the word that an armed harness waits for.
func goFrame() []byte { return frame(nil, []byte(`{"type":"go"}`)) }

// aim returns the cell that has the whole of the request, or nil.
func (a *ahead) aim(ctx context.Context, r *run) *cell.Cell {
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil
	}
	if a.cell == nil || !a.armed || a.limit != r.limits || !sameCall(&a.req, &r.req) || a.used.Swap(true) {
		return nil
	}
	r.rt, r.key, r.told = a.rt, a.key, a.head
	return a.cell
}

// sameCall reports whether two requests are told in the same words.
func sameCall(a, b *executor.Request) bool {
	return a.Call == b.Call && a.Tool == b.Tool && a.Org == b.Org && a.Kind == b.Kind && a.Source == b.Source &&
		a.Function == b.Function &&
		bytes.Equal(a.Args, b.Args) && slices.Equal(a.Pass, b.Pass) &&
		maps.EqualFunc(a.Inject, b.Inject, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }) &&
		maps.Equal(a.Env, b.Env) &&
		len(b.Files) == 0 && len(b.CA) == 0 && a.Network == b.Network && a.Need.Level == b.Need.Level &&
		slices.Equal(a.Need.Controls, b.Need.Controls) &&
		(a.Others == nil) == (b.Others == nil) && slices.EqualFunc(a.Layers, b.Layers,
		func(x, y executor.Layer) bool { return x.Digest == y.Digest })
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
// source than head is not taken, nor one that waits for another call.
func (a *ahead) take(ctx context.Context, key cell.Key, head []byte) *cell.Cell {
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil
	}
	if a.cell == nil || a.armed || a.key != key || a.sent && !bytes.Equal(a.head, head) || a.used.Swap(true) {
		return nil
	}
	return a.cell
}

// head returns the frame that tells a Python harness the source.
func (r *run) head() ([]byte, error) {
	b, err := json.Marshal(sourceFrame{Type: typeSource, File: fileName(r.req.Tool, ".py"),
		Source: trimBOM(r.req.Source)})
	if err != nil {
		return nil, fmt.Errorf("encode the source: %w", err)
	}
	return b, nil
}
