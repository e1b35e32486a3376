package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
)

// An api collects operations: their routes and what the document says of them.
type api struct {
	huma.API
	s *Server
}

// routes puts every route on mux and returns the document.
func (s *Server) routes(mux *http.ServeMux) ([]byte, error) {
	a := &api{API: humago.New(mux, s.document()), s: s}
	a.UseMiddleware(s.admit)
	a.tools()
	a.calls()
	a.chains()
	a.approvals()
	a.agents()
	a.mcpServers()
	a.policies()
	a.sandboxes()
	a.secrets()
	a.keys()
	a.webhooks()
	a.usage()
	a.retention()
	a.erase()
	a.operate()
	a.audit()
	a.self()
	a.events()
	s.plainRoutes(mux)
	return a.finish()
}

// document is what is to say of the whole.
func (s *Server) document() huma.Config {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Haft", Version: "1",
			Description: "Runs the tools that AI agents call: checked, confined, limited and recorded.\n\n" +
				"Lists are pages: `data`, and `next_cursor` if there is more, which goes into `cursor` of the next " +
				"request. " +
				"Errors are problem details (RFC 9457); `code` is what a program decides by. " +
				"429 and 503 say in Retry-After after how many seconds to try again. " +
				"What belongs to another organisation is not there: 404.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{
			Schemas: registry(),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"key": {Type: "http", Scheme: "bearer",
					Description: "An API key, or a token of an OIDC issuer that the server believes."},
				"signature": {Type: "apiKey", In: "header", Name: "Authorization",
					Description: "HAFT-HMAC-SHA256 key=ID,time=TIME,nonce=NONCE,body=SHA256,signature=HMAC: a " +
						"request signed with an API key."},
			},
		},
		Security: []map[string][]string{{"key": {}}, {"signature": {}}},
	}
	return huma.Config{
		OpenAPI:                      doc,
		Formats:                      map[string]huma.Format{"application/json": jsonFormat(), "json": jsonFormat()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true, // a filter that was mistyped must not list everything
		Transformers:                 []huma.Transformer{own},
	}
}

// jsonFormat reads and writes JSON.
func jsonFormat() huma.Format {
	return huma.Format{
		Marshal: func(w io.Writer, v any) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			return e.Encode(v)
		},
		Unmarshal: json.Unmarshal,
	}
}

// An operation is one thing that can be asked for.
type operation struct {
	method, path string
	id           string      // of the operation in the document
	action       haft.Action // which a credential must be for
	tag, summary string
	about        string
	status       int          // of the usual answer; 0 means 200, or 204 if there is none
	also         []int        // other statuses with the same body
	errors       []int        // besides those that every operation has
	body         *huma.Schema // of the answer, where its Go type does not say
}

// A Route is an address of the API and the action that it asks for; "any" is that
// of every credential.
type Route struct {
	Method, Path string
	Action       haft.Action
}

// Patterns lists the addresses that are not of the API, with [Config.Mounts] and
// [Config.APIs], by pattern of [http.ServeMux].
func (s *Server) Patterns() []string { return slices.Sorted(slices.Values(s.patterns)) }

// Routes lists the addresses of the API, without [Config.Mounts] and [Config.APIs].
func (s *Server) Routes() []Route { return slices.Clone(s.routed) }

// whoKey is the key under which admit leaves the identity for register, which
// hands it on as a value. Nobody else looks.
type whoKey struct{}

// actionKey is where an operation says which action it is.
const actionKey = "action"

// register adds an operation. Its handler gets who asks as a value.
func register[I, O any](a *api, op operation, handle func(ctx context.Context, who Identity, in *I) (*O, error)) {
	o := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary,
		Description:   op.about,
		DefaultStatus: op.status, Metadata: map[string]any{actionKey: op.action},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // admit has read it
		SkipValidateBody: op.id == rawOperation,
		Responses:        map[string]*huma.Response{"default": a.problems("Any other problem")},
	}
	if op.body != nil {
		o.Responses["200"] = &huma.Response{Content: map[string]*huma.MediaType{"application/json": {Schema: op.body}}}
	}
	// Every operation can be on behalf of an agent that is not there.
	usual := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests,
		http.StatusServiceUnavailable}
	if op.method != http.MethodGet && op.method != http.MethodDelete {
		usual = append(usual, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range slices.Concat(usual, []int{http.StatusUnprocessableEntity}, op.errors) {
		o.Responses[fmt.Sprint(status)] = a.problems(http.StatusText(status))
	}
	a.s.routed = append(a.s.routed, Route{op.method, op.path, op.action})
	huma.Register(a.API, o, func(ctx context.Context, in *I) (*O, error) {
		who, ok := ctx.Value(whoKey{}).(Identity)
		if !ok {
			return nil, problem(http.StatusInternalServerError, "internal error")
		}
		out, err := handle(ctx, who, in)
		if err != nil {
			return nil, a.s.fault(ctx, err)
		}
		return out, nil
	})
	responses := a.responses(op)
	status := op.status
	if status == 0 {
		status = http.StatusOK
	}
	for _, other := range op.also {
		r := *responses[fmt.Sprint(status)]
		r.Description = http.StatusText(other)
		if p := responses[fmt.Sprint(other)]; p != nil { // the media type tells the two apart
			r.Content = maps.Clone(r.Content)
			maps.Copy(r.Content, p.Content)
		}
		if other == http.StatusNotModified {
			r.Content = nil
		}
		responses[fmt.Sprint(other)] = &r
	}
}

// responses are what the document says an operation answers.
func (a *api) responses(op operation) map[string]*huma.Response {
	item := a.OpenAPI().Paths[op.path]
	for method, o := range map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch,
		http.MethodDelete: item.Delete,
	} {
		if method == op.method {
			return o.Responses
		}
	}
	return nil
}

