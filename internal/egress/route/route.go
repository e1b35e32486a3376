// Package route decides which hosts a call may reach, and has the types of the egress routes that it
// is given: a [Guard] makes them, and a [Judge] holds their connections against the rules of now.
package route

import (
	"context"
	"net"
	"net/http"

	"haft"
	"haft/internal/callenv"
	"haft/internal/secret"
)

// NetworkFull is how a tool asks for every public host. Policy must name it.
const NetworkFull = "full"

// A Guard makes egress routes.
type Guard interface {
	// Open makes the route of one call.
	Open(ctx context.Context, w Request) (*Route, error)
	// Host returns which hosts an entry of a tool's network is about, for policy.
	Host(entry string) (string, error)
}

// A Request is where one call wants to go.
type Request struct {
	Call haft.Call
	// Hosts are what it may reach, as the tool names them.
	Hosts []string
	// Bound are secrets that are put in on the way, the most wanted first.
	Bound []callenv.Bound
	// Forbids returns the rule of the policy by which a host and port may not be
	// reached all the same, or "". It is asked for every connection. Nil forbids nothing.
	Forbids func(host string, port uint16) (rule string)
	// Bytes is how many may be sent, and as many received, in all; 0 means the default.
	Bytes int64
	// Local says that the tool runs in this process: it may send requests
	// to every host that the policy does not forbid, and Hosts and Bound do not count.
	Local bool
	// Record is called for each connection, for what lasts longer than a call. Nil means
	// that the session keeps them until it is closed.
	Record func(Connection)
}

// A Route is a route that was made.
type Route struct {
	Session Session
	// Wrap bounds and records requests of this process; nil unless the request was Local.
	Wrap func(next http.RoundTripper) http.RoundTripper
	// CA has certificates that the call's programs have to trust; nil if none.
	CA []byte
	// Stand is what programs are given instead of bound secrets, by name.
	Stand map[string]string
	// Leased are tokens that bound secrets were exchanged for, and Failed says why
	// that could not be done.
	Leased []secret.Named
	Failed map[string]error
	// Unreached are bound secrets whose hosts are not among those of the route.
	Unreached []string
}

// A Session is the route of one call, and of no other.
type Session interface {
	// Serve serves one connection of the sandbox, and returns when it is over.
	Serve(ctx context.Context, conn net.Conn)
	// Refused reports whether a connection was refused.
	Refused() bool
	// Close ends the session and returns the connections that were made, and the tokens that
	// were fetched for it.
	Close() ([]Connection, []secret.Named)
}

// A Connection is one connection that a call made, or was refused.
type Connection struct {
	// To is where: host and port, and the method where it is known.
	To string `json:"to"`
	// Rule is what allowed it.
	Rule string `json:"rule,omitempty"`
	// Refused says why it was not made, and what to ask for.
	Refused string      `json:"refused,omitempty"`
	Secrets []string    `json:"secrets,omitempty"`
	Up      int64       `json:"up"`
	Down    int64       `json:"down"`
	Took    haft.Millis `json:"took_ms"`
}

// Visit replaces every text of connections by what clean makes of it.
func Visit(connections []Connection, clean func(string) string) {
	for i := range connections {
		x := &connections[i]
		x.To, x.Rule, x.Refused = clean(x.To), clean(x.Rule), clean(x.Refused)
		for j, s := range x.Secrets {
			x.Secrets[j] = clean(s)
		}
	}
}

// Withhold keeps of connections that they were made, with a text instead of all others.
func Withhold(connections []Connection, text string) []Connection {
	out := make([]Connection, len(connections))
	for i, c := range connections {
		out[i] = Connection{To: text, Up: c.Up, Down: c.Down, Took: c.Took}
		if c.Refused != "" {
			out[i].Refused = text
		}
	}
	return out
}
