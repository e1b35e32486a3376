package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/internal/pause"
)

// A query is one request to the server.
type query struct {
	method string // empty means GET
	path   string // of a collection, such as /v1/tools
	item   *item  // one object of the collection
	values url.Values
	as     haft.Principal
	body   any    // to be sent as JSON
	yaml   []byte // or as it is
	raw    []byte // or as it is, of the type in header
	header http.Header
	again  bool // does no harm twice, besides GET
	result bool // is answered with the result of a call, also with 403 and 429
}

// An item names an object in a path.
type item struct {
	kind string // for an error
	id   string
	rest string // what follows the id in the path, such as /cancel
}

// target returns the escaped path. An id that would lead to another path names nothing that exists.
func (q query) target() (string, error) {
	if q.item == nil {
		return q.path, nil
	}
	id := q.item.id
	if id == "" || id == "." || id == ".." || strings.ContainsRune(id, 0) {
		return "", &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + q.item.kind}
	}
	return q.path + "/" + url.PathEscape(id) + q.item.rest, nil
}

// params makes parameters of names and values, which alternate. An empty value is left out.
func params(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// instant writes a time as a parameter; zero is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// yes writes a boolean as a parameter: text if it is true, and else "".
func yes(b bool, text string) string {
	if b {
		return text
	}
	return ""
}

// either writes a boolean that may be left open as a parameter.
func either(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// commas joins texts by commas.
func commas[T ~string](list []T) string {
	var b strings.Builder
	for i, v := range list {
		b.WriteString(yes(i > 0, ",") + string(v))
	}
	return b.String()
}

// get sends a request whose answer is one object.
func get[T any](ctx context.Context, t *transport, q query) (*T, error) {
	out := new(T)
	if err := t.read(ctx, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// match returns the headers of a conditional write; "" means no condition. A revision never has
// a character that would end an entity tag, so quoting cannot change a valid one.
func match(revision string) http.Header {
	switch revision {
	case "":
		return nil
	case haft.IfNone:
		return http.Header{"If-None-Match": {"*"}}
	}
	return http.Header{"If-Match": {strconv.QuoteToASCII(revision)}}
}

// repeatable reports whether a request may be sent twice.
func (q query) repeatable() bool {
	return q.again || q.method == "" || q.method == http.MethodGet
}

// read sends a request and reads the answer into out, which may be nil.
func (t *transport) read(ctx context.Context, q query, out any) error {
	res, err := t.send(ctx, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, t.cfg.MaxAnswer+1))
	switch {
	case err != nil:
		return t.noAnswer(ctx, q, err)
	case int64(len(raw)) > t.cfg.MaxAnswer:
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: fmt.Sprintf("the answer of the server has more than %d bytes", t.cfg.MaxAnswer)}
	case out == nil:
		return nil
	}
	if to, ok := out.(*[]byte); ok {
		*to = raw
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "the answer is not one of a Haft server of this version", Err: err}
	}
	return nil
}

// copy writes the whole of an answer.
func (t *transport) copy(ctx context.Context, q query, w io.Writer) error {
	res, err := t.send(ctx, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("export: %w", context.Cause(ctx))
		}
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the export is not whole", Err: err}
	}
	return nil
}

// send sends a request, again where that is allowed and may help, and returns an
// answer that is not a refusal. The caller closes its body.
func (t *transport) send(ctx context.Context, q query) (*http.Response, error) {
	at, err := q.target()
	if err != nil {
		return nil, err
	}
	agent, err := t.as(ctx, q.as)
	if err != nil {
		return nil, err
	}
	body := q.yaml
	if q.raw != nil {
		body = q.raw
	}
	if q.body != nil {
		if body, err = json.Marshal(q.body); err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "what is to be sent is not JSON", Err: err}
		}
	}
	for try := 1; ; try++ {
		res, err := t.once(ctx, q, at, agent, body)
		if err == nil {
			return res, nil
		}
		wait, more := t.cfg.Retry.Wait(try, rand.Float64())
		if !more || !q.repeatable() || haft.CodeOf(err) != haft.CodeUnavailable || ctx.Err() != nil {
			return nil, err
		}
		if e, ok := errors.AsType[*haft.Error](err); ok && e.RetryAfter > 0 {
			if wait = e.RetryAfter.D(); wait > t.cfg.Retry.Max.D() {
				return nil, err // longer than we are to wait
			}
		}
		if pause.For(ctx, wait) != nil {
			return nil, err
		}
	}
}

