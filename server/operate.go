package server

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// operate are the operations of those who keep the whole in order.
func (a *api) operate() {
	const tag = "operation"
	register(a, operation{method: http.MethodPost, path: "/v1/stop", id: "stop", action: Operate, tag: tag, summary: "Refuse new calls of everybody until resumed, also after a restart"}, a.s.stop)
	register(a, operation{method: http.MethodPost, path: "/v1/resume", id: "resume", action: Operate, tag: tag, summary: "Take calls again"}, a.s.resume)
	register(a, operation{method: http.MethodGet, path: "/v1/audit", id: "export-audit", action: AuditRead, tag: tag, summary: "Export the audit of the organisation as JSON lines", about: "`haft audit verify-file` proves it on any machine.", errors: []int{http.StatusNotFound}}, a.s.exportAudit)
	register(a, operation{method: http.MethodGet, path: "/v1/audit/entries", id: "list-audit", action: AuditRead, tag: tag, summary: "Show the last entries of the audit, oldest first", errors: []int{http.StatusNotFound}}, a.s.auditEntries)
	register(a, operation{method: http.MethodGet, path: "/v1/audit/keys", id: "audit-keys", action: AuditRead, tag: tag, summary: "Show the public keys that prove an export of the audit", errors: []int{http.StatusNotFound}}, a.s.auditKeys)
	a.OpenAPI().Paths["/v1/audit/keys"].Get.Responses["200"].Content = map[string]*huma.MediaType{pemFile: {Schema: &huma.Schema{Type: huma.TypeString}}}
	a.OpenAPI().Paths["/v1/audit"].Get.Responses["200"].Content = map[string]*huma.MediaType{jsonLines: {Schema: &huma.Schema{Type: huma.TypeString}}}
}

// The media types of what is not JSON.
const (
	jsonLines = "application/jsonl"
	pemFile   = "application/pem-certificate-chain" // RFC 8555; there is none for keys alone
)

type auditEntries struct {
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100" doc:"How many of the last to show."`
}

type entries struct {
	Body struct {
		Data any `json:"data"`
	}
}

func (s *Server) auditEntries(ctx context.Context, who Identity, in *auditEntries) (*entries, error) {
	if s.cfg.Audit == nil {
		return nil, absent("audit")
	}
	list, err := s.cfg.Audit.AuditEntries(ctx, who.Principal, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &entries{}
	out.Body.Data = list
	return out, nil
}

type pemText struct {
	Type string `header:"Content-Type"`
	Body []byte
}

func (s *Server) auditKeys(ctx context.Context, who Identity, _ *struct{}) (*pemText, error) {
	if s.cfg.Audit == nil {
		return nil, absent("audit")
	}
	text, err := s.cfg.Audit.AuditKeys(ctx, who.Principal)
	if err != nil {
		return nil, err
	}
	return &pemText{pemFile, text}, nil
}

type stop struct {
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"400" doc:"Is told to those whose calls are refused."`
		Kill   bool   `json:"kill,omitempty" doc:"End the calls that run; else they may finish."`
	}
}

func (s *Server) stop(ctx context.Context, who Identity, in *stop) (*struct{}, error) {
	if err := who.operator(); err != nil {
		return nil, err
	}
	if in.Body == nil {
		return nil, s.service.Stop(ctx, who.Principal, "", false)
	}
	return nil, s.service.Stop(ctx, who.Principal, in.Body.Reason, in.Body.Kill)
}

func (s *Server) resume(ctx context.Context, who Identity, _ *struct{}) (*struct{}, error) {
	if err := who.operator(); err != nil {
		return nil, err
	}
	return nil, s.service.Resume(ctx, who.Principal)
}

func (s *Server) exportAudit(ctx context.Context, who Identity, _ *struct{}) (*huma.StreamResponse, error) {
	if s.cfg.Audit == nil {
		return nil, absent("audit")
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		out := &lazy{h: h}
		err := s.cfg.Audit.ExportAudit(ctx, who.Principal, out)
		switch {
		case err == nil:
			out.begin()
		case !out.begun:
			s.refuse(h, err)
		default:
			s.fault(ctx, err)
			panic(http.ErrAbortHandler) // half an export must not look like a whole one
		}
	}}, nil
}

// A lazy writer sends headers with the first bytes, so that an error before them
// can still be told.
type lazy struct {
	h     huma.Context
	begun bool
}

func (l *lazy) begin() {
	if !l.begun {
		l.begun = true
		l.h.SetHeader("Content-Type", jsonLines)
		l.h.SetStatus(http.StatusOK)
	}
}

// Write implements [io.Writer].
func (l *lazy) Write(b []byte) (int, error) {
	l.begin()
	return l.h.BodyWriter().Write(b)
}

var _ io.Writer = (*lazy)(nil)
