package e2b

import (
	"net/http"
	"strings"

	"haft"
	"haft/internal/portproxy"
)

// servePort forwards a request to what listens on a port of a sandbox.
func (a *API) servePort(w http.ResponseWriter, r *http.Request, s *sandbox, port int) {
	p, err := a.principal(r.Context(), haft.CallsWrite)
	if err != nil {
		faultOf(err).write(w, s.id)
		return
	}
	ctx, cancel := a.until(r, s, haft.CallsWrite)
	defer cancel()
	conn, err := a.cfg.Ports.DialPort(ctx, p, s.session, port)
	if haft.CodeOf(err) == haft.CodeNotFound {
		if err = a.goneOr(ctx, p, s, err); err != errGone { //nolint:errorlint // it is not wrapped
			err = &fault{status: http.StatusBadGateway, message: "The sandbox is running but port is not open"}
		}
	}
	if err != nil {
		faultOf(err).write(w, s.id)
		return
	}
	defer conn.Close() //nolint:errcheck // it is closed on all paths
	portproxy.Proxy{Conn: conn, Port: port, Hide: func(name string) bool { return strings.HasPrefix(name, "E2b-") },
		Failed: func(w http.ResponseWriter, _ *http.Request) {
			f := &fault{status: http.StatusBadGateway, message: "what listens on the port does not answer with HTTP"}
			f.write(w, s.id)
		}}.ServeHTTP(w, r.WithContext(ctx))
}
