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

// A preparation is a cell that is being started for one call, and gets its source ahead.
// It implements [executor.Prepared].
type preparation struct {
	x    *Executor
	used atomic.Bool
	kind haft.Kind
	done chan struct{}

	// Set before done is closed.
	cell  *cell.Cell // nil if there is none
	key   cell.Key
	sent  bool // the cell has head
	head  []byte
	ready bool // the cell has the whole of req, and waits for the frame that starts it
	req   executor.Request
	rt    *Runtime
	limit haft.Limits
}

// maxAhead bounds what is sent to a harness ahead: with more, the sender might have to
// wait until the harness reads.
const maxAhead = 64 << 10

var (
	_ executor.Preparer = (*Executor)(nil)
	_ executor.Prepared = (*preparation)(nil)
)

// Prepare implements [executor.Preparer]: it takes a cell and sends it the source of the
// tool, which wakes the harness to compile it. The harness runs nothing of it before the
// call begins.
func (x *Executor) Prepare(ctx context.Context, req executor.Request) executor.Prepared {
	p := &preparation{x: x, done: make(chan struct{}), kind: req.Kind}
	r := &run{x: x, req: req, limits: x.Limits(req.Limits)}
	if req.Kind == haft.KindBash || req.Workspace != nil || req.Observe != nil || r.reuse() || check(req) != nil {
		close(p.done) // nothing to prepare, or nothing to run
		return p
	}
	if r.rt = x.finder.known(req.Kind, x.cfg.Hints[req.Kind]); r.rt != nil && len(req.Source) <= maxAhead/2 {
		plan := r.plan()
		if c := x.pool.Try(plan); c != nil {
			p.cell, p.key = c, plan.Key
			p.sendAhead(r)
			close(p.done)
			return p
		}
	}
	x.expected.work.Go(func() {
		defer close(p.done)
		if p.takeCell(ctx, r) {
			p.sendAhead(r)
		}
	})
	return p
}

// takeCell finds the interpreter and takes a cell. If that fails, Execute will report
// the same error.
func (p *preparation) takeCell(ctx context.Context, r *run) bool {
	var err error
	if r.rt, err = p.x.finder.Find(ctx, r.req.Kind, p.x.cfg.Hints[r.req.Kind]); err != nil {
		return false
	}
	plan := r.plan()
	c, err := p.x.pool.Take(ctx, plan)
	if err != nil {
		return false
	}
	p.cell, p.key = c, plan.Key
	return true
}

// sendAhead sends a Python cell what is known of the call.
func (p *preparation) sendAhead(r *run) {
	if r.req.Kind != haft.KindPython {
		return
	}
	if err := p.send(r); err != nil {
		p.cell.Release(false) // how much of the source it has is not known
		p.cell, p.ready = nil, false
	}
}

// send sends the cell the source, which wakes it, and also the call if that has no files:
// then only the frame that starts it is missing.
func (p *preparation) send(r *run) error {
	head, err := r.head()
	if err != nil {
		return err
	}
	p.head, p.sent = head, true
	if len(head) > maxAhead {
		if err := p.cell.Conn.SetWriteDeadline(time.Now().Add(readTime)); err != nil {
			return err
		}
		if err := writeFrame(p.cell.Conn, head); err != nil {
			return err
		}
		return p.cell.Conn.SetWriteDeadline(time.Time{})
	}
	call, err := p.callAhead(r, maxAhead-len(head))
	if err != nil {
		return err
	}
	frames := frame(nil, head)
	if call != nil {
		frames = frame(frames, call)
	}
	return post(p.cell.Conn, frames)
}

// callAhead returns the frame of the call, or nil if it has files or is longer than most
// bytes.
func (p *preparation) callAhead(r *run, most int) ([]byte, error) {
	if _, bad := notUTF8(r.req.Source); bad || len(r.req.Files)+len(r.req.Modules)+len(r.req.CA) > 0 {
		return nil, nil
	}
	m, failure := r.message()
	if failure != nil {
		return nil, nil // Execute reports it
	}
	m.Wait = true
	call, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the call: %w", err)
	}
	if len(call) > most {
		return nil, nil
	}
	p.ready, p.req, p.rt, p.limit = true, r.req, r.rt, r.limits
	return call, nil
}

// goFrame is the frame that starts a call that was sent ahead.
func goFrame() []byte { return frame(nil, []byte(`{"type":"go"}`)) }

// takeReady returns the cell if it has the whole request, or nil.
func (p *preparation) takeReady(ctx context.Context, r *run) *cell.Cell {
	if !p.await(ctx) || !p.ready || p.limit != r.limits || !sameCall(&p.req, &r.req) || p.used.Swap(true) {
		return nil
	}
	r.rt, r.key, r.sourceFrame = p.rt, p.key, p.head
	return p.cell
}

// take returns the cell if it is for key, or nil. A cell that has another source than
// head, or waits for another call, is not taken.
func (p *preparation) take(ctx context.Context, key cell.Key, head []byte) *cell.Cell {
	if !p.await(ctx) || p.ready || p.key != key || p.sent && !bytes.Equal(p.head, head) || p.used.Swap(true) {
		return nil
	}
	return p.cell
}

// await waits until the preparation is over, and reports whether there is a cell.
func (p *preparation) await(ctx context.Context) bool {
	select {
	case <-p.done:
		return p.cell != nil
	case <-ctx.Done():
		return false
	}
}

// sameCall reports whether the frames of two requests are the same.
func sameCall(a, b *executor.Request) bool {
	return a.Call == b.Call && a.Tool == b.Tool && a.Org == b.Org && a.Kind == b.Kind && a.Source == b.Source &&
		a.File == b.File && a.Function == b.Function && bytes.Equal(a.Returns, b.Returns) && a.Letta == b.Letta &&
		bytes.Equal(a.Args, b.Args) && slices.Equal(a.Pass, b.Pass) &&
		maps.EqualFunc(a.Inject, b.Inject, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }) &&
		maps.Equal(a.Env, b.Env) &&
		len(b.Files)+len(b.FileArgs)+len(b.Modules)+len(b.CA) == 0 && a.Network == b.Network &&
		b.Workspace == nil && a.Terminals == b.Terminals && b.Observe == nil &&
		slices.Equal(a.Programs, b.Programs) && a.Need.Level == b.Need.Level &&
		slices.Equal(a.Need.Controls, b.Need.Controls) &&
		(a.Others == nil) == (b.Others == nil) && slices.EqualFunc(a.Layers, b.Layers,
		func(x, y executor.Layer) bool { return x.Digest == y.Digest })
}

// Execute implements [executor.Prepared].
func (p *preparation) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	return p.x.execute(ctx, req, p)
}

// Drop implements [executor.Prepared]. It waits for the preparation, which may use
// resources that the owner of the request is about to release.
func (p *preparation) Drop() {
	if p.used.Swap(true) {
		return
	}
	<-p.done
	if p.cell != nil {
		p.cell.Release(false)
	}
}

// head returns the frame that sends the source to a Python harness.
func (r *run) head() ([]byte, error) {
	b, err := json.Marshal(sourceFrame{Type: typeSource, File: fileName(r.req, ".py"),
		Source: trimBOM(r.req.Source)})
	if err != nil {
		return nil, fmt.Errorf("encode the source: %w", err)
	}
	return b, nil
}
