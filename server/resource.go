package server

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
	"haft/internal/eventstream"
)

// A Resource adds operations to the API. They have what all operations have: authentication, an action, bounds,
// problems, request ids and a place in the document.
type Resource interface {
	// Register calls [Handle] or [HandleFeed] for every operation.
	Register(ops *Operations)
}

// Operations are those of the API of a server.
type Operations struct{ api *api }

// An Endpoint is an operation of a [Resource].
type Endpoint struct {
	// Pattern is METHOD PATH, ID the name of the operation in the document, and Tag that of its resource.
	Pattern, ID, Tag, Summary, About string
	// Action is what the credential must allow.
	Action haft.Action
	// Missing names what the operation needs and the server was not given: it answers 404 then.
	Missing string
	// Status is that of the usual answer; 0 means 200, or 204 without a body. Also are others with the same body.
	Status int
	Also   []int
	// Conflicts says that the operation can answer 409.
	Conflicts bool
}

// operation returns the operation of an endpoint.
func (e Endpoint) operation(ops *Operations) operation {
	o := ops.api.group(e.Tag, e.Action, e.Action).needs(e.Missing == "", e.Missing).
		op(e.Pattern, e.ID, e.Summary).about(e.About).answers(e.Status, e.Also...)
	if e.Conflicts {
		o = o.conflicts()
	}
	return o
}

// Handle adds an operation. The tags of its input and output are those of huma: each text and list of the input needs
// a bound. The handler gets the identity of the caller.
func Handle[I, O any](ops *Operations, e Endpoint,
	handle func(ctx context.Context, who Identity, in *I) (*O, error)) {
	register(e.operation(ops), handle)
}

// A Feed is what an operation answers with as it happens.
type Feed[T any] struct {
	// Who counts the stream. It is who asks, or the agent as which they do.
	Who Identity
	// Items yields the events. Its context ends with the request, the credential or the server. An error before the
	// first item is the answer.
	Items func(ctx context.Context) iter.Seq2[T, error]
	// Label returns the cursor of an item, by which a reader comes back, or 0, and its type. Without a type it is not
	// sent.
	Label func(item T) (cursor int64, kind string)
	// After is the cursor at which the stream begins. Endless says that only a reader ends it.
	After   int64
	Endless bool
	// Whole makes one answer of all items, for a request that prefers JSON. Nil means that every
	// request gets a stream.
	Whole func(items iter.Seq2[T, error]) (*Whole, error)
}

// A Whole is the answer with all items of a [Feed]. Body has the type that was given to [HandleFeed].
type Whole struct {
	Status   int
	Location string
	Body     any
}

// HandleFeed adds an operation that answers with server-sent events, or as JSON with a value of the type of whole if
// that is not nil.
func HandleFeed[I, T any](ops *Operations, e Endpoint, whole any,
	handle func(ctx context.Context, who Identity, in *I) (*Feed[T], error)) {
	s, schemas := ops.api.s, ops.api.OpenAPI().Components.Schemas
	content := mediaTypes{"text/event-stream": {Schema: schemas.Schema(reflect.TypeFor[T](), true, "")}}
	if whole != nil {
		content["application/json"] = &huma.MediaType{Schema: schemas.Schema(reflect.TypeOf(whole), true, "")}
	}
	register(e.operation(ops).writes(content), func(ctx context.Context, who Identity, in *I) (*huma.StreamResponse,
		error) {
		f, err := handle(ctx, who, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			ctx, done, err := s.streams.begin(r, f.Who)
			if err != nil {
				s.errors.refuse(hc, err)
				return
			}
			defer done()
			if f.Whole == nil || eventstream.Preferred(r.Header.Get("Accept")) {
				sendEvents(ctx, s.errors, s.cfg.Heartbeat, w, r, *f)
				return
			}
			out, err := f.Whole(f.Items(ctx))
			if err != nil && ctx.Err() != nil {
				err = ended(ctx)
			}
			if err != nil {
				s.errors.refuse(hc, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", out.Location)
			w.WriteHeader(out.Status)
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			_ = e.Encode(out.Body) // fails if the client is gone
		}}, nil
	})
}

// sendEvents answers with server-sent events, until there are no more or ctx ends. Only this function writes them.
func sendEvents[T any](ctx context.Context, answer errorWriter, beat time.Duration, w http.ResponseWriter,
	r *http.Request, f Feed[T]) {
	out := eventstream.NewSSE(w, f.Label)
	if f.Endless { // it has a cursor to resume from if the stream is cut before the first event
		if err := out.Beat(f.After); err != nil {
			return
		}
	}
	err := eventstream.Follow(ctx, f.Items, f.After, beat, f.Label, out)
	if r.Context().Err() != nil && Withdrawn(r.Context()) == nil {
		return // the reader has left
	}
	if ctx.Err() != nil || err == nil && f.Endless {
		err = ended(ctx)
	}
	switch {
	case err == nil:
		if !out.Begun() {
			_ = out.Beat(f.After) // fails if the reader is gone
		}
	case !out.Begun():
		answer.fault(r.Context(), err).write(w, requestID(r.Context()))
	default:
		answer.logStreamEnd(r, err)
		out.Fail(err)
	}
}
