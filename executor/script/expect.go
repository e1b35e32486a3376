package script

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// expected is the cell that was started for a call that is likely to come. There is at
// most one.
type expected struct {
	mu   sync.Mutex
	next *preparation
	work sync.WaitGroup
}

// Expect begins to start an interpreter for a call like req, while the schema and the
// arguments of the call are still being checked: it reads only those fields of req that
// confine the call. The next Execute uses the interpreter if it fits; otherwise it is
// ended, and only processor time is lost.
func (x *Executor) Expect(ctx context.Context, req executor.Request) {
	if req.Kind == haft.KindBash {
		return // a shell is started with its script
	}
	p := &preparation{x: x, done: make(chan struct{}), kind: req.Kind}
	x.dropLater(x.expected.swap(p))
	x.expected.work.Go(func() {
		defer close(p.done)
		p.takeCell(ctx, &run{x: x, req: req, limits: x.Limits(req.Limits)})
	})
}

// swap replaces the expected cell and returns the one before, or nil.
func (e *expected) swap(p *preparation) *preparation {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.next
	e.next = p
	return old
}

// takeExpected returns the expected cell if it is for key, or nil.
func (x *Executor) takeExpected(ctx context.Context, key cell.Key) *cell.Cell {
	p := x.expected.swap(nil)
	if p == nil {
		return nil
	}
	c := p.take(ctx, key, nil)
	if c == nil {
		x.dropLater(p)
	}
	return c
}

// dropLater ends a cell that nobody needs, as soon as it is started.
func (x *Executor) dropLater(p *preparation) {
	if p != nil {
		x.expected.work.Go(p.Drop)
	}
}

// ErrNotExpected says that there is no expected interpreter that could read.
var ErrNotExpected = errors.New("no interpreter is expected")

// ErrReaderDied says that the reader did not survive the source.
var ErrReaderDied = errors.New("the reader died")

// readTime bounds how long reading a source may take.
const readTime = 15 * time.Second

// Read runs the reader of the Finder on a source, in the interpreter that was expected
// and in the sandbox of the coming call: one start of an interpreter serves both. It
// returns the answer of the reader, or ErrReaderDied, or ErrNotExpected if the caller has
// to find another way, such as when the interpreter itself died.
func (x *Executor) Read(ctx context.Context, source []byte) ([]byte, error) {
	x.expected.mu.Lock()
	defer x.expected.mu.Unlock()
	p := x.expected.next
	if p == nil || p.kind != haft.KindPython {
		return nil, ErrNotExpected
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.cell == nil {
		return nil, ErrNotExpected
	}
	m, err := readSource(ctx, p.cell.Conn, source)
	switch {
	case err != nil || m.Kind != "":
		x.expected.next = nil
		x.dropLater(p)
		return nil, ErrNotExpected
	case string(m.Value) == "null":
		return nil, ErrReaderDied
	}
	return m.Value, nil
}

// readSource makes the harness behind conn read one source.
func readSource(ctx context.Context, conn *sandbox.Pipe, source []byte) (*reply, error) {
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
		return nil, fmt.Errorf("%w: %s is no answer of the reader", errFrame, m.Type)
	}
	return m, conn.SetDeadline(time.Time{})
}

// maxRead bounds the answer of a reader.
const maxRead = 5 << 20
