package server

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"haft"
)

// The rule of this file: unused connections must not displace used ones. A connection is
// silent until the headers of a request are complete, the TLS handshake included, and idle
// between two requests. At a limit, a new connection replaces the oldest silent one or the
// oldest idle one: of the same source if that source is at its own limit. If all are in
// use, the new connection goes to the reserve, where only operators and probes are served.

// reserveHeaders is how long a request on the reserve may take to arrive.
const reserveHeaders = 2 * time.Second

// errBusy answers requests on the reserve that are not from operators.
var errBusy = &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(2 * time.Second),
	Message: "this server, or your address, has as many connections in use as it may; try again later"}

// A connState says what a connection does.
type connState int

const (
	connSilent connState = iota // no request has arrived in whole
	connIdle                    // it waits for the next one
	connActive                  // one is being answered
)

// connBounds are how many connections there may be.
type connBounds struct {
	all       int // besides the reserve
	perSource int
	silent    int // of one source, and for longer than a moment
	reserve   int
	exempt    func(netip.Addr) bool // whose connections are those of many: proxies
}

// silentGrace is how long a connection may be silent before another can take its place:
// requests take a moment to arrive, and clients open many connections at once.
const silentGrace = time.Second

// connTracker tracks all connections of a listener. It is safe for concurrent use.
type connTracker struct {
	bounds connBounds

	mu            sync.Mutex
	open          int          // ordinary ones
	quiet         [2]list.List // silent and idle ordinary ones, the oldest first
	reserveOpen   int          // those on the reserve
	reserveSilent list.List    // silent ones of them, the oldest first
	sources       map[netip.Prefix]*source
}

// A source is where connections come from.
type source struct {
	open  int
	quiet [2]list.List // as in connTracker
}

// trackedConn is a connection of a connTracker, whose mu guards the fields that change.
type trackedConn struct {
	net.Conn
	tracker  *connTracker
	from     netip.Prefix
	reserved bool
	began    time.Time

	state       connState
	halfRead    bool // a request has begun, and its headers are not complete
	gone        bool
	since       time.Time
	place, near *list.Element // in the lists of the tracker and of the source
}

// trackingListener returns the connections that a connTracker accepts.
type trackingListener struct {
	net.Listener
	tracker *connTracker
}

// Accept implements [net.Listener].
func (l *trackingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		t, out := l.tracker.accept(conn, time.Now())
		if out != nil {
			_ = out.Close() // it has no request that could be answered
		}
		if t != nil {
			return t, nil
		}
		_ = conn.Close() // the reserve is in use: it cannot be answered
	}
}

// sourceOf returns the address of a connection, and what connections are counted by: the
// address, or for IPv6 its /64.
func sourceOf(conn net.Conn) (netip.Addr, netip.Prefix) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, netip.Prefix{} // such as of a Unix socket: all are one
	}
	a := at.Addr().Unmap().WithZone("")
	return a, networkOf(a)
}

