package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"haft"
	"haft/internal/pause"
)

// The bounds of a stream.
const (
	maxLine = 16 << 20 // of one event: its data may be 1 MiB, and JSON escapes it
	// silence is how long a stream may send nothing before it is cut. The server sends
	// something every 15 seconds.
	silence = time.Minute
)

// errDone ends a stream whose range loop was left.
var errDone = errors.New("done")

// Watch implements [haft.Watcher]. When the connection is cut it reconnects and goes
// on after the last event.
func (c *Client) Watch(ctx context.Context, p haft.Principal, f haft.EventFilter, after int64) iter.Seq2[haft.Event,
	error] {
	return c.api.watch(ctx, query{path: "/v1/events", as: p, values: params("call", string(f.Call), "user", f.User,
		"agent", f.Agent, "tool", f.Tool, "type", commas(f.Types))}, after, false)
}

// WatchCall yields the events of one call after the one with that cursor, 0
// meaning from the first on, until it has ended.
func (c *Client) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID, after int64) iter.Seq2[haft.Event,
	error] {
	if id == "" {
		return func(yield func(haft.Event, error) bool) {
			yield(haft.Event{}, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such call"})
		}
	}
	return c.api.watch(ctx, query{path: "/v1/events", as: p, values: params("call", string(id))}, after, true)
}

// EventsOf lists the events of one call that have happened.
func (c *Client) EventsOf(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return list[haft.Event](ctx, c.api, query{path: "/v1/calls", item: &item{"call", string(id), "/events"}, as: p}, 0)
}

// watch follows a stream and reconnects when it is cut. Once ends it with the end of a call.
func (t *transport) watch(ctx context.Context, q query, after int64, once bool) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		at := after
		err := t.reconnect(ctx, func() (received bool, err error) {
			values := params("after", strconv.FormatInt(at, 10))
			maps.Copy(values, q.values)
			ask := q
			ask.values = values
			return t.stream(ctx, ask, func(m message) error {
				return m.deliver(&at, func(e haft.Event) error {
					if !yield(e, nil) || once && e.Type == haft.EventCompleted {
						return errDone
					}
					return nil
				})
			})
		})
		if err != nil {
			yield(haft.Event{}, err)
		}
	}
}

// reconnect calls connect until its error is errDone or ctx ends, which are no errors, or until it does not help. The
// function connect follows one connection, and reports whether that was a success.
func (t *transport) reconnect(ctx context.Context, connect func() (received bool, err error)) error {
	backoff := haft.Backoff{Strategy: haft.Exponential, Tries: haft.MaxTries,
		Initial: haft.Millis(100 * time.Millisecond), Max: haft.Millis(5 * time.Second)}
	failures, since := 0, time.Now()
	for {
		received, err := connect()
		if errors.Is(err, errDone) || ctx.Err() != nil {
			return nil
		}
		if received {
			failures, since = 0, time.Now()
		}
		failures++
		// A server may be restarting, and accepts a reader again that was too slow.
		if haft.CodeOf(err) != haft.CodeUnavailable || time.Since(since) > t.cfg.Patience {
			return err
		}
		wait, _ := backoff.Wait(min(failures, haft.MaxTries-1), 0)
		if pause.For(ctx, wait/2+time.Duration(rand.Int64N(int64(wait)))) != nil {
			return nil
		}
	}
}

// minAlive is how long a connection must last to count as a success, even if no event
// came.
const minAlive = 20 * time.Second

// stream follows one connection. It reports whether the connection was a success, and always an
// error that says why it ended.
func (t *transport) stream(ctx context.Context, q query, take func(message) error) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := t.send(ctx, q)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	began := time.Now()
	defer func() { received = received || time.Since(began) > minAlive }()
	silent := &haft.Error{Code: haft.CodeUnavailable, Message: "the server has not said anything for a while"}
	alarm := time.AfterFunc(silence, func() { cancel(silent) })
	defer alarm.Stop()
	in := &reader{in: bufio.NewReaderSize(res.Body, 64<<10)}
	for {
		m, err := in.next()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return received, cause
			}
			return received, &haft.Error{Code: haft.CodeUnavailable, Message: "the stream of events was cut", Err: err}
		}
		alarm.Reset(silence)
		if m.kind == "error" {
			return received, m.fault()
		}
		received = received || len(m.data) > 0
		if err := take(m); err != nil {
			return received, err
		}
	}
}

// A message is one event of a stream of server-sent events.
type message struct {
	id, kind string
	data     []byte
}

// fault returns why a stream ends.
func (m message) fault() error {
	var end struct {
		Code    haft.Code `json:"code"`
		Message string    `json:"message"`
	}
	if err := json.Unmarshal(m.data, &end); err != nil {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the stream of events ended", Err: err}
	}
	return &haft.Error{Code: end.Code, Message: end.Message[:min(len(end.Message), maxDetail)]}
}

// read reads the event of a message.
func (m message) read(into any) error {
	if err := json.Unmarshal(m.data, into); err != nil {
		return &haft.Error{Code: haft.CodeInternal, Message: "an event of the stream cannot be read", Err: err}
	}
	return nil
}

// deliver passes the event of a message to take, and advances at.
func (m message) deliver(at *int64, take func(haft.Event) error) error {
	if len(m.data) == 0 {
		if n, err := strconv.ParseInt(m.id, 10, 64); err == nil && n > *at {
			*at = n // how far the server has looked
		}
		return nil
	}
	var e haft.Event
	if err := m.read(&e); err != nil {
		return err
	}
	if e.Cursor <= *at && *at > 0 {
		return nil // we have it
	}
	if err := take(e); err != nil {
		return err
	}
	*at = e.Cursor
	return nil
}

// A reader reads server-sent events.
type reader struct{ in *bufio.Reader }

// next returns the next message. One without data has at most an id.
func (r *reader) next() (message, error) {
	var m message
	size := 0
	for {
		line, err := r.line(maxLine - size)
		if err != nil {
			return message{}, err
		}
		size += len(line)
		if len(line) == 0 {
			return m, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			m.id = string(value)
		case "event":
			m.kind = string(value)
		case "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data = append(m.data, value...)
		}
	}
}

// line reads one line without its end.
func (r *reader) line(most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.in.ReadSlice('\n')
		if len(line)+len(piece) > most {
			return nil, fmt.Errorf("an event has more than %d bytes", maxLine)
		}
		line = append(line, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF // a complete stream ends with an error event
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
