package outgoing

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/secret"
)

// maxPiece is how many bytes of output one event carries.
const maxPiece = 64 << 10

// An Output publishes what a tool prints while it runs, redacted however the tool splits it into
// writes. It starts no goroutine before the tool prints something. Output that arrives while a
// piece is being recorded goes into the next one.
type Output struct {
	ctx      context.Context //nolint:containedctx // of the writers, which outlive the calls of their methods
	redactor *secret.Redactor
	publish  func(ctx context.Context, typ haft.EventType, data any) error

	// Items is how many bytes of items of a generator are published. Reports have no items beyond.
	Items int
	// FitsItem reports whether an item may be published; nil lets all of them pass.
	FitsItem func(item json.RawMessage) bool

	mu      sync.Mutex
	pieces  []piece
	busy    bool
	err     error
	writers sync.WaitGroup
	streams []*stream
}

// A stream is one stream of output.
type stream struct {
	mu      sync.Mutex
	s       *secret.Stream
	waiting bool // a timer releases what is held back
	wrote   time.Time
}

// releaseAfter is how long no text has to come until what is held back is released, though a secret might follow.
const releaseAfter = 20 * time.Millisecond

// piece is output that waits to be published.
type piece struct {
	stream   string
	text     []byte
	progress json.RawMessage
}

// NewOutput makes an output whose events are published with ctx.
func NewOutput(ctx context.Context, r *secret.Redactor,
	publish func(ctx context.Context, typ haft.EventType, data any) error) *Output {
	return &Output{ctx: ctx, redactor: r, publish: publish}
}

// Writer returns where one stream of output goes.
func (o *Output) Writer(name string) func([]byte) {
	st := &stream{}
	return func(b []byte) {
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.s == nil {
			st.s = o.redactor.NewLineStream(func(clean []byte) { o.print(name, clean) })
			o.mu.Lock()
			o.streams = append(o.streams, st)
			o.mu.Unlock()
		}
		_, _ = st.s.Write(b) // it takes everything, into memory
		st.wrote = time.Now()
		if st.s.Held() && !st.waiting {
			st.waiting = true
			time.AfterFunc(releaseAfter, st.release)
		}
	}
}

// release hands out what is held back, as far as it is no secret.
func (st *stream) release() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if wait := releaseAfter - time.Since(st.wrote); wait > 0 {
		time.AfterFunc(wait, st.release)
		return
	}
	st.waiting = false
	st.s.Release()
}

// close hands out the rest.
func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	_ = st.s.Close() // it never fails
}

// Progress queues a message of the tool about its progress, unless it is too large or not JSON.
func (o *Output) Progress(data json.RawMessage) {
	if len(data) <= maxPiece && json.Valid(data) {
		o.add(&piece{stream: "progress", progress: o.trim(data)})
	}
}

// trim leaves out the item of a report if it is beyond the bound or does not fit.
func (o *Output) trim(data json.RawMessage) json.RawMessage {
	fields, item := itemOf(data)
	fits := item == nil || o.FitsItem == nil || o.FitsItem(item)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Items -= len(item); item == nil || o.Items >= 0 && fits {
		return data
	}
	return encode(fields)
}

// print queues redacted output.
func (o *Output) print(stream string, b []byte) {
	for len(b) > 0 {
		n := min(len(b), maxPiece)
		for n < len(b) && n > maxPiece-utf8.UTFMax && !utf8.RuneStart(b[n]) {
			n--
		}
		o.add(&piece{stream: stream, text: bytes.Clone(b[:n])})
		b = b[n:]
	}
}

// add queues a piece, joined with the one before if that is of the same stream.
func (o *Output) add(p *piece) {
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

// write publishes pieces until there are none.
func (o *Output) write() {
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
			if err := o.publishPiece(&pieces[i]); err != nil {
				o.mu.Lock()
				o.err = err
				o.mu.Unlock()
			}
		}
	}
}

// publishPiece publishes one piece.
func (o *Output) publishPiece(p *piece) error {
	if p.progress != nil {
		return o.publish(o.ctx, haft.EventProgress, p.progress)
	}
	return o.publish(o.ctx, haft.EventOutput, map[string]string{"stream": p.stream,
		"text": strings.ToValidUTF8(string(p.text), "\uFFFD")})
}

// Close flushes the streams, waits until everything is published, and returns the last error of
// publishing.
func (o *Output) Close() error {
	o.mu.Lock()
	streams := o.streams
	o.mu.Unlock()
	for _, s := range streams {
		s.close()
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

// Held is progress of a call that waits until filters have looked at the result. What the tool
// prints is in the result. All methods but Add may be called on nil.
type Held struct {
	mu       sync.Mutex
	progress []json.RawMessage
	size     int
}

// Add keeps one message, within the bounds. The last message takes the place of the one before
// it if there are too many.
func (h *Held) Add(data json.RawMessage) {
	if len(data) > maxPiece || !json.Valid(data) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.progress); n > 0 && (n == maxHeld || h.size+len(data) > maxHeldBytes) {
		h.size -= len(h.progress[n-1])
		h.progress = h.progress[:n-1]
	}
	if h.size+len(data) <= maxHeldBytes {
		h.progress = append(h.progress, bytes.Clone(data))
		h.size += len(data)
	}
}

// Take returns what was kept, and forgets it.
func (h *Held) Take() []json.RawMessage {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.progress
	h.progress = nil
	return all
}

// Visit gives the progress to a cleaner.
func (h *Held) Visit(c Cleaner) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, data := range h.progress {
		h.progress[i] = visitReport(data, c)
	}
}

// maxIndex bounds the index at which an item is given to a cleaner.
const maxIndex = 4000

// visitReport gives a report to a cleaner, and its item apart, at its place in the value of the
// call: filters for a part of the value concern it there.
func visitReport(data json.RawMessage, c Cleaner) json.RawMessage {
	fields, item := itemOf(data)
	if item == nil {
		return c.JSON("progress", data)
	}
	var count float64
	_ = json.Unmarshal(fields["progress"], &count) // what is no number is taken for the first
	index := int(max(0, min(count-1, maxIndex)))
	list := c.JSON("progress", json.RawMessage("["+strings.Repeat("null,", index)+string(item)+"]"))
	var items []json.RawMessage
	rest := map[string]json.RawMessage{}
	if json.Unmarshal(list, &items) != nil || len(items) != index+1 ||
		json.Unmarshal(c.JSON("progress", encode(fields)), &rest) != nil || rest == nil {
		return nil // it is refused
	}
	rest["item"] = items[index]
	return encode(rest)
}

// itemOf returns the item of a report, or nil, and the other fields.
func itemOf(data json.RawMessage) (fields map[string]json.RawMessage, item json.RawMessage) {
	if json.Unmarshal(data, &fields) != nil {
		return nil, nil
	}
	item = fields["item"]
	delete(fields, "item")
	return fields, item
}

// encode writes fields that were read.
func encode(fields map[string]json.RawMessage) json.RawMessage {
	raw, _ := json.Marshal(fields) // it cannot fail: they are JSON
	return raw
}

// PublishHeld publishes what was held back of a call, and what it printed.
func (o *Output) PublishHeld(h *Held, stdout, stderr string) error {
	for _, data := range h.Take() {
		if err := o.publishPiece(&piece{progress: o.trim(data)}); err != nil {
			return err
		}
	}
	for _, s := range []struct{ name, text string }{{"stdout", stdout}, {"stderr", stderr}} {
		o.print(s.name, []byte(o.redactor.Text(s.text))) // as a whole: a secret may span two pieces
	}
	return o.Close()
}