// networkOf returns an address as a prefix, or its /64 for IPv6.
func networkOf(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// accept tracks a connection, or returns nil if there is no place for it. The connection
// out has to be closed for it.
func (c *connTracker) accept(conn net.Conn, now time.Time) (t, out *trackedConn) {
	addr, from := sourceOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	t = &trackedConn{Conn: conn, tracker: c, from: from, began: now, since: now}
	s := c.sources[from]
	if s == nil {
		s = &source{}
		c.sources[from] = s
	}
	if !c.bounds.exempt(addr) {
		switch old := oldest(&s.quiet[connSilent]); {
		case s.quiet[connSilent].Len() >= c.bounds.silent && now.Sub(old.since) > silentGrace:
			out = old
		case s.open >= c.bounds.perSource:
			out = oldestQuiet(&s.quiet)
			t.reserved = out == nil
		}
	}
	if out == nil && !t.reserved && c.open >= c.bounds.all {
		out = oldestQuiet(&c.quiet)
		t.reserved = out == nil
	}
	if t.reserved && c.reserveOpen >= c.bounds.reserve {
		if out = oldest(&c.reserveSilent); out == nil {
			c.forgetSource(from, s)
			return nil, nil
		}
	}
	if out != nil {
		c.remove(out)
		c.sources[from] = s // it may have been the last one
	}
	c.add(t, s)
	return t, out
}

// oldest returns the oldest connection of a list, or nil.
func oldest(l *list.List) *trackedConn {
	if e := l.Front(); e != nil {
		return e.Value.(*trackedConn)
	}
	return nil
}

// oldestQuiet returns the oldest silent connection, or the oldest idle one, or nil.
func oldestQuiet(quiet *[2]list.List) *trackedConn {
	if t := oldest(&quiet[connSilent]); t != nil {
		return t
	}
	return oldest(&quiet[connIdle])
}

// add counts a connection, which is silent. Preconditions: mu is held.
func (c *connTracker) add(t *trackedConn, s *source) {
	if t.reserved {
		c.reserveOpen++
		t.place = c.reserveSilent.PushBack(t)
		c.forgetSource(t.from, s)
		return
	}
	c.open++
	s.open++
	t.place, t.near = c.quiet[connSilent].PushBack(t), s.quiet[connSilent].PushBack(t)
}

// forgetSource removes a source without connections. Precondition: mu is held.
func (c *connTracker) forgetSource(from netip.Prefix, s *source) {
	if s.open == 0 {
		delete(c.sources, from)
	}
}

// dequeue removes a connection from the lists. Precondition: mu is held.
func (c *connTracker) dequeue(t *trackedConn, s *source) {
	if t.place == nil {
		return
	}
	if t.reserved {
		c.reserveSilent.Remove(t.place)
	} else {
		c.quiet[t.state].Remove(t.place)
		s.quiet[t.state].Remove(t.near)
	}
	t.place, t.near = nil, nil
}

// remove counts a connection out, once. Preconditions: mu is held.
func (c *connTracker) remove(t *trackedConn) {
	if t.gone {
		return
	}
	t.gone = true
	s := c.sources[t.from]
	c.dequeue(t, s)
	if t.reserved {
		c.reserveOpen--
		return
	}
	c.open--
	s.open--
	c.forgetSource(t.from, s)
}

// setState sets what a connection does now.
func (c *connTracker) setState(t *trackedConn, state connState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.halfRead = t.halfRead && state != connActive
	if t.gone || t.state == state && t.place != nil {
		return
	}
	s := c.sources[t.from]
	c.dequeue(t, s)
	t.state, t.since = state, time.Now()
	switch {
	case state == connActive:
	case t.reserved:
		if state == connSilent {
			t.place = c.reserveSilent.PushBack(t)
		}
	default:
		t.place, t.near = c.quiet[state].PushBack(t), s.quiet[state].PushBack(t)
	}
}

// Close implements [net.Conn].
func (t *trackedConn) Close() error {
	t.tracker.mu.Lock()
	t.tracker.remove(t)
	t.tracker.mu.Unlock()
	return t.Conn.Close()
}

// SetReadDeadline implements [net.Conn]. What comes on the reserve has less time.
func (t *trackedConn) SetReadDeadline(at time.Time) error {
	if t.reserved {
		t.tracker.mu.Lock()
		silent := t.state == connSilent
		t.tracker.mu.Unlock()
		if most := t.began.Add(reserveHeaders); silent && (at.IsZero() || at.After(most)) {
			at = most
		}
	}
	return t.Conn.SetReadDeadline(at)
}

// trackedOf returns the trackedConn that conn is or wraps, or nil.
func trackedOf(conn net.Conn) *trackedConn {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	t, _ := conn.(*trackedConn)
	return t
}

// follow notes what net/http says of a connection, and reports whether it ended within the
// headers of a request. net/http does not say when headers are complete: see
// [Server.reserved].
func (c *connTracker) follow(t *trackedConn, state http.ConnState) (half bool) {
	switch state {
	case http.StateActive:
		c.setState(t, connSilent) // the first byte of a request
	case http.StateIdle:
		c.setState(t, connIdle)
	case http.StateHijacked:
		c.setState(t, connActive)
	case http.StateNew, http.StateClosed:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	half = t.halfRead && state == http.StateClosed
	t.halfRead = state == http.StateActive
	return half
}

// listen returns a listener that keeps the bounds on connections.
func (s *Server) listen(ln net.Listener) net.Listener {
	c := &connTracker{sources: map[netip.Prefix]*source{}, bounds: connBounds{
		all: s.cfg.Connections, perSource: s.cfg.PerSource, silent: s.cfg.Silent, reserve: s.cfg.Reserve,
		exempt: s.proxies.has,
	}}
	return &trackingListener{ln, c}
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
		if t := trackedOf(conn); t != nil {
			t.tracker.setState(t, connActive)
			over = t.reserved
		}
	}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && s.proxies.has(at.Addr().Unmap()) {
		leave, _ = s.forwarded.add(func(counts []int) error {
			over = over || counts[0] >= s.cfg.PerSource
			return nil
		}, networkOf(s.proxies.sourceAddr(r)))
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
