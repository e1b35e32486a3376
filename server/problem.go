package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// A Problem is an error as a caller gets it: problem details of RFC 9457 with our
// code. Detail and Misfits never hold a value that was sent.
type Problem struct {
	Type   string    `json:"type" doc:"Names the kind of problem: urn:haft:error: and the code."`
	Title  string    `json:"title" doc:"The kind of problem in words."`
	Status int       `json:"status" doc:"The HTTP status."`
	Detail string    `json:"detail,omitempty" doc:"What is wrong and what can be done."`
	Code   haft.Code `json:"code" doc:"What a program decides by."`
	// Misfits say where the request does not fit.
	Misfits []haft.Misfit `json:"misfits,omitempty" doc:"Where the request does not fit, by JSON Pointer."`
	// RetryAfter is how long to wait before trying again, if that can help.
	RetryAfter haft.Millis `json:"retry_after_ms,omitempty" doc:"How long to wait before trying again."`
	Request    string      `json:"request_id,omitempty" doc:"The id of the request, which the log of the server has."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

// problemType is the media type of problems.
const problemType = "application/problem+json"

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if wait := haft.RetrySeconds(p.RetryAfter); wait != "" {
		h.Set("Retry-After", wait)
	}
	if p.Status == http.StatusUnauthorized {
		h.Add("WWW-Authenticate", `Bearer realm="haft"`)
		h.Add("WWW-Authenticate", `HAFT-HMAC-SHA256 realm="haft"`)
	}
	return h
}

// statuses are the statuses of codes. A request that cannot be read at all has 400, not
// 422, although its code is the same.
var statuses = map[haft.Code]int{
	haft.CodeInvalid:         http.StatusUnprocessableEntity,
	haft.CodeUnauthenticated: http.StatusUnauthorized,
	haft.CodeDenied:          http.StatusForbidden,
	haft.CodeNotFound:        http.StatusNotFound,
	haft.CodeConflict:        http.StatusConflict,
	haft.CodeRateLimited:     http.StatusTooManyRequests,
	haft.CodeUnavailable:     http.StatusServiceUnavailable,
}

// StatusOf returns the status of a code.
func StatusOf(code haft.Code) int { return cmp.Or(statuses[code], http.StatusInternalServerError) }

// resultStatus returns the status of an answer with a result, and how long to wait before
// the same call. It is 200 however the tool ended, except for a call that was refused:
// proxies and clients know 403 and 429, and not our status.
func resultStatus(res *haft.Result) (status int, wait haft.Millis) {
	switch {
	case !res.Status.Final():
		return http.StatusAccepted, 0
	case res.Status == haft.StatusDenied:
		return StatusOf(haft.CodeDenied), 0
	case res.Status == haft.StatusRate:
		e := &haft.Error{Code: haft.CodeRateLimited}
		if res.Error != nil {
			e.RetryAfter = res.Error.RetryAfter
		}
		return StatusOf(e.Code), haft.RetryAfterOf(e)
	}
	return http.StatusOK, 0
}

// codeOf returns the code of a status that the library or this package chose.
func codeOf(status int) haft.Code {
	for _, c := range haft.Codes() {
		if StatusOf(c) == status {
			return c
		}
	}
	switch {
	case status == http.StatusPreconditionFailed:
		return haft.CodeConflict
	case status >= 500:
		return haft.CodeInternal
	}
	return haft.CodeInvalid
}

// problem makes a problem with a status of its own.
func problem(status int, detail string) *Problem {
	code := codeOf(status)
	return &Problem{
		Type: "urn:haft:error:" + string(code), Title: http.StatusText(status), Status: status,
		Detail: detail, Code: code, RetryAfter: haft.RetryAfterOf(&haft.Error{Code: code}),
	}
}

// maxMisfits bounds how many misfits are sent.
const maxMisfits = 50

// problemOf converts any error to a problem. Only the text of a [*haft.Error] is sent.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem(http.StatusServiceUnavailable, "the request ended before there was an answer")
	}
	p := problem(StatusOf(haft.CodeOf(err)), haft.MessageOf(err))
	if e, ok := errors.AsType[*haft.Error](err); ok {
		p.Misfits, p.RetryAfter = e.Misfits[:min(len(e.Misfits), maxMisfits)], haft.RetryAfterOf(err)
	}
	return p
}

// write sends a problem where the library cannot.
func (p *Problem) write(w http.ResponseWriter, id string) {
	h := w.Header()
	for k, values := range p.GetHeaders() {
		h[k] = values
	}
	h.Set("Content-Type", problemType)
	sent := *p
	sent.Request = id
	// net/http reads the rest of a body before it answers, and would wait for one that never
	// comes. The call fails for a recorder in a test, which is fine.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	w.WriteHeader(p.Status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // as the library's answers are
	_ = e.Encode(&sent)    // fails if the client is gone
}

// ownErrors replaces the errors of the library, which repeat what was sent.
func ownErrors(ctx huma.Context, _ string, v any) (any, error) {
	switch e := v.(type) {
	case *huma.ErrorModel:
		p := problem(e.Status, cmp.Or(details[e.Status], "internal error"))
		for _, d := range e.Errors {
			if m, ok := misfit(d); ok && len(p.Misfits) < maxMisfits {
				p.Misfits = append(p.Misfits, m)
			}
		}
		v = p
	case *Problem:
	default:
		return v, nil
	}
	sent := *v.(*Problem)
	sent.Request = requestID(ctx.Context())
	return &sent, nil
}

// details say what the library found, in our words.
var details = map[int]string{
	http.StatusBadRequest:            "the body cannot be read as JSON, or is missing",
	http.StatusUnprocessableEntity:   "the request does not fit",
	http.StatusUnsupportedMediaType:  "the body must be application/json",
	http.StatusRequestEntityTooLarge: "the body is too large",
	http.StatusNotAcceptable:         "the answer is application/json",
}

// safePrefixes are the beginnings of messages of the library that contain nothing of what
// was sent.
var safePrefixes = []string{
	"expected ", "unexpected property", "required ", "invalid integer", "invalid float", "invalid boolean",
	"unknown query parameter",
}

// quotingPrefixes are those of them that contain an error of a parser, which quotes its
// input.
var quotingPrefixes = []string{"expected duration", "expected string to be RFC 5322", "expected string to be RFC 3986",
	"expected string to be RFC 4122", "expected string to be regex"}

// misfit converts an error of the library. It drops the value, and the message if that may
// contain it.
func misfit(d *huma.ErrorDetail) (haft.Misfit, bool) {
	if d == nil {
		return haft.Misfit{}, false
	}
	begins := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(d.Message, s) })
	}
	m := haft.Misfit{Message: doesNotFit}
	if begins(safePrefixes) && !begins(quotingPrefixes) {
		m.Message = d.Message
	}
	where, rest, _ := strings.Cut(d.Location, ".")
	switch where {
	case "body":
		m.Pointer = pointer(rest)
	case "query", "path", "header":
		rest, _, _ = strings.Cut(rest, "[") // which of a list it is says little
		if !isPlainName(rest) {
			rest = "a parameter"
		}
		m.Message = where + " parameter " + rest + ": " + m.Message
	}
	return m, m.Message != doesNotFit || m.Pointer != ""
}

// doesNotFit is the message for a place whose content may not be repeated.
const doesNotFit = "does not fit"

// isPlainName reports whether a name can be one of Haft's and not text of a client.
func isPlainName(name string) bool {
	return len(name) <= 40 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-'
	})
}

// pointer converts a[0].b to /a/0/b.
func pointer(path string) string {
	if path == "" {
		return ""
	}
	path = strings.NewReplacer("~", "~0", "/", "~1", "[", ".", "]", "").Replace(path)
	path = strings.TrimPrefix(path[:min(len(path), 200)], ".")
	return "/" + strings.ReplaceAll(path, ".", "/")
}
