package egress

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"haft"
	"haft/internal/secret"
)

// FromBinding converts a binding to a secret of the broker, without its value.
func FromBinding(name string, b *secret.Binding) (Secret, error) {
	hosts, err := ParseBinding(b.Hosts)
	if err != nil {
		return Secret{}, err
	}
	return Secret{Name: name, Hosts: hosts,
		Place: Place{Header: b.Header, Prefix: b.Prefix, Query: b.Query, Basic: b.Basic}}, nil
}

// FitsBinding reports whether a secret with this binding may go into a request. The rules
// are those for requests that leave a sandbox.
func FitsBinding(b *secret.Binding, method string, to *url.URL) bool {
	s, err := FromBinding("", b)
	if err != nil {
		return false
	}
	scheme, port := HTTPS, uint64(443)
	if to.Scheme == "http" {
		scheme, port = HTTP, 80
	}
	if text := to.Port(); text != "" {
		if port, err = strconv.ParseUint(text, 10, 16); err != nil {
			return false
		}
	}
	if method == "" {
		method = http.MethodGet
	}
	path := to.EscapedPath()
	if path == "" {
		path = "/"
	}
	_, ok := s.Hosts.Allows(Dest{Host: to.Hostname(), Port: uint16(port), Scheme: scheme, Method: method,
		Path: path})
	return ok
}

// ForbidBy converts a function that names the rule against a destination, or "", to one that
// returns refusals. Nil forbids nothing.
func ForbidBy(forbids func(host string, port uint16) string) func(string, uint16) *Refusal {
	if forbids == nil {
		return nil
	}
	return func(host string, port uint16) *Refusal {
		if rule := forbids(host, port); rule != "" {
			return NotByPolicy(rule, host, port)
		}
		return nil
	}
}

// scopeKey is the key of the scope in a context.
type scopeKey struct{}

// Context returns a context for requests by [ByScope] within the scope.
func (s Scope) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ByScope returns a transport that sends requests within the scope of their context. It
// refuses requests without a scope.
func ByScope(next http.RoundTripper) http.RoundTripper { return byScope{next} }

// byScope is the transport of [ByScope].
type byScope struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b byScope) RoundTrip(req *http.Request) (*http.Response, error) {
	scope, ok := req.Context().Value(scopeKey{}).(Scope)
	if !ok {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the request belongs to no call"}
	}
	return scope.Wrap(b.next).RoundTrip(req)
}
