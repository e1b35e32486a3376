package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
	"haft/internal/eventstream"
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

// label has no type for events that were not asked for.
func (in *watch) label(e haft.Event) (cursor int64, kind string) {
	if in.fits(e) {
		kind = string(e.Type)
	}
	return e.Cursor, kind
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
		sendEvents(ctx, h.errors, h.heartbeat, w, r, Feed[haft.Event]{After: after, Endless: true, Label: in.label,
			Items: func(ctx context.Context) iter.Seq2[haft.Event, error] {
				return h.eventsFor(ctx, who, in, after)
			}})
	}}, nil
}

type callEvents struct {
	CallRef
	Paging
}

func (h eventHandlers) callEvents(ctx context.Context, who Identity, in *callEvents) (*Listed[haft.Event], error) {
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

// follow sends events to a sink until ctx ends or something fails, and returns why. The
// error is for the reader.
func (h eventHandlers) follow(ctx context.Context, who Identity, in *watch, after int64,
	out eventstream.Sink[haft.Event]) error {
	err := eventstream.Follow(ctx, func(ctx context.Context) iter.Seq2[haft.Event, error] {
		return h.eventsFor(ctx, who, in, after)
	}, after, h.heartbeat, in.label, out)
	if err == nil {
		err = ended(ctx)
	}
	return err
}

// ended returns why a stream ends without a failure.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errShuttingDown
}

// logStreamEnd logs why a stream ends, if that is an internal error.
func (e errorWriter) logStreamEnd(r *http.Request, err error) {
	if code := haft.CodeOf(err); code == haft.CodeInternal {
		e.log.Info("a stream of events broke", "request", requestID(r.Context()), "err", err)
	}
}
