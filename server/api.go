package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"haft"
)

// api collects operations: their routes and their part of the document.
type api struct {
	huma.API
	s *Server
}

// routes puts every route on mux and returns the document.
func (s *Server) routes(mux *http.ServeMux) ([]byte, error) {
	a := &api{API: humago.New(mux, document()), s: s}
	a.UseMiddleware(s.admit)
	a.tools()
	a.calls()
	a.files()
	a.sessions()
	a.workspaces()
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
	for _, r := range s.cfg.Resources {
		r.Register(&Operations{a})
	}
	s.plainRoutes(mux)
	return a.finish()
}

// document returns the document without operations, and the settings of the library.
func document() huma.Config {
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
		Transformers:                 []huma.Transformer{ownErrors},
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

// Route is a path of the API and the action that it needs; "any" is an action of every
// credential.
type Route struct {
	Method, Path string
	Action       haft.Action
}

// Patterns lists the addresses that are not of the API, with [Config.Mounts] and
// [Config.APIs], by pattern of [http.ServeMux].
func (s *Server) Patterns() []string { return slices.Sorted(slices.Values(s.patterns)) }

// Routes lists the addresses of the API, without [Config.Mounts] and [Config.APIs].
func (s *Server) Routes() []Route { return slices.Clone(s.routed) }

// errorWriter answers with errors, and logs those that are not the fault of the client.
type errorWriter struct{ log *slog.Logger }

// fault converts an error to a problem, and logs internal ones.
func (e errorWriter) fault(ctx context.Context, err error) *Problem {
	if why := Withdrawn(ctx); why != nil {
		err = why
	}
	p := problemOf(err)
	switch {
	case ctx.Err() != nil: // the client has left
	case p.Code == haft.CodeInternal:
		e.log.Error("a request failed", "request", requestID(ctx), "code", p.Code, "err", err)
	case p.Code == haft.CodeUnavailable:
		e.log.Warn("a request failed", "request", requestID(ctx), "code", p.Code, "err", err)
	}
	return p
}

// authenticate finds out who sent r and whether the credential allows an action, and then
// reads the body. It reports refused requests to the operator.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, action haft.Action) (Identity, error) {
	who, err := s.requests.identify(r, s.proxies.sourceAddr(r))
	if err != nil {
		s.reportRefusal(r, whyOf(err), haft.Principal{}, err)
		return Identity{}, err
	}
	if rec, ok := w.(*writer); ok {
		rec.who = who.Principal
	}
	who.Principal = s.withAgentID(r.Context(), who.Principal)
	if err := who.Permit(action); err != nil {
		s.reportRefusal(r, WhyScope, who.Principal, err)
		return Identity{}, err
	}
	if err := Needs(r.Context(), action); err != nil {
		s.reportRefusal(r, WhyScope, who.Principal, err)
		return Identity{}, err
	}
	if err := s.readBody(w, r); err != nil {
		why := WhyBody
		if haft.CodeOf(err) == haft.CodeUnauthenticated {
			why = WhyCredential // it is not what was signed
		}
		s.reportRefusal(r, why, who.Principal, err)
		return Identity{}, err
	}
	return who, nil
}

// admit lets a request through if its sender is known and the credential allows the
// operation, and reads its body.
func (s *Server) admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	action, _ := ctx.Operation().Metadata[actionKey].(haft.Action)
	who, err := s.authenticate(w, r, action)
	if err == nil {
		if err = s.checkBounds(r, ctx.Operation().OperationID); err != nil {
			s.reportRefusal(r, WhyBody, who.Principal, err)
		}
	}
	if err == nil {
		err = checkConditions(ctx.Operation(), r.Header)
	}
	var agent string
	if err == nil {
		who, agent, err = s.actAsNamed(r, who)
	}
	if err != nil {
		s.errors.refuse(ctx, err)
		return
	}
	if agent != "" {
		ctx = huma.WithValue(ctx, agentKey{}, agent)
	}
	// curl sends this type with every body unless it is given another one. There are no
	// cookies, so that a form on a foreign page sends no credential.
	if id := ctx.Operation().OperationID; r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" &&
		id != addFile && id != putSessionFile {
		r.Header.Set("Content-Type", "application/json")
	}
	next(huma.WithValue(ctx, whoKey{}, who))
}

// finish completes the document and encodes it.
func (a *api) finish() ([]byte, error) {
	doc := a.OpenAPI()
	var err error
	if a.s.shapes, err = a.bindLimits(); err != nil {
		return nil, err
	}
	schemas := doc.Components.Schemas.Map()
	// The library describes its own errors, which are never sent.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	doc.Components.Parameters = map[string]*huma.Param{agentParam: {Name: agentParam, In: "query",
		Description: "The agent on whose behalf the request is, by name or id. The credential must be for it.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: new(maxAgent)}}}
	for _, item := range doc.Paths {
		for _, op := range operations(item) {
			op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + agentParam})
		}
	}
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the document of the API: %w", err)
	}
	return append(raw, '\n'), nil
}

// refuse answers with a problem where a handler has taken over from the library.
func (e errorWriter) refuse(h huma.Context, err error) {
	r, w := humago.Unwrap(h)
	e.fault(r.Context(), err).write(w, requestID(r.Context()))
}
