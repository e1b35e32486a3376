package letta

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/bounds"
	"haft/server"
)

// Prefix is where the API stands.
const Prefix = "/letta"

// Config says what an API offers besides its service. What it was not given it
// answers with 501.
type Config struct {
	// Derive reads what a source says of its tool, without running or keeping it. Untyped says that the
	// schema is given elsewhere, so that types may be missing.
	Derive func(ctx context.Context, kind haft.Kind, source string, untyped bool) (*Signature, error)
	// SourceTool is the name of the tool that runs source which is not kept; empty
	// means that there is none.
	SourceTool string
	// Variables are the variables of the organisation, Sandboxes its sandbox configurations and
	// Servers its MCP servers. The routes of one that is nil answer 501.
	Variables Variables
	Sandboxes haft.Sandboxes
	Servers   haft.MCPServers
	// Memory and Sharer keep the blocks of agents, Archive their passages, and Conversations what is said
	// to them. The routes of one that is nil answer 501.
	Memory        haft.Memory
	Sharer        haft.BlockSharer
	Archive       haft.Archive
	Conversations haft.Conversations
	// Models are those that agents can be given. Nil means that nobody knows: every name is accepted.
	Models haft.Models
	// Heartbeat is how often a stream sends something if nothing happens. 0 means every 15 seconds.
	Heartbeat time.Duration
	// Settings are what the operator allows.
	Settings Settings
	// Agents is held while an agent is read, changed and written. Nil means one of
	// its own.
	Agents sync.Locker
	// Version is that of the program.
	Version string
	// Logger gets internal errors. Nil discards.
	Logger *slog.Logger
}

// Settings are what the operator gives to every tool that is added through this API, because
// Letta's tools have it and its API cannot ask for it. Policies still decide.
type Settings struct {
	// Network are the hosts that tools may reach; "full" means every public one.
	Network []string
	// Programs are names of programs of the host that tools may start.
	Programs []string
}

// deriver is [Config.Derive].
type deriver = func(ctx context.Context, kind haft.Kind, source string, untyped bool) (*Signature, error)

// A Signature is what a source says of its tool.
type Signature struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments.
	Parameters json.RawMessage
}

// An API implements [server.API]. It is safe for concurrent use.
type API struct {
	log     *slog.Logger
	mux     *http.ServeMux
	actions map[string]haft.Action // by pattern
	absences
	shape *bounds.Shape // of bodies
}

var (
	_ server.API       = (*API)(nil)
	_ server.HeaderAPI = (*API)(nil)
)

// New makes an API to a service.
func New(service haft.Service, cfg Config) *API {
	if cfg.Agents == nil {
		cfg.Agents = new(sync.Mutex)
	}
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 15*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &API{log: cfg.Logger, mux: http.NewServeMux(), actions: map[string]haft.Action{}, shape: bodyShape(),
		absences: newAbsences()}
	for what, r := range routes(service, cfg) {
		method, path, _ := strings.Cut(what, " ")
		pattern := method + " " + Prefix + "/v1" + path
		d.mux.HandleFunc(pattern, d.serve(r))
		d.actions[pattern] = r.action
	}
	return d
}

// Routes lists the addresses of the API, such as "GET /letta/v1/tools", and the
// action that each asks for.
func (d *API) Routes() map[string]haft.Action { return maps.Clone(d.actions) }

// Action implements [server.API].
func (d *API) Action(r *http.Request) haft.Action {
	_, pattern := d.mux.Handler(withoutSlash(r))
	return d.actions[pattern]
}

// runPattern is the route that honours [server.TurnHeader].
const runPattern = "POST " + Prefix + "/v1/agents/{agent}/tools/{name}/run"

// Headers implements [server.HeaderAPI].
func (d *API) Headers(r *http.Request) []string {
	if _, pattern := d.mux.Handler(withoutSlash(r)); pattern == runPattern {
		return []string{server.TurnHeader}
	}
	return nil
}

// A request is an authenticated request with its body.
type request struct {
	*http.Request
	who  server.Identity
	body []byte
}

// Serve implements [server.API].
func (d *API) Serve(w http.ResponseWriter, r *http.Request, who server.Identity) {
	inner := withoutSlash(r)
	if _, pattern := d.mux.Handler(inner); pattern == "" {
		d.fail(w, r, d.absent(inner))
		return
	}
	inner = inner.WithContext(context.WithValue(r.Context(), whoKey{}, who))
	d.mux.ServeHTTP(w, inner)
	r.Pattern = inner.Pattern // for the log
}

