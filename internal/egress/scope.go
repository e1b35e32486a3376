package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Scope bounds and records the requests that this process itself sends for a built-in tool or
// to an MCP server. The [Guard] below it decides which addresses can be reached at all.
type Scope struct {
	// Forbid returns why a destination may not be reached, or nil. It is asked before
	// each request, also of redirects. Nil forbids nothing.
	Forbid func(host string, port uint16) *Refusal
	// Record is called with each request when its answer was read or given up, from several
	// goroutines at once. It may be nil.
	Record func(Connection)
	// Begun is called with a request when its answer begins, for answers that last. The
	// connection has neither status nor size yet. It may be nil.
	Begun func(Connection)
	// Caller is whose requests these are, for the mock of a guard.
	Caller Caller
}

// Wrap returns a transport that sends by next what the scope allows.
func (s Scope) Wrap(next http.RoundTripper) http.RoundTripper { return &scoped{s, next} }

// scoped is a transport within a scope.
type scoped struct {
	Scope
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (s *scoped) RoundTrip(req *http.Request) (*http.Response, error) {
	c := Connection{Time: time.Now(), Via: "client", Scheme: req.URL.Scheme, Method: req.Method, Outcome: OutcomeFailed}
	host, port, err := splitAuthority(req.URL.Host, req.URL.Scheme)
	if c.Host, c.Port = host, port; err != nil {
		c.Host = printable(req.URL.Host)
		return nil, s.refused(c, req, &Refusal{Rule: RuleName, Reason: err.Error()})
	}
	if s.Forbid != nil {
		if r := s.Forbid(host, port); r != nil {
			return nil, s.refused(c, req, r)
		}
	}
	if s.Caller.Call != "" {
		req = req.WithContext(context.WithValue(req.Context(), callerKey{}, s.Caller))
	}
	sent := &counted{}
	if req.Body != nil && req.Body != http.NoBody {
		req = req.Clone(req.Context())
		sent.ReadCloser = req.Body
		req.Body = sent
	}
	resp, err := s.next.RoundTrip(req)
	if err != nil {
		c.Up, c.Duration = sent.n.Load(), time.Since(c.Time)
		if r, _ := refusalOf(err); r != nil && r.Rule != RuleProtocol {
			c.Outcome, c.Refusal = OutcomeRefused, r
		}
		s.record(c)
		return nil, err
	}
	c.Status, c.Outcome = resp.StatusCode, OutcomeOK
	if s.Begun != nil {
		s.Begun(c)
	}
	got := &counted{ReadCloser: resp.Body}
	got.end = sync.OnceFunc(func() {
		c.Up, c.Down, c.Duration = sent.n.Load(), got.n.Load(), time.Since(c.Time)
		s.record(c)
	})
	resp.Body = got
	if w, ok := got.ReadCloser.(io.Writer); ok { // a connection that changed its protocol
		resp.Body = struct {
			*counted
			io.Writer
		}{got, w}
	}
	return resp, nil
}

// refused records a refusal.
func (s *scoped) refused(c Connection, req *http.Request, r *Refusal) error {
	if req.Body != nil {
		req.Body.Close()
	}
	if r.Host == "" {
		r.Host, r.Port = c.Host, c.Port
	}
	c.Outcome, c.Refusal = OutcomeRefused, r
	s.record(c)
	return r.err()
}

// record hands a record over.
func (s *scoped) record(c Connection) {
	if s.Record != nil {
		s.Record(c)
	}
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (s *scoped) CloseIdleConnections() {
	if c, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// counted is a body whose bytes are counted. It calls end at its end.
type counted struct {
	io.ReadCloser
	n   atomic.Int64
	end func() // may be called twice; nil if nothing is recorded
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	if err != nil && c.end != nil {
		c.end()
	}
	return n, err
}

// Close implements [io.Closer].
func (c *counted) Close() error {
	err := c.ReadCloser.Close()
	if c.end != nil {
		c.end()
	}
	return err
}

// NotByPolicy is the refusal of a destination by a rule of a policy, which is named.
func NotByPolicy(rule, host string, port uint16) *Refusal {
	to := suggest(Dest{Host: host, Port: port, Scheme: HTTPS})
	if port == 80 {
		to = strings.TrimSuffix(to, ":80")
	}
	return &Refusal{Host: host, Port: port, Rule: RulePolicy,
		Reason: fmt.Sprintf("the rule %s of the policy does not let %s be reached on port %d", rule, host, port),
		Ask:    fmt.Sprintf("if it should be, ask whoever writes the policy to add %q to the network of that rule", to)}
}
