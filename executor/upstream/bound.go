package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"haft"
	"haft/internal/secret"
)

// checkBound refuses credentials with a secret that is bound to other hosts than the
// server's. It runs before anything is sent, so that the caller gets the reason; whether
// a request gets a credential is decided by [headersTransport.RoundTrip].
func (p *Pool) checkBound(to target) error {
	for name, v := range to.env {
		for _, b := range v.bound {
			return misplaced("the variable", name, b,
				"and never to a program: a server that is a command needs one that is not bound")
		}
	}
	if len(to.headers) == 0 {
		return nil
	}
	u, err := url.Parse(to.server.URL)
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the address of the server cannot be read", Err: err}
	}
	for name, v := range to.headers {
		for _, b := range v.bound {
			switch {
			case b.Bound.OAuth != nil:
				return misplaced("the header", name, b, "in exchange for tokens: log in at the server instead")
			case b.Bound.Query != "" || b.Bound.Basic != "" ||
				b.Bound.Header != "" && !strings.EqualFold(b.Bound.Header, name):
				return misplaced("the header", name, b, "in another place of the request than this header")
			case !p.fits(b, http.MethodPost, u) && !p.fits(b, http.MethodGet, u):
				return misplaced("the header", name, b,
					"and nowhere else, which the address of the server is not among: bind it to that host too, or "+
						"use another secret")
			}
		}
	}
	return nil
}

// fits reports whether a bound secret may go into a request.
func (p *Pool) fits(v secret.Named, method string, to *url.URL) bool {
	return p.cfg.Fits != nil && p.cfg.Fits(v.Bound, method, to)
}

// misplaced is the error for a secret that is bound to another place.
func misplaced(what, name string, v secret.Named, why string) error {
	return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf(
		"%s %s of the server needs the secret %s, which goes to %s %s", what, name, v.Name,
		strings.Join(v.Bound.Hosts, ", "), why)}
}
