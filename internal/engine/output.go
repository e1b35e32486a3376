package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"haft"
	"haft/executor"
	"haft/internal/outgoing"
	"haft/internal/secret"
)

// maxPiece is how much output one event carries.
const maxPiece = 64 << 10

// outputEvents tells what a tool prints, while it runs, redacted whatever the pieces
// are that it comes in. Nothing is begun before the tool prints something. What
// comes while a piece is being written down goes into the next.
type outputEvents struct {
	recorder *recorder
	ex       *execution

	mu      sync.Mutex
	pieces  []piece
	busy    bool
	err     error
	writers sync.WaitGroup
	streams []*secret.Stream
}

// piece is output that waits to be told.
type piece struct {
	stream   string
	text     []byte
	progress json.RawMessage
}

// stream has the output of a request told as events: while it runs, or, if there are
// output filters for the call, when they have looked at all of it. What a filter masks
// or refuses must not have been seen before, and a match may go over any number of
// pieces.
func (rn *runner) stream(ex *execution, req *executor.Request) *outputEvents {
	o := &outputEvents{recorder: rn.recorder, ex: ex}
	if ex.outputScreen() != nil {
		ex.held = &heldOutput{}
		req.Stdout, req.Stderr, req.Progress = nil, nil, ex.held.add
		return o
	}
	req.Stdout, req.Stderr = o.writerFor("stdout"), o.writerFor("stderr")
	req.Progress = func(data json.RawMessage) {
		if len(data) <= maxPiece && json.Valid(data) {
			o.add(&piece{stream: "progress", progress: data})
		}
	}
	return o
}

// writerFor returns where one stream of output goes.
func (o *outputEvents) writerFor(name string) func([]byte) {
	var s *secret.Stream
	var mu sync.Mutex
	return func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		if s == nil {
			s = o.ex.redactor.NewStream(func(clean []byte) { o.print(name, clean) })
			o.mu.Lock()
			o.streams = append(o.streams, s)
			o.mu.Unlock()
		}
		_, _ = s.Write(b) // it takes everything, into memory
	}
}

// print queues clean output.
func (o *outputEvents) print(stream string, b []byte) {
	for len(b) > 0 {
		n := min(len(b), maxPiece)
		o.add(&piece{stream: stream, text: bytes.Clone(b[:n])})
		b = b[n:]
	}
}

// add queues a piece, with the one before if that is of the same stream.
func (o *outputEvents) add(p *piece) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.pieces); n > 0 && p.progress == nil && o.pieces[n-1].stream == p.stream &&
		len(o.pieces[n-1].text)+len(p.text) <= maxPiece {
		o.pieces[n-1].text = append(o.pieces[n-1].text, p.text...)
	} else {
		o.pieces = append(o.pieces, *p)
	}
	if !o.busy {
		o.busy = true
		o.writers.Go(o.write)
	}
}

// write tells pieces until there are none.
func (o *outputEvents) write() {
	ctx := context.WithoutCancel(o.recorder.calls.ctx)
	for {
		o.mu.Lock()
		if len(o.pieces) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		pieces := o.pieces
		o.pieces = nil
		o.mu.Unlock()
		for i := range pieces {
			if err := o.publish(ctx, &pieces[i]); err != nil {
				o.mu.Lock()
				o.err = err
				o.mu.Unlock()
			}
		}
	}
}

// publish publishes one piece.
func (o *outputEvents) publish(ctx context.Context, p *piece) error {
	if p.progress != nil {
		return o.recorder.publish(ctx, o.ex, haft.EventProgress, p.progress, nil)
	}
	return o.recorder.publish(ctx, o.ex, haft.EventOutput, map[string]string{"stream": p.stream,
		"text": strings.ToValidUTF8(string(p.text), "\uFFFD")}, nil)
}

// noteUntold notes that output of a call could not be told.
func (rn *runner) noteUntold(ex *execution, err error) {
	rn.redaction.logOf(ex).Error("output of a call could not be told", "call", ex.call.ID, "error", err)
	ex.notices = append(ex.notices, "events: some output of the call could not be told to those who watch")
}

// close tells what is left, waits until it is told, and returns the last error of
// doing so.
func (o *outputEvents) close() error {
	o.mu.Lock()
	streams := o.streams
	o.mu.Unlock()
	for _, s := range streams {
		s.Close()
	}
	o.writers.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// The bounds on progress that is held back.
const (
	maxHeld      = 256
	maxHeldBytes = 1 << 20
)

// heldOutput is progress of a call that waits until filters have looked at the result.
// What the tool prints is in the result.
type heldOutput struct {
	mu       sync.Mutex
	progress []json.RawMessage
	size     int
}

// add keeps one message, if there is room.
func (h *heldOutput) add(data json.RawMessage) {
	if len(data) > maxPiece || !json.Valid(data) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.progress) < maxHeld && h.size+len(data) <= maxHeldBytes {
		h.progress = append(h.progress, bytes.Clone(data))
		h.size += len(data)
	}
}

// take returns what was kept, and forgets it.
func (h *heldOutput) take() []json.RawMessage {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.progress
	h.progress = nil
	return all
}

// visitProgress gives progress that is held back to a cleaner.
func (h *heldOutput) visitProgress(c outgoing.Cleaner) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, data := range h.progress {
		h.progress[i] = c.JSON("progress", data)
	}
}

// publishHeld publishes what was held back, of a result that the filters let pass.
func (rn *runner) publishHeld(ex *execution) error {
	if ex.held == nil {
		return nil
	}
	ctx := context.WithoutCancel(rn.calls.ctx)
	o := &outputEvents{recorder: rn.recorder, ex: ex}
	for _, data := range ex.held.take() {
		if err := o.publish(ctx, &piece{progress: data}); err != nil {
			return err
		}
	}
	for _, s := range []struct{ name, text string }{{"stdout", ex.res.Stdout}, {"stderr", ex.res.Stderr}} {
		o.print(s.name, []byte(ex.redactor.Text(s.text))) // as a whole: a secret may go over two pieces
	}
	return o.close()
}
