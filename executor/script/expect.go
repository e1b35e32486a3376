package script

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// An expectation is a cell that is being started for a call that is likely to
// come. Its fields are set before ready is closed.
type expectation struct {
	ready chan struct{}
	kind  haft.Kind
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
	e := &expectation{ready: make(chan struct{}), kind: req.Kind}
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

// ErrNotExpected says that there is no expected interpreter that could read.
var ErrNotExpected = errors.New("no interpreter is expected")

// ErrReaderDied says that the reader did not survive the source.
var ErrReaderDied = errors.New("the reader died")

// readTime bounds how long reading a source may take.
const readTime = 15 * time.Second

// Read has the interpreter that was expected run the reader of the Finder on a
// source, within the sandbox of the call that is to come: one start of an
// interpreter serves both. It returns what the reader answered, ErrReaderDied, or
// ErrNotExpected if the caller has to find another way, such as when the
// interpreter itself died of it.
func (x *Executor) Read(ctx context.Context, source []byte) ([]byte, error) {
	x.expected.mu.Lock()
	defer x.expected.mu.Unlock()
	e := x.expected.next
	if e == nil || e.kind != haft.KindPython {
		return nil, ErrNotExpected
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if e.cell == nil {
		return nil, ErrNotExpected
	}
	m, err := readAside(ctx, e.cell.Conn, source)
	switch {
	case err != nil || m.Kind != "":
		x.expected.next = nil
		x.disappoint(e)
		return nil, ErrNotExpected
	case string(m.Value) == "null":
		return nil, ErrReaderDied
	}
	return m.Value, nil
}

// readAside has one source read over conn.
func readAside(ctx context.Context, conn *os.File, source []byte) (*reply, error) {
	if err := conn.SetDeadline(time.Now().Add(readTime)); err != nil {
		return nil, fmt.Errorf("read a source: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // a closed one needs none
	defer stop()
	frame, err := json.Marshal(struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}{typeRead, hex.EncodeToString(source)})
	if err != nil {
		return nil, fmt.Errorf("read a source: %w", err)
	}
	if err := writeFrame(conn, frame); err != nil {
		return nil, err
	}
	m, err := readReply(conn, maxRead)
	if err != nil {
		return nil, err
	}
	if m.Type != typeRead {
		return nil, fmt.Errorf("%w: %s is no reading", errFrame, m.Type)
	}
	return m, conn.SetDeadline(time.Time{})
}

// maxRead bounds what a reader answers.
const maxRead = 5 << 20