// whoKey is the context key under which Serve passes the identity to serve.
type whoKey struct{}

// withoutSlash returns r without the slash at the end of its path.
func withoutSlash(r *http.Request) *http.Request {
	if !strings.HasSuffix(r.URL.Path, "/") {
		return r
	}
	copied, address := *r, *r.URL
	address.Path, address.RawPath = strings.TrimRight(address.Path, "/"), strings.TrimRight(address.RawPath, "/")
	copied.URL = &address
	return &copied
}

// An httpError is an answer with a status of its own.
type httpError struct {
	status int
	detail string
}

// Error implements error.
func (e *httpError) Error() string { return e.detail }

// absent says that there is nothing at the path of r, or not for its method.
func (d *API) absent(r *http.Request) error {
	if err := d.unsupported(r); err != nil {
		return err
	}
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := d.mux.Handler(probe); pattern != "" {
			return &httpError{http.StatusMethodNotAllowed, "Method Not Allowed"}
		}
	}
	return &httpError{http.StatusNotFound,
		"Not Found: not all of Letta's API is here, see docs/letta.md"}
}

// serve makes a handler of a route.
func (d *API) serve(t route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(whoKey{}).(server.Identity)
		q := &request{Request: r, who: who}
		var err error
		if q.body, err = readBody(r); err != nil {
			d.fail(w, r, err)
			return
		}
		if err := d.bounded(q.body); err != nil {
			d.fail(w, r, err)
			return
		}
		answer, err := t.answer(r.Context(), q)
		if err != nil {
			d.fail(w, r, err)
			return
		}
		switch answer := answer.(type) {
		case nothing:
			w.WriteHeader(http.StatusNoContent)
		case stream:
			answer(w)
		default:
			write(w, http.StatusOK, answer)
		}
	}
}

// A stream is an answer that writes itself, piece by piece.
type stream func(w http.ResponseWriter)

// nothing is an answer without a body, 204.
type nothing struct{}

// write sends JSON.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // fails if the client is gone
}

// fault is the body of an error. Letta's clients show detail; the other fields are for
// clients that know Haft.
type fault struct {
	Detail     string        `json:"detail"`
	Code       haft.Code     `json:"code,omitempty"`
	Misfits    []haft.Misfit `json:"misfits,omitempty"`
	RetryAfter haft.Millis   `json:"retry_after_ms,omitempty"`
}

// statusOf maps codes to statuses. Letta answers an invalid tool with 400 and an invalid
// request with 422; the latter are [httpError]s here.
func statusOf(code haft.Code) int {
	if code == haft.CodeInvalid {
		return http.StatusBadRequest
	}
	return server.StatusOf(code)
}

// fail answers with an error. Only rate-limited requests are worth a retry: otherwise the
// clients would repeat every conflict and every internal error, and with them runs that
// may have happened.
func (d *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	h := w.Header()
	h.Set("X-Should-Retry", "false")
	if why := server.Withdrawn(r.Context()); why != nil {
		err = why
	}
	if e, ok := errors.AsType[*httpError](err); ok {
		write(w, e.status, fault{Detail: e.detail})
		return
	}
	f := fault{Detail: haft.MessageOf(err), Code: haft.CodeOf(err)}
	if e, ok := errors.AsType[*haft.Error](err); ok {
		f.Misfits = e.Misfits
	}
	if f.RetryAfter = haft.RetryAfterOf(err); f.RetryAfter > 0 {
		h.Set("Retry-After", haft.RetrySeconds(f.RetryAfter))
	}
	switch f.Code {
	case haft.CodeInternal:
		if r.Context().Err() == nil {
			d.log.Error("a request to the Letta API failed", "route", r.Pattern, "err", err)
		}
	case haft.CodeUnavailable:
		d.log.Warn("a request to the Letta API failed", "route", r.Pattern, "err", err)
	case haft.CodeRateLimited:
		h.Set("X-Should-Retry", "true")
	}
	write(w, statusOf(f.Code), f)
}

// missing is the error for a route that needs something that the server was not given.
func missing(name string) error {
	return &httpError{http.StatusNotImplemented, "this server has no " + name}
}

// notFound, invalid and conflict are errors with those codes.
func notFound(message string) error { return &haft.Error{Code: haft.CodeNotFound, Message: message} }
func invalid(message string) error  { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
func conflict(message string) error { return &haft.Error{Code: haft.CodeConflict, Message: message} }

// health answers that the server is there.
func health(version string) handler {
	return func(context.Context, *request) (any, error) {
		return map[string]string{"status": "ok", "version": version}, nil
	}
}
