// Package connlimit bounds the connections of a server. Its rule is that unused connections must
// not displace used ones. A connection is silent until the headers of a request are complete,
// the TLS handshake included, and idle between two requests. At a limit, a new connection
// replaces the oldest silent one or the oldest idle one: of the same source if that source is at
// its own limit. If all are in use, the new connection goes to the reserve, where only operators
// and probes are served.
package connlimit

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// reserveHeaders is how long a request on the reserve may take to arrive.
const reserveHeaders = 2 * time.Second

// A state says what a connection does.
type state int

const (
	silent state = iota // no request has arrived in whole
	idle                // it waits for the next one
	active              // one is being answered
)

// Bounds are how many connections there may be.
type Bounds struct {
	All       int // besides the reserve
	PerSource int
	Silent    int // of one source, and for longer than a moment
	Reserve   int
	Exempt    func(netip.Addr) bool // whose connections are those of many: proxies
}

// silentGrace is how long a connection may be silent before another can take its place:
// requests take a moment to arrive, and clients open many connections at once.
const silentGrace = time.Second

// tracker tracks all connections of a listener. It is safe for concurrent use.
type tracker struct {
	bounds Bounds

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
	quiet [2]list.List // as in tracker
}

// A Conn is a connection of a tracker, whose mu guards the fields that change.
type Conn struct {
	net.Conn
	tracker  *tracker
	from     netip.Prefix
	reserved bool
	began    time.Time

	state       state
	halfRead    bool // a request has begun, and its headers are not complete
	gone        bool
	since       time.Time
	place, near *list.Element // in the lists of the tracker and of the source
}

// listener returns the connections that a tracker accepts.
type listener struct {
	net.Listener
	tracker *tracker
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
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

// SourceOf returns the address of a connection, and what connections are counted by: the
// address, or for IPv6 its /64.
func SourceOf(conn net.Conn) (netip.Addr, netip.Prefix) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, netip.Prefix{} // such as of a Unix socket: all are one
	}
	a := at.Addr().Unmap().WithZone("")
	return a, NetworkOf(a)
}

// NetworkOf returns an address as a prefix, or its /64 for IPv6.
func NetworkOf(a netip.Addr) netip.Prefix {
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
func (c *tracker) accept(conn net.Conn, now time.Time) (t, out *Conn) {
	addr, from := SourceOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	t = &Conn{Conn: conn, tracker: c, from: from, began: now, since: now}
	s := c.sources[from]
	if s == nil {
		s = &source{}
		c.sources[from] = s
	}
	if !c.bounds.Exempt(addr) {
		switch old := oldest(&s.quiet[silent]); {
		case s.quiet[silent].Len() >= c.bounds.Silent && now.Sub(old.since) > silentGrace:
			out = old
		case s.open >= c.bounds.PerSource:
			out = oldestQuiet(&s.quiet)
			t.reserved = out == nil
		}
	}
	if out == nil && !t.reserved && c.open >= c.bounds.All {
		out = oldestQuiet(&c.quiet)
		t.reserved = out == nil
	}
	if t.reserved && c.reserveOpen >= c.bounds.Reserve {
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
func oldest(l *list.List) *Conn {
	if e := l.Front(); e != nil {
		return e.Value.(*Conn)
	}
	return nil
}

// oldestQuiet returns the oldest silent connection, or the oldest idle one, or nil.
func oldestQuiet(quiet *[2]list.List) *Conn {
	if t := oldest(&quiet[silent]); t != nil {
		return t
	}
	return oldest(&quiet[idle])
}

// add counts a connection, which is silent. Preconditions: mu is held.
func (c *tracker) add(t *Conn, s *source) {
	if t.reserved {
		c.reserveOpen++
		t.place = c.reserveSilent.PushBack(t)
		c.forgetSource(t.from, s)
		return
	}
	c.open++
	s.open++
	t.place, t.near = c.quiet[silent].PushBack(t), s.quiet[silent].PushBack(t)
}

// forgetSource removes a source without connections. Precondition: mu is held.
func (c *tracker) forgetSource(from netip.Prefix, s *source) {
	if s.open == 0 {
		delete(c.sources, from)
	}
}

// dequeue removes a connection from the lists. Precondition: mu is held.
func (c *tracker) dequeue(t *Conn, s *source) {
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
func (c *tracker) remove(t *Conn) {
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
func (c *tracker) setState(t *Conn, now state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.halfRead = t.halfRead && now != active
	if t.gone || t.state == now && t.place != nil {
		return
	}
	s := c.sources[t.from]
	c.dequeue(t, s)
	t.state, t.since = now, time.Now()
	switch {
	case now == active:
	case t.reserved:
		if now == silent {
			t.place = c.reserveSilent.PushBack(t)
		}
	default:
		t.place, t.near = c.quiet[now].PushBack(t), s.quiet[now].PushBack(t)
	}
}

// Close implements [net.Conn].
func (t *Conn) Close() error {
	t.tracker.mu.Lock()
	t.tracker.remove(t)
	t.tracker.mu.Unlock()
	return t.Conn.Close()
}

// SetReadDeadline implements [net.Conn]. What comes on the reserve has less time.
func (t *Conn) SetReadDeadline(at time.Time) error {
	if t.reserved {
		t.tracker.mu.Lock()
		waits := t.state == silent
		t.tracker.mu.Unlock()
		if most := t.began.Add(reserveHeaders); waits && (at.IsZero() || at.After(most)) {
			at = most
		}
	}
	return t.Conn.SetReadDeadline(at)
}

// Of returns the [Conn] that conn is or wraps, or nil.
func Of(conn net.Conn) *Conn {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	t, _ := conn.(*Conn)
	return t
}

// Follow notes what net/http says of the connection, and reports whether it ended within the
// headers of a request. net/http does not say when headers are complete: see Begin.
func (t *Conn) Follow(state http.ConnState) (half bool) {
	switch state {
	case http.StateActive:
		t.tracker.setState(t, silent) // the first byte of a request
	case http.StateIdle:
		t.tracker.setState(t, idle)
	case http.StateHijacked:
		t.tracker.setState(t, active)
	case http.StateNew, http.StateClosed:
	}
	t.tracker.mu.Lock()
	defer t.tracker.mu.Unlock()
	half = t.halfRead && state == http.StateClosed
	t.halfRead = state == http.StateActive
	return half
}

// Begin says that the headers of a request are complete, and reports whether it came on the
// reserve.
func (t *Conn) Begin() (reserved bool) {
	t.tracker.setState(t, active)
	return t.reserved
}

// Listen returns a listener that keeps the bounds on connections. They are [*Conn].
func Listen(ln net.Listener, b Bounds) net.Listener {
	return &listener{ln, &tracker{sources: map[netip.Prefix]*source{}, bounds: b}}
}
