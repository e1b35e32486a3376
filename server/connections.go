package server

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"haft"
	"haft/internal/connlimit"
)

// errBusy answers requests on the reserve that are not from operators.
var errBusy = &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(2 * time.Second),
	Message: "this server, or your address, has as many connections in use as it may; try again later"}

// listen returns a listener that keeps the bounds on connections.
func (s *Server) listen(ln net.Listener) net.Listener {
	return connlimit.Listen(ln, connlimit.Bounds{All: s.cfg.Connections, PerSource: s.cfg.PerSource,
		Silent: s.cfg.Silent, Reserve: s.cfg.Reserve, Exempt: s.proxies.has})
}

// A counter counts what is open by key. It is safe for concurrent use.
type counter[K comparable] struct {
	mu    sync.Mutex
	count map[K]int
}

// add counts one for each key until the function leave is called. The function over gets
// the counts so far and can refuse by an error.
func (c *counter[K]) add(over func(counts []int) error, keys ...K) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make([]int, len(keys))
	for i, k := range keys {
		counts[i] = c.count[k]
	}
	if err := over(counts); err != nil {
		return nil, err
	}
	if c.count == nil {
		c.count = map[K]int{}
	}
	for _, k := range keys {
		c.count[k]++
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range keys {
			if c.count[k]--; c.count[k] <= 0 {
				delete(c.count, k)
			}
		}
	}), nil
}

// reserved reports whether only an operator may send a request: it came on the reserve, or
// a proxy brings more requests of its source than allowed. Probes are answered. The
// function returned ends the count.
func (s *Server) reserved(r *http.Request) (bool, func()) {
	leave := func() {}
	over := false
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		if t := connlimit.Of(conn); t != nil {
			over = t.Begin()
		}
	}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && s.proxies.has(at.Addr().Unmap()) {
		leave, _ = s.forwarded.add(func(counts []int) error {
			over = over || counts[0] >= s.cfg.PerSource
			return nil
		}, connlimit.NetworkOf(s.proxies.sourceAddr(r)))
	}
	return over, leave
}

// isProbe reports whether r is a health check, which needs no credential.
func isProbe(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// whyOf returns the reason for a request whose sender was not authenticated.
func whyOf(err error) Why {
	if errors.Is(err, errBusy) {
		return WhyBusy
	}
	return WhyCredential
}
