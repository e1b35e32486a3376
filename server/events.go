package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
)

// eventHandlers serve the operations on events.
type eventHandlers struct {
	watcher      haft.Watcher
	events       Events // may be nil
	agents       haft.Agents
	streams      *streams
	errors       errorWriter
	heartbeat    time.Duration
	writeTimeout time.Duration
}

// events registers the operations on events.
func (a *api) events() {
	s, g := a.s, a.group("events", haft.EventsRead, haft.EventsRead)
	h := eventHandlers{s.service, s.cfg.Events, s.service, s.streams, s.errors, s.cfg.Heartbeat, s.cfg.WriteTimeout}
	event := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[haft.Event](), true, "Event")
	register(g.op("GET /v1/events", "watch", "Watch what happens, as server-sent events or over a WebSocket").
		about("A request to upgrade to a WebSocket gets one, with an event as JSON in each message; others get "+
			"server-sent events, whose id is the cursor of the event.\n\n"+
			"Who comes back names the last cursor in `after` or Last-Event-ID and gets every later event once, in "+
			"order. With `after=0` it begins with the oldest that is kept, without it with the next that happens. "+
			"A silent stream has heartbeats, with a cursor to come back with. A stream ends with an event of the "+
			"type `error`: code `unavailable` asks to come back after the last cursor, `conflict` says that events "+
			"are no longer kept, `unauthenticated` and `denied` say why the credential is not good for it any more.").
		writes(mediaTypes{"text/event-stream": {Schema: event}}), h.watch)
	register(g.needs(h.events != nil, "events of one call").op("GET /v1/calls/{id}/events", "list-call-events",
		"List what has happened to a call"), h.callEvents)
	a.OpenAPI().Paths["/v1/events"].Get.Responses["101"] = &huma.Response{Description: "Switching to a WebSocket"}
}

type watch struct {
	After     string      `query:"after" maxLength:"20" pattern:"^-?[0-9]+$" doc:"The cursor of the last event that was seen."`
	LastEvent string      `header:"Last-Event-ID" maxLength:"20" doc:"The same, as browsers send it."`
	Call      haft.CallID `query:"call" maxLength:"200"`
	Agent     string      `query:"agent" maxLength:"200" doc:"The id or name of an agent."`
	User      string      `query:"user" maxLength:"200"`
	Tool      string      `query:"tool" maxLength:"200" doc:"The name of a tool."`
	Type      []string    `query:"type" maxItems:"20" maxLength:"64" doc:"Types of events, with commas between."`
}

// from returns the cursor after which the stream begins.
func (in *watch) from() (int64, error) {
	text := cmp.Or(in.LastEvent, in.After) // a browser repeats the address, but updates Last-Event-ID
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, &haft.Error{Code: haft.CodeInvalid, Message: "after and Last-Event-ID are the cursor of an event",
			Err: err}
	}
	return n, nil
}

// fits reports whether an event was asked for. The service decides which events the caller
// may see.
func (in *watch) fits(e haft.Event) bool {
	return (len(in.Type) == 0 || slices.Contains(in.Type, string(e.Type))) &&
		(in.Call == "" || in.Call == e.Call) && (in.Agent == "" || in.Agent == e.Principal.Agent) &&
		(in.User == "" || in.User == e.Principal.User) && (in.Tool == "" || in.Tool == e.Tool)
}

func (h eventHandlers) watch(ctx context.Context, who Identity, in *watch) (*huma.StreamResponse, error) {
	after, err := in.from()
	if err != nil {
		return nil, err
	}
	in.Agent = agentID(ctx, h.agents, who, in.Agent)
	if after < 0 && h.events != nil {
		// From this moment on nothing is missed, also by a reader that is cut before
		// the first event.
		if after, err = h.events.Cursor(ctx); err != nil {
			return nil, err
		}
	}
	if in.Call != "" && h.events != nil {
		if _, err := h.events.EventsOf(ctx, who.Principal, in.Call, 0, 1); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, done, err := h.streams.begin(r, who)
		if err != nil {
			h.errors.refuse(hc, err)
			return
		}
		defer done()
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			h.socket(ctx, w, r, who, in, after)
			return
		}
		h.sse(ctx, w, r, who, in, after)
	}}, nil
}

type callEvents struct {
	CallRef
	Paging
}