// problems is a response that says what is wrong.
func (a *api) problems(description string) *huma.Response {
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{problemType: {Schema: schema}}}
}

// fault makes a problem of an error, and logs it if it is ours.
func (s *Server) fault(ctx context.Context, err error) *Problem {
	if why := Withdrawn(ctx); why != nil {
		err = why
	}
	p := problemOf(err)
	switch {
	case ctx.Err() != nil: // nobody waits for the answer
	case p.Code == haft.CodeInternal:
		s.cfg.Logger.Error("a request failed", "request", requestID(ctx), "code", p.Code, "err", err)
	case p.Code == haft.CodeUnavailable:
		s.cfg.Logger.Warn("a request failed", "request", requestID(ctx), "code", p.Code, "err", err)
	}
	return p
}

// known finds out who sent r and whether the credential is for an action, and then
// reads the body. Who is turned away is told to the operator.
func (s *Server) known(w http.ResponseWriter, r *http.Request, action haft.Action) (Identity, error) {
	who, err := s.identify(r)
	if err != nil {
		s.refused(r, busyWhy(err), haft.Principal{}, err)
		return Identity{}, err
	}
	if rec, ok := w.(*writer); ok {
		rec.who = who.Principal
	}
	who.Principal = s.canonical(r.Context(), who.Principal)
	if err := who.Permit(action); err != nil {
		s.refused(r, WhyScope, who.Principal, err)
		return Identity{}, err
	}
	if err := Needs(r.Context(), action); err != nil {
		s.refused(r, WhyScope, who.Principal, err)
		return Identity{}, err
	}
	if err := s.read(w, r); err != nil {
		why := WhyBody
		if haft.CodeOf(err) == haft.CodeUnauthenticated {
			why = WhyCredential // it is not what was signed
		}
		s.refused(r, why, who.Principal, err)
		return Identity{}, err
	}
	return who, nil
}

// admit lets those through who are known and whose credential is for this, and
// reads their body.
func (s *Server) admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	refuse := func(err error) { s.fault(r.Context(), err).write(w, requestID(r.Context())) }
	action, _ := ctx.Operation().Metadata[actionKey].(haft.Action)
	who, err := s.known(w, r, action)
	if err != nil {
		refuse(err)
		return
	}
	if err := s.bounded(r, ctx.Operation().OperationID); err != nil {
		s.refused(r, WhyBody, who.Principal, err)
		refuse(err)
		return
	}
	if err := unknownCondition(ctx.Operation(), r.Header); err != nil {
		refuse(err)
		return
	}
	agent, err := namedAgent(r)
	if err != nil {
		refuse(err)
		return
	}
	if agent != "" {
		if who, err = s.become(r.Context(), who, agent); err != nil {
			refuse(err)
			return
		}
		ctx = huma.WithValue(ctx, agentKey{}, agent)
	}
	// What curl says of every body that it was not told about. There are no cookies,
	// so that a form on a page of somebody else brings no credential along.
	if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		r.Header.Set("Content-Type", "application/json")
	}
	next(huma.WithValue(ctx, whoKey{}, who))
}

// finish completes the document and writes it.
func (a *api) finish() ([]byte, error) {
	doc := a.OpenAPI()
	var err error
	if a.s.shapes, err = a.bound(); err != nil {
		return nil, err
	}
	schemas := doc.Components.Schemas.Map()
	// The library describes its own errors, which nobody is sent.
	maps.DeleteFunc(schemas, func(name string, _ *huma.Schema) bool {
		return name == "ErrorModel" ||
			name == "ErrorDetail"
	})
	doc.Components.Parameters = map[string]*huma.Param{agentParam: {Name: agentParam, In: "query",
		Description: "The agent on whose behalf the request is, by name or id. The credential must be for it.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: new(maxAgent)}}}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + agentParam})
			}
		}
	}
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the document of the API: %w", err)
	}
	return append(raw, '\n'), nil
}

// absent is the answer where the server was not given what is asked for.
func absent(what string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "this server has no " + what}
}

// refuse answers with a problem where a handler has taken over from the library.
func (s *Server) refuse(h huma.Context, err error) {
	r, w := humago.Unwrap(h)
	s.fault(r.Context(), err).write(w, requestID(r.Context()))
}