// once sends a request one time to an escaped path.
func (t *transport) once(ctx context.Context, q query, at, agent string, body []byte) (*http.Response, error) {
	u := *t.base
	target, err := url.ParseRequestURI(t.base.EscapedPath() + at)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "this cannot be part of an address", Err: err}
	}
	u.Path, u.RawPath = target.Path, target.RawPath
	values := params("as", agent)
	maps.Copy(values, q.values)
	u.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.method, http.MethodGet), u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "this request cannot be sent", Err: err}
	}
	maps.Copy(req.Header, q.header)
	req.Header.Set("User-Agent", t.cfg.Name)
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	} else if q.yaml != nil {
		req.Header.Set("Content-Type", "application/yaml")
	}
	switch key := t.key(); {
	case t.cfg.Sign:
		if err := auth.Sign(req, key); err != nil {
			return nil, err
		}
	case key != "":
		req.Header.Set("Authorization", auth.SchemeBearer+" "+key)
	}
	res, err := t.http.Do(req)
	if err != nil {
		return nil, t.noAnswer(ctx, q, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	refused := res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusForbidden
	if q.result && refused && mediaType(res) == "application/json" {
		return res, nil // the result of the call says why
	}
	defer res.Body.Close()
	return nil, t.refused(ctx, q, res)
}

// A dialError says that [Config.Dial] failed.
type dialError struct{ error }

// Unwrap returns why.
func (e *dialError) Unwrap() error { return e.error }

// noAnswer is the error of a request without an answer.
func (t *transport) noAnswer(ctx context.Context, q query, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the server: %w", context.Cause(ctx))
	}
	if failed, ok := errors.AsType[*dialError](err); ok {
		if e, ok := errors.AsType[*haft.Error](failed.error); ok {
			return e
		}
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the server cannot be reached", Err: failed.error}
	}
	// What went wrong is for the person who runs the client: it names addresses.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the server cannot be reached", Err: err}
	}
	if q.repeatable() {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the server did not answer", Err: err}
	}
	return &haft.Error{Code: haft.CodeUnavailable,
		Message: "the connection to the server ended before the answer, and whether it was done is not known",
		Err:     errors.Join(ErrMaybeDone, err)}
}

// The bounds on what is read of a refusal.
const (
	maxProblem = 1 << 20
	maxDetail  = 4 << 10
	maxMisfits = 100
)

// A problem is what the server says is wrong.
type problem struct {
	Code       haft.Code     `json:"code"`
	Detail     string        `json:"detail"`
	Misfits    []haft.Misfit `json:"misfits"`
	RetryAfter haft.Millis   `json:"retry_after_ms"`
}

// mediaType is the media type of an answer, or "".
func mediaType(res *http.Response) string {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// refused returns the error of an answer that is a refusal.
func (t *transport) refused(ctx context.Context, q query, res *http.Response) error {
	var p problem
	if mediaType(res) == "application/problem+json" {
		raw, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
		if err != nil {
			return t.noAnswer(ctx, q, err)
		}
		if json.Unmarshal(raw, &p) != nil {
			p = problem{}
		}
	}
	if !slices.Contains(haft.Codes(), p.Code) {
		p = problem{Code: codeOf(res.StatusCode), Detail: foreignDetail(res.StatusCode)}
	}
	e := &haft.Error{Code: p.Code, Message: p.Detail[:min(len(p.Detail), maxDetail)],
		Misfits: p.Misfits[:min(len(p.Misfits), maxMisfits)], RetryAfter: p.RetryAfter}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1e6 &&
		e.RetryAfter == 0 {
		e.RetryAfter = haft.Millis(time.Duration(seconds) * time.Second)
	}
	if id := res.Header.Get("X-Request-Id"); id != "" && e.Code == haft.CodeInternal {
		e.Err = fmt.Errorf("the server's log has it as request %q", id[:min(len(id), 64)])
	}
	return e
}

// codeOf is the code of a status that no Haft server explains, such as that of a proxy.
func codeOf(status int) haft.Code {
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return haft.CodeUnauthenticated
	case http.StatusForbidden:
		return haft.CodeDenied
	case http.StatusNotFound:
		return haft.CodeNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return haft.CodeConflict
	case http.StatusTooManyRequests:
		return haft.CodeRateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return haft.CodeUnavailable
	case http.StatusInternalServerError:
		return haft.CodeInternal
	}
	if status >= 400 && status < 500 {
		return haft.CodeInvalid
	}
	return haft.CodeUnavailable
}

// foreignDetail explains a status that no Haft server explains.
func foreignDetail(status int) string {
	if status >= 300 && status < 400 {
		return "the server sends elsewhere, which is not followed: give its last address"
	}
	return fmt.Sprintf("the answer is %d and not one of a Haft server: look whether the address is right", status)
}
