package apimock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/template"
	"time"

	"haft/internal/egress"
)

// A compiled answer can be sent.
type compiled struct {
	Answer
	body     []byte
	template *template.Template // nil if the body is fixed
}

// compile checks an answer and reads its template.
func (a Answer) compile() (*compiled, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	c := &compiled{Answer: a, body: []byte(a.Body)}
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	switch {
	case len(a.JSON) > 0:
		c.body = a.JSON
	case len(a.Base64) > 0:
		c.body = a.Base64
	}
	if !a.Template {
		return c, nil
	}
	var err error
	c.template, err = parseTemplate(string(c.body))
	return c, err
}

// send makes the response to a request, the n-th of its rule, after the delay of the answer.
func (c *compiled) send(ctx context.Context, s Seen, n int) (*http.Response, error) {
	if c.Delay > 0 {
		timer := time.NewTimer(time.Duration(c.Delay))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c.Cut == CutBeforeHeaders {
		return nil, egress.ErrCut
	}
	body := c.body
	if c.template != nil {
		var err error
		if body, err = fill(c.template, s, n); err != nil {
			return nil, err
		}
	}
	if c.Malformed {
		body = body[:len(body)/2]
	}
	h := http.Header{}
	for name, values := range c.Headers {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	if len(c.JSON) > 0 && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	resp := response(c.Status, h, body)
	switch c.Cut {
	case CutAfterHeaders:
		cutAt(resp, 0)
	case CutInBody:
		cutAt(resp, len(body)/2)
	}
	return resp, nil
}

// response makes a response.
func response(status int, h http.Header, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body))}
}

// cutAt ends the body of a response with an error after n bytes. A body that is empty is said to be longer.
func cutAt(resp *http.Response, n int) {
	resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, int64(n)), cut{}))
	resp.ContentLength = max(resp.ContentLength, 1)
}

// cut is a reader that ends the connection.
type cut struct{}

// Read implements [io.Reader].
func (cut) Read([]byte) (int, error) { return 0, egress.ErrCut }

// limiter counts the requests of a rule for one value of its header.
type limiter struct {
	answered int         // requests that got one of the answers
	recent   []time.Time // of requests within the rate
}

// take returns how long to wait if there were too many requests, and counts this one otherwise.
func (l *limiter) take(r rate, now time.Time) time.Duration {
	if r.count == 0 {
		return 0
	}
	if len(l.recent) >= r.count {
		if wait := l.recent[len(l.recent)-r.count].Add(r.window).Sub(now); wait > 0 {
			return wait
		}
		l.recent = l.recent[len(l.recent)-r.count+1:]
	}
	l.recent = append(l.recent, now)
	return 0
}

// tooMany is the answer to a request beyond the rate of its rule.
func tooMany(wait time.Duration) *http.Response {
	seconds := int64((wait + time.Second - 1) / time.Second)
	h := http.Header{"Content-Type": {"application/json"}, "Retry-After": {strconv.FormatInt(max(seconds, 1), 10)}}
	return response(http.StatusTooManyRequests, h,
		fmt.Appendf(nil, `{"error": "too many requests", "retry_after": %d}`, max(seconds, 1)))
}

// StatusUnexpected is the status of the answer to a request that no rule is for.
const StatusUnexpected = 599

// unexpected is the answer to a request that no rule is for.
func unexpected(message string) *http.Response {
	h := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Haft-Mock": {"unexpected"}}
	resp := response(StatusUnexpected, h, []byte("haft test: "+message+"\n"))
	resp.Status = "599 Unexpected Request"
	return resp
}

// isCut reports whether an answer is the end of the connection, as the rule says.
func isCut(err error) bool { return errors.Is(err, egress.ErrCut) }