func (h eventHandlers) callEvents(ctx context.Context, who Identity, in *callEvents) (*listed[haft.Event], error) {
	after, err := in.number("events")
	if err != nil {
		return nil, err
	}
	list, err := h.events.EventsOf(ctx, who.Principal, in.ID, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return collect(each(list), in.Paging, "events", nil,
		func(e haft.Event) string { return strconv.FormatInt(e.Cursor, 10) })
}

// eventsFor yields the events that were asked for.
func (h eventHandlers) eventsFor(ctx context.Context, who Identity, in *watch,
	after int64) iter.Seq2[haft.Event, error] {
	if in.Call != "" && h.events != nil {
		return h.events.WatchCall(ctx, who.Principal, in.Call, after)
	}
	f := haft.EventFilter{Call: in.Call, User: in.User, Agent: in.Agent, Tool: in.Tool, Marks: true}
	for _, t := range in.Type {
		f.Types = append(f.Types, haft.EventType(t))
	}
	return h.watcher.Watch(ctx, who.Principal, f, after)
}

// sink sends a stream of events.
type sink interface {
	// Event sends one. It may keep it until Flush.
	Event(e haft.Event) error
	Flush() error
	// Beat shows that the stream lives, and how far it has looked.
	Beat(cursor int64) error
}

// eventsAhead is how many events are taken from the service before they are sent. Several
// can then be sent in one write; a reader that is slower fills the queue of the service,
// which then drops it.
const eventsAhead = 64

// follow sends events to a sink until ctx ends or something fails, and returns why. The
// error is for the reader.
func (h eventHandlers) follow(ctx context.Context, who Identity, in *watch, after int64, out sink) error {
	type step struct {
		event haft.Event
		err   error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	steps := make(chan step, eventsAhead)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(steps)
		for e, err := range h.eventsFor(ctx, who, in, after) {
			select {
			case steps <- step{e, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	defer reader.Wait()
	defer cancel(nil)
	beat := time.NewTicker(h.heartbeat)
	defer beat.Stop()
	seen, sent := after, false
	for {
		select {
		case next, ok := <-steps:
			switch {
			case !ok:
				return ended(ctx)
			case next.err != nil:
				return next.err
			}
			seen = next.event.Cursor
			if next.event.Type != "" && in.fits(next.event) {
				if err := out.Event(next.event); err != nil {
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
		case <-beat.C:
			if err := out.Beat(seen); err != nil {
				return err
			}
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// ended returns why a stream ends without a failure.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errShuttingDown
}

// streamError is the last event of a stream.
type streamError struct {
	Type       string      `json:"type"`
	Code       haft.Code   `json:"code"`
	Message    string      `json:"message"`
	RetryAfter haft.Millis `json:"retry_after_ms,omitempty"`
}

func encodeStreamError(err error) []byte {
	raw, err := json.Marshal(streamError{"error", haft.CodeOf(err), haft.MessageOf(err), haft.RetryAfterOf(err)})
	if err != nil {
		return []byte(`{"type":"error","code":"internal","message":"internal error"}`)
	}
	return raw
}

// An sseSink writes server-sent events.
type sseSink struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
	buf []byte
}

// Event implements sink.
func (o *sseSink) Event(e haft.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	b := append(o.buf[:0], "id: "...)
	b = strconv.AppendInt(b, e.Cursor, 10)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...) // JSON of one line
	b = append(b, raw...)
	o.buf = append(b, "\n\n"...)
	_, err = o.w.Write(o.buf)
	return err
}

// Flush implements sink.
func (o *sseSink) Flush() error { return o.ctl.Flush() }

// Beat implements sink. An id without data is remembered by the reader and gives
// no event.
func (o *sseSink) Beat(cursor int64) error {
	text := ": heartbeat\n\n"
	if cursor > 0 {
		text = ": heartbeat\nid: " + strconv.FormatInt(cursor, 10) + "\n\n"
	}
	if _, err := o.w.Write([]byte(text)); err != nil {
		return err
	}
	return o.ctl.Flush()
}

// sse streams server-sent events.
func (h eventHandlers) sse(ctx context.Context, w http.ResponseWriter, r *http.Request, who Identity, in *watch,
	after int64) {
	out := &sseSink{w: w, ctl: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not collect them
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write([]byte("retry: 1000\n\n")); err != nil {
		return
	}
	if err := out.Beat(after); err != nil { // the cursor to resume from if the stream is cut before the first event
		return
	}
	err := h.follow(ctx, who, in, after, out)
	if r.Context().Err() != nil && Withdrawn(r.Context()) == nil {
		return // the reader has left
	}
	h.logStreamEnd(r, err)
	if _, err := fmt.Fprintf(w, "event: error\ndata: %s\n\n", encodeStreamError(err)); err == nil {
		_ = out.Flush() // fails if the reader is gone
	}
}

// logStreamEnd logs why a stream ends, if that is an internal error.
func (h eventHandlers) logStreamEnd(r *http.Request, err error) {
	if code := haft.CodeOf(err); code == haft.CodeInternal {
		h.errors.log.Info("a stream of events broke", "request", requestID(r.Context()), "err", err)
	}
}
