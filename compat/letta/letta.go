package letta

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"

	"haft"
	"haft/internal/bounds"
	"haft/server"
)

// Prefix is where the API stands.
const Prefix = "/letta"

// Config says what an API offers besides its service. What it was not given it
// answers with 501.
type Config struct {
	// Derive reads what a source says of its tool, without running or keeping it.
	Derive func(ctx context.Context, kind haft.Kind, source string) (*Signature, error)
	// SourceTool is the name of the tool that runs source which is not kept; empty
	// means that there is none.
	SourceTool string
	// Variables are those of the organisation, Sandboxes its sandbox configurations and
	// Servers its MCP servers. Routes of what is nil answer 501.
	Variables Variables
	Sandboxes haft.Sandboxes
	Servers   haft.MCPServers
	// Agents is held while an agent is read, changed and written. Nil means one of
	// its own.
	Agents sync.Locker
	// Version is that of the program.
	Version string
	// Logger hears of our faults. Nil discards.
	Logger *slog.Logger
}

// A Signature is what a source says of its tool.
type Signature struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments.
	Parameters json.RawMessage
}

// An API implements [server.API]. It is safe for concurrent use.
type API struct {
	service haft.Service
	cfg     Config
	mux     *http.ServeMux
	actions map[string]haft.Action // by pattern
	shape   *bounds.Shape          // of bodies
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &API{service: service, cfg: cfg, mux: http.NewServeMux(), actions: map[string]haft.Action{},
		shape: bodyShape()}
	for what, r := range d.routes() {
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

// A route is one thing that can be asked for: the action that the credential must
// be for, and what answers.
type route struct {
	action haft.Action
	answer handler
}

// A handler answers a request.
type handler func(ctx context.Context, q *request) (any, error)

// withBody reads the body for a handler.
func withBody[B any](answer func(ctx context.Context, q *request, b B) (any, error)) handler {
	return func(ctx context.Context, q *request) (any, error) {
		var b B
		if err := q.read(&b); err != nil {
			return nil, err
		}
		return answer(ctx, q, b)
	}
}

// withFound looks up what the path names for a handler.
func withFound[T any](find func(ctx context.Context, q *request) (*T, error),
	answer func(ctx context.Context, q *request, v T) (any, error)) handler {
	return func(ctx context.Context, q *request) (any, error) {
		v, err := find(ctx, q)
		if err != nil {
			return nil, err
		}
		return answer(ctx, q, *v)
	}
}

// requires returns routes that answer 501 if the server was not given what they need.
func requires(has bool, name string, routes map[string]route) map[string]route {
	if !has {
		for pattern, r := range routes {
			r.answer = func(context.Context, *request) (any, error) { return nil, missing(name) }
			routes[pattern] = r
		}
	}
	return routes
}

// routes are all of them. Addresses are served with and without a slash at their
// end: Letta's have one where they name a collection, and not all clients send it.
func (d *API) routes() map[string]route {
	all := map[string]route{
		"GET /health": {haft.ToolsRead, d.health},

		"GET /tools":                  {haft.ToolsRead, d.listTools},
		"POST /tools":                 {haft.ToolsWrite, withBody(d.createTool)},
		"PUT /tools":                  {haft.ToolsWrite, withBody(d.createTool)},
		"GET /tools/count":            {haft.ToolsRead, d.countTools},
		"GET /tools/{tool}":           {haft.ToolsRead, withFound(d.pathTool, d.showTool)},
		"PATCH /tools/{tool}":         {haft.ToolsWrite, d.updateTool},
		"DELETE /tools/{tool}":        {haft.ToolsWrite, withFound(d.pathTool, d.deleteTool)},
		"POST /tools/add-base-tools":  {haft.ToolsRead, d.baseTools},
		"POST /tools/search":          {haft.ToolsRead, withBody(d.searchTools)},
		"POST /tools/run":             {haft.CallsWrite, withBody(d.runSource)},
		"POST /tools/generate-schema": {haft.ToolsRead, withBody(d.generateSchema)},
		"POST /tools/generate-tool":   {haft.ToolsRead, d.generateTool},

		"GET /agents":                                 {haft.AgentsRead, d.listAgents},
		"POST /agents":                                {haft.AgentsWrite, d.createAgent},
		"GET /agents/count":                           {haft.AgentsRead, d.countAgents},
		"GET /agents/{agent}":                         {haft.AgentsRead, withFound(d.pathAgent, d.showAgent)},
		"PATCH /agents/{agent}":                       {haft.AgentsWrite, d.updateAgent},
		"DELETE /agents/{agent}":                      {haft.AgentsWrite, withFound(d.pathAgent, d.deleteAgent)},
		"GET /agents/{agent}/tools":                   {haft.AgentsRead, withFound(d.pathAgent, d.agentTools)},
		"PATCH /agents/{agent}/tools/attach/{tool}":   {haft.AgentsWrite, withFound(d.pathTool, d.attachTool)},
		"PATCH /agents/{agent}/tools/detach/{tool}":   {haft.AgentsWrite, withFound(d.pathTool, d.detachTool)},
		"PATCH /agents/{agent}/tools/approval/{name}": {haft.AgentsWrite, d.toolApproval},
		"POST /agents/{agent}/tools/{name}/run":       {haft.CallsWrite, d.runTool},
	}
	maps.Copy(all, requires(d.cfg.Sandboxes != nil, "sandbox configurations", d.sandboxRoutes()))
	maps.Copy(all, requires(d.cfg.Variables != nil, "stored variables", d.variableRoutes()))
	maps.Copy(all, requires(d.cfg.Servers != nil, "MCP servers", d.serverRoutes()))
	return all
}

// sandboxRoutes are those of sandbox configurations.
func (d *API) sandboxRoutes() map[string]route {
	return map[string]route{
		"GET /sandbox-config":                {haft.SandboxesRead, d.listConfigs},
		"POST /sandbox-config":               {haft.SandboxesWrite, withBody(d.createConfig)},
		"POST /sandbox-config/local":         {haft.SandboxesWrite, withBody(d.localConfig)},
		"POST /sandbox-config/local/default": {haft.SandboxesWrite, d.defaultLocal},
		"POST /sandbox-config/e2b/default":   {haft.SandboxesWrite, d.defaultE2B},
		// packages are never changed, only added to
		"POST /sandbox-config/local/recreate-venv": {haft.SandboxesWrite, d.defaultLocal},
		"PATCH /sandbox-config/{config}":           {haft.SandboxesWrite, withBody(d.updateConfig)},
		"DELETE /sandbox-config/{config}":          {haft.SandboxesWrite, withFound(d.pathConfig, d.deleteConfig)},
	}
}

// variableRoutes are those of the variables of sandbox configurations.
func (d *API) variableRoutes() map[string]route {
	list, remove := withFound(d.pathConfig, d.listVariables), withFound(d.pathVariable, d.deleteVariable)
	return map[string]route{
		"GET /sandbox-config/{config}/environment-variable":      {haft.SecretsRead, list},
		"POST /sandbox-config/{config}/environment-variable":     {haft.SecretsWrite, withBody(d.createVariable)},
		"PATCH /sandbox-config/environment-variable/{variable}":  {haft.SecretsWrite, withBody(d.updateVariable)},
		"DELETE /sandbox-config/environment-variable/{variable}": {haft.SecretsWrite, remove},
	}
}

// serverRoutes are those of MCP servers, of clients from 1.0 on and of those before.
func (d *API) serverRoutes() map[string]route {
	onServer := func(answer func(context.Context, *request, haft.MCPServer) (any, error)) handler {
		return withFound(d.pathServer, answer)
	}
	return map[string]route{
		"GET /mcp-servers":                            {haft.ServersRead, d.listServers},
		"POST /mcp-servers":                           {haft.ServersWrite, withBody(d.createServer)},
		"GET /mcp-servers/{server}":                   {haft.ServersRead, onServer(d.showServer)},
		"PATCH /mcp-servers/{server}":                 {haft.ServersWrite, withBody(d.updateServer)},
		"DELETE /mcp-servers/{server}":                {haft.ServersWrite, onServer(d.deleteServer)},
		"PATCH /mcp-servers/{server}/refresh":         {haft.ServersWrite, onServer(d.refreshServer)},
		"GET /mcp-servers/{server}/tools":             {haft.ServersRead, onServer(d.serverTools)},
		"GET /mcp-servers/{server}/tools/{tool}":      {haft.ServersRead, withFound(d.serverTool, d.showTool)},
		"POST /mcp-servers/{server}/tools/{tool}/run": {haft.CallsWrite, d.runServerTool},

		"GET /tools/mcp/servers":                             {haft.ServersRead, d.oldServers},
		"PUT /tools/mcp/servers":                             {haft.ServersWrite, d.oldPutServer},
		"PATCH /tools/mcp/servers/{old}":                     {haft.ServersWrite, d.oldUpdateServer},
		"DELETE /tools/mcp/servers/{old}":                    {haft.ServersWrite, onServer(d.oldDeleteServer)},
		"GET /tools/mcp/servers/{old}/tools":                 {haft.ServersRead, onServer(d.oldServerTools)},
		"POST /tools/mcp/servers/{old}/{name}":               {haft.ServersRead, withFound(d.serverTool, d.showTool)},
		"POST /tools/mcp/servers/{old}/resync":               {haft.ServersWrite, onServer(d.refreshServer)},
		"POST /tools/mcp/servers/{old}/tools/{name}/execute": {haft.CallsWrite, d.oldExecute},
		"POST /tools/mcp/servers/test":                       {haft.ServersWrite, d.noLogin},
		"POST /tools/mcp/servers/connect":                    {haft.ServersWrite, d.noLogin},
		"GET /tools/mcp/oauth/callback":                      {haft.ServersWrite, d.noLogin},
	}
}

// A request is one that somebody known has sent.
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

// whoKey is the key under which Enter leaves who sends for serve, which hands it on
// as a value. Nobody else looks.
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
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := d.mux.Handler(probe); pattern != "" {
			return &httpError{http.StatusMethodNotAllowed, "Method Not Allowed"}
		}
	}
	return &httpError{http.StatusNotFound,
		"Not Found: this is the part of Letta's API that is about tools, see docs/letta.md"}
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
		if _, none := answer.(nothing); none {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		write(w, http.StatusOK, answer)
	}
}

// nothing is an answer without a body, 204.
type nothing struct{}

// write sends JSON.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a client that is gone cannot be told
}

// fault is the body of an error. Letta's clients show detail; the other fields are for
// clients that know Haft.
type fault struct {
	Detail     string        `json:"detail"`
	Code       haft.Code     `json:"code,omitempty"`
	Misfits    []haft.Misfit `json:"misfits,omitempty"`
	RetryAfter haft.Millis   `json:"retry_after_ms,omitempty"`
}

// statusOf maps codes to statuses. Letta answers what is wrong with a tool with 400
// and what is wrong with a request with 422; the API's own errors choose.
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
			d.cfg.Logger.Error("a request to the Letta API failed", "route", r.Pattern, "err", err)
		}
	case haft.CodeUnavailable:
		d.cfg.Logger.Warn("a request to the Letta API failed", "route", r.Pattern, "err", err)
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

// health says that the server is there.
func (d *API) health(context.Context, *request) (any, error) {
	return map[string]string{"status": "ok", "version": d.cfg.Version}, nil
}
