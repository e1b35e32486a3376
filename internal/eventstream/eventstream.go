// Package eventstream sends things that happen to a reader, as they happen: over a [Sink], such as [SSE], which writes
// server-sent events. A silent stream has heartbeats.
package eventstream

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"haft"
)

// A Label returns the cursor of an item, by which a reader comes back, and its type. A cursor of 0 is none, and an item
// without a type is not sent.
type Label[T any] func(T) (cursor int64, kind string)

// A Sink sends items to a reader.
type Sink[T any] interface {
	// Send sends one. It may keep it until Flush.
	Send(item T) error
	Flush() error
	// Beat shows that the stream lives, and how far it has looked.
	Beat(cursor int64) error
}

// ahead is how many items are taken before they are sent. Several can then be sent in one write; a reader that is
// slower fills the queue of the source, which then drops it.
const ahead = 64

// Follow sends items to a sink until there are no more, ctx ends or something fails. The error says why, for the
// reader; it is nil if there are no more items, or if ctx ended. After is the cursor at which the stream begins, and
// beat how often a silent one shows that it lives.
func Follow[T any](ctx context.Context, items func(context.Context) iter.Seq2[T, error], after int64,
	beat time.Duration, label Label[T], out Sink[T]) error {
	type step struct {
		item T
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	steps := make(chan step, ahead)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(steps)
		for item, err := range items(ctx) {
			select {
			case steps <- step{item, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	defer reader.Wait()
	defer cancel()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	seen, sent := after, false
	for {
		select {
		case next, ok := <-steps:
			if !ok || next.err != nil {
				return next.err
			}
			cursor, kind := label(next.item)
			seen = max(seen, cursor)
			if kind != "" {
				if err := out.Send(next.item); err != nil {
					return err
				}
				sent = true
			}
			if len(steps) == 0 && sent {
				if err := out.Flush(); err != nil {
					return err
				}
				sent = false
			}
		case <-ticker.C:
			if err := out.Beat(seen); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// fault is the last event of a stream that did not end well.
type fault struct {
	Type       string      `json:"type"`
	Code       haft.Code   `json:"code"`
	Message    string      `json:"message"`
	RetryAfter haft.Millis `json:"retry_after_ms,omitempty"`
}

// EncodeFault writes why a stream ends, as the data of its last event.
func EncodeFault(err error) []byte {
	raw, err := json.Marshal(fault{"error", haft.CodeOf(err), haft.MessageOf(err), haft.RetryAfterOf(err)})
	if err != nil {
		return []byte(`{"type":"error","code":"internal","message":"internal error"}`)
	}
	return raw
}

// Preferred reports whether a client wants server-sent events rather than JSON, by its header Accept.
func Preferred(accept string) bool {
	events, whole := 0.0, 0.0
	for one := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		weight, err := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64)
		switch {
		case err != nil:
		case kind == "text/event-stream":
			events = weight
		case kind == "application/json":
			whole = weight
		}
	}
	return events > whole
}

// An SSE writes server-sent events. The first write begins the answer.
type SSE[T any] struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	label Label[T]
	buf   []byte
	begun bool
}

// NewSSE returns the sink of an answer that has not begun.
func NewSSE[T any](w http.ResponseWriter, label Label[T]) *SSE[T] {
	return &SSE[T]{w: w, ctl: http.NewResponseController(w), label: label}
}

// Begun reports whether the answer has begun. Until then it can be another one.
func (o *SSE[T]) Begun() bool { return o.begun }

// write writes what is in the buffer.
func (o *SSE[T]) write(b []byte) error {
	o.buf = b
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("X-Accel-Buffering", "no") // proxies must not collect them
		o.w.WriteHeader(http.StatusOK)
		if _, err := o.w.Write([]byte("retry: 1000\n\n")); err != nil {
			return err
		}
	}
	_, err := o.w.Write(b)
	return err
}

// Send implements [Sink].
func (o *SSE[T]) Send(item T) error {
	raw, err := json.Marshal(item)
	if err != nil {
		return err
	}
	cursor, kind := o.label(item)
	b := o.buf[:0]
	if cursor > 0 {
		b = strconv.AppendInt(append(b, "id: "...), cursor, 10)
		b = append(b, '\n')
	}
	b = append(append(b, "event: "...), kind...)
	b = append(append(b, "\ndata: "...), raw...) // JSON of one line
	return o.write(append(b, "\n\n"...))
}

// Flush implements [Sink].
func (o *SSE[T]) Flush() error { return o.ctl.Flush() }

// Beat implements [Sink]. An id without data is remembered by the reader and gives no event.
func (o *SSE[T]) Beat(cursor int64) error {
	b := append(o.buf[:0], ": heartbeat\n"...)
	if cursor > 0 {
		b = strconv.AppendInt(append(b, "id: "...), cursor, 10)
		b = append(b, '\n')
	}
	if err := o.write(append(b, '\n')); err != nil {
		return err
	}
	return o.ctl.Flush()
}

// Fail sends why the stream ends, as its last event. It does nothing if the reader is gone.
func (o *SSE[T]) Fail(why error) {
	b := append(append(o.buf[:0], "event: error\ndata: "...), EncodeFault(why)...)
	if o.write(append(b, "\n\n"...)) == nil {
		_ = o.ctl.Flush() // fails if the reader is gone
	}
}
