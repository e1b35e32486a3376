package route

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"haft"
	"haft/policy"
)

// A Judge holds connections against the rules about the network. A review of permissions replaces
// the rules by those of now, so that they hold for the next connection of a running call.
type Judge struct {
	networks atomic.Pointer[[]policy.Network]
	mu       sync.Mutex
	seen     int64 // how many changes there were before the rules were read; guarded by mu
}

// Follow has the judge hold connections against these rules, and returns those of before.
// The call itself and a review may both decide about it: rules that were read before those
// that the judge has change nothing.
func (j *Judge) Follow(networks []policy.Network, seen int64) (was []policy.Network) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.networks.Load(); old != nil {
		was = *old
	}
	if seen >= j.seen {
		j.networks.Store(&networks)
		j.seen = seen
	}
	return was
}

// Forbids is [Request.Forbids].
func (j *Judge) Forbids(host string, port uint16) (rule string) {
	return policy.Forbids(*j.networks.Load(), host, port)
}

// A Local is the route of a built-in tool. It is made when the tool first wants
// it, since most do not. All methods but Wrap may be called on nil.
type Local struct {
	Judge Judge

	ctx    context.Context //nolint:containedctx // of the session, which outlives the calls of its methods
	guard  Guard
	call   haft.Call
	logger *slog.Logger

	mu   sync.Mutex
	exit *Route
	over bool
}

// NewLocal makes a route that opens with ctx.
func NewLocal(ctx context.Context, guard Guard, call haft.Call, logger *slog.Logger) *Local {
	return &Local{ctx: ctx, guard: guard, call: call, logger: logger}
}

// Wrap returns a transport that sends requests over the route. Without one, it refuses them.
func (l *Local) Wrap(next http.RoundTripper) http.RoundTripper {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit == nil && !l.over {
		exit, err := l.guard.Open(l.ctx, Request{Call: l.call, Forbids: l.Judge.Forbids, Local: true})
		if err != nil {
			l.logger.Error("the network of a built-in tool cannot be given", "call", l.call.ID, "error", err)
			return closedRoute{}
		}
		l.exit = exit
	}
	if l.over {
		return closedRoute{}
	}
	return l.exit.Wrap(next)
}

// Opened reports whether the tool has asked for the route.
func (l *Local) Opened() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exit != nil
}

// Refused reports whether a request was refused.
func (l *Local) Refused() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exit != nil && l.exit.Session.Refused()
}

// Close ends the session and returns its connections.
func (l *Local) Close() []Connection {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = true; l.exit == nil {
		return nil
	}
	connections, _ := l.exit.Session.Close()
	return connections
}

// A closedRoute refuses every request.
type closedRoute struct{}

// RoundTrip implements [http.RoundTripper].
func (closedRoute) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, &haft.Error{Code: haft.CodeDenied, Message: "the call has no network any more"}
}
