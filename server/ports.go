package server

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"haft"
	"haft/internal/portproxy"
)

// PortDialer connects to ports of sessions.
type PortDialer interface {
	// DialPort connects to a port of a session of p. The connection ends with ctx.
	DialPort(ctx context.Context, p haft.Principal, id string, port int) (net.Conn, error)
}

// portPath is where the ports of sessions are.
const portPath = "/v1/sessions/{id}/ports/{port}/"

// ports serves what listens in sessions, to their owners.
type ports struct {
	s      *Server
	dialer PortDialer
}

// Action implements [API].
func (ports) Action(*http.Request) haft.Action { return haft.CallsWrite }

// Serve implements [API].
func (p ports) Serve(w http.ResponseWriter, r *http.Request, who Identity) {
	refuse := func(err error) { p.s.errors.fault(r.Context(), err).write(w, requestID(r.Context())) }
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		refuse(&haft.Error{Code: haft.CodeInvalid, Message: "a port is a number from 1 to 65535"})
		return
	}
	ctx, done, err := p.s.streams.begin(r, who)
	if err != nil {
		refuse(err)
		return
	}
	defer done()
	conn, err := p.dialer.DialPort(ctx, who.Principal, r.PathValue("id"), port)
	if err != nil {
		refuse(err)
		return
	}
	defer conn.Close() //nolint:errcheck // it is closed on all paths
	portproxy.Proxy{Conn: conn, Port: port, Hide: isOurs, Param: agentParam,
		Prefix: strings.Join(strings.Split(r.URL.EscapedPath(), "/")[:6], "/"),
		Failed: func(w http.ResponseWriter, r *http.Request) {
			problem(http.StatusBadGateway, "what listens on the port does not answer with HTTP").
				write(w, requestID(r.Context()))
		}}.ServeHTTP(w, r.WithContext(ctx))
}
