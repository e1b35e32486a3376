package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// auditHandlers serve the operations on the audit log.
type auditHandlers struct {
	audit  Audit
	agents haft.Agents
	errors errorWriter
}

// audit registers the operations on the audit log.
func (a *api) audit() {
	h := auditHandlers{a.s.cfg.Audit, a.s.service, a.s.errors}
	g := a.group("operation", haft.AuditRead, haft.AuditRead).needs(h.audit != nil, "audit")
	register(g.op("GET /v1/audit", "export-audit", "Export the audit of the organisation as JSON lines").
		about("`haft audit verify-file` proves it on any machine. With a filter there is one entry on each line, "+
			"and nothing to prove it by.").writes(textContent(jsonLines)), h.exportAudit)
	register(g.op("GET /v1/audit/entries", "list-audit", "List entries of the audit, newest first").
		about("Entries are listed by their numbers; with a filter, by their times. A page may have few entries, or "+
			"none, and a next_cursor: then there is more to look at."), h.auditEntries)
	register(g.op("GET /v1/audit/keys", "audit-keys", "Show the public keys that prove an export of the audit").
		writes(textContent(pemFile)), h.auditKeys)
}

// The media types of answers that are not JSON.
const (
	jsonLines = "application/jsonl"
	pemFile   = "application/pem-certificate-chain" // RFC 8555; there is none for keys alone
)

// AuditQuery selects entries of the audit.
type AuditQuery struct {
	Kind  string      `query:"kind" maxLength:"100" doc:"What happened, such as call.refused."`
	User  string      `query:"user" maxLength:"200" doc:"Who did it."`
	Agent string      `query:"agent" maxLength:"200" doc:"The name or id of the agent that did it."`
	Tool  string      `query:"tool" maxLength:"200"`
	Call  haft.CallID `query:"call" maxLength:"200"`
	Since time.Time   `query:"since" doc:"Not before that time."`
	Until time.Time   `query:"until" doc:"Before that time."`
	Sort  string      `query:"sort" enum:"-time,time" default:"-time" doc:"Newest or oldest first."`
}

// auditFilter makes a filter of a query.
func (h auditHandlers) auditFilter(ctx context.Context, who Identity, q AuditQuery) haft.AuditFilter {
	return haft.AuditFilter{Kind: q.Kind, User: q.User, Agent: agentID(ctx, h.agents, who, q.Agent), Tool: q.Tool,
		Call: q.Call, Since: q.Since, Until: q.Until, Oldest: q.Sort == "time"}
}

type auditEntries struct {
	Paging
	AuditQuery
}

type entries struct {
	Link string `header:"Link"`
	Body struct {
		Data any    `json:"data"`
		Next string `json:"next_cursor,omitempty" doc:"Goes into cursor of the next request. Without it this is the last page."`
	}
}

func (h auditHandlers) auditEntries(ctx context.Context, who Identity, in *auditEntries) (*entries, error) {
	at, err := in.at("audit")
	if err != nil {
		return nil, err
	}
	rest, when, err := splitTime(at, time.Time{})
	if err != nil {
		return nil, err
	}
	after := haft.AuditPlace{Time: when}
	if at != "" {
		if after.Seq, err = strconv.ParseInt(rest, 10, 64); err != nil {
			return nil, errCursor(err)
		}
	}
	f := h.auditFilter(ctx, who, in.AuditQuery)
	f.Limit = in.Limit
	list, next, err := h.audit.AuditEntries(ctx, who.Principal, f, after)
	if err != nil {
		return nil, err
	}
	out := &entries{}
	out.Body.Data = list
	if next != nil {
		out.Body.Next = cursor("audit", fmt.Sprintf("%d.%d", next.Time.UnixMicro(), next.Seq))
		out.Link = in.next(out.Body.Next)
	}
	return out, nil
}

type pemText struct {
	Type string `header:"Content-Type"`
	Body []byte
}

func (h auditHandlers) auditKeys(ctx context.Context, who Identity, _ *struct{}) (*pemText, error) {
	text, err := h.audit.AuditKeys(ctx, who.Principal)
	if err != nil {
		return nil, err
	}
	return &pemText{pemFile, text}, nil
}

func (h auditHandlers) exportAudit(ctx context.Context, who Identity, in *AuditQuery) (*huma.StreamResponse, error) {
	f := h.auditFilter(ctx, who, *in)
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		h.errors.streamTo(ctx, hc, func(out *lazyWriter) error {
			return h.audit.ExportAudit(ctx, who.Principal, f, out)
		})
	}}, nil
}

// streamTo answers with the bytes that write writes.
func (e errorWriter) streamTo(ctx context.Context, h huma.Context, write func(*lazyWriter) error) {
	out := &lazyWriter{h: h}
	err := write(out)
	switch {
	case err == nil:
		out.begin()
	case !out.begun:
		e.refuse(h, err)
	default:
		_ = e.fault(ctx, err)       // it is in the log; the answer has begun
		panic(http.ErrAbortHandler) // half an export must not look like a whole one
	}
}

// lazyWriter sends the headers with the first bytes, so that an error before them can
// still be answered.
type lazyWriter struct {
	h     huma.Context
	begun bool
}

func (l *lazyWriter) begin() {
	if !l.begun {
		l.begun = true
		l.h.SetHeader("Content-Type", jsonLines)
		l.h.SetStatus(http.StatusOK)
	}
}

// Write implements [io.Writer].
func (l *lazyWriter) Write(b []byte) (int, error) {
	l.begin()
	return l.h.BodyWriter().Write(b)
}

var _ io.Writer = (*lazyWriter)(nil)

// textContent describes an answer that is text of a media type.
func textContent(mediaType string) mediaTypes {
	return mediaTypes{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}}
}
