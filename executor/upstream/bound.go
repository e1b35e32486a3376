package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"haft"
	"haft/internal/secret"
)

// checkBound refuses credentials of which a part is bound to other places than those
// that the server is at. It is asked before anything is sent, so that the reason can be
// said; whether a request gets a credential is decided by [headers.RoundTrip].
func (p *Pool) checkBound(w wanted) error {
	for name, f := range w.env {
		for _, b := range f.bound {
			return astray("the variable", name, b,
				"and never to a program: a server that is a command needs one that is not bound")
		}
	}
	if len(w.headers) == 0 {
		return nil
	}
	u, err := url.Parse(w.server.URL)
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the address of the server cannot be read", Err: err}
	}
	for name, f := range w.headers {
		for _, b := range f.bound {
			switch {
			case b.Bound.OAuth != nil:
				return astray("the header", name, b, "in exchange for tokens: log in at the server instead")
			case b.Bound.Query != "" || b.Bound.Basic != "" ||
				b.Bound.Header != "" && !strings.EqualFold(b.Bound.Header, name):
				return astray("the header", name, b, "in another place of the request than this header")
			case !p.fits(b, http.MethodPost, u) && !p.fits(b, http.MethodGet, u):
				return astray("the header", name, b,
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

// astray is for a secret that is not sent where it does not belong.
func astray(what, name string, v secret.Named, why string) error {
	return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf(
		"%s %s of the server needs the secret %s, which goes to %s %s", what, name, v.Name,
		strings.Join(v.Bound.Hosts, ", "), why)}
}
