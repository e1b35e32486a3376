package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"haft"
)

// A Why says why a request was turned away before anything was done for it.
type Why string

// The reasons.
const (
	WhyCredential Why = "credential" // nobody is known who sent it
	WhyScope      Why = "scope"      // the credential is not for it
	WhyHost       Why = "host"       // it was meant for another name
	WhyOrigin     Why = "origin"     // a page of another origin sent it
	WhyBody       Why = "body"       // its body is too large, or came too slowly
	WhyHeaders    Why = "headers"    // its headers are too large, or never came in whole
	WhyBusy       Why = "busy"       // there are too many connections, and its sender is no operator
)

// A Refusal is a request that was turned away.
type Refusal struct {
	Why Why
	// Source is where it came from.
	Source netip.Addr
	// Principal is who sent it, where that is known.
	Principal haft.Principal
	// Err is what the sender was told, and its cause.
	Err error
}

// refused tells the operator of a request that was turned away.
func (s *Server) refused(r *http.Request, why Why, who haft.Principal, err error) {
	if s.cfg.Refused != nil {
		s.cfg.Refused(context.WithoutCancel(r.Context()), Refusal{why, s.source(r), who, err})
	}
}

// conns counts connections that end before a request was whole: what never becomes
// a request is nothing that a handler could see.
type conns struct {
	mu   sync.Mutex
	half map[net.Conn]bool // those on which a request has begun
}

// whole notes that the headers of a request have arrived.
func (c *conns) whole(conn net.Conn) {
	c.mu.Lock()
	delete(c.half, conn)
	c.mu.Unlock()
}

// state is told by net/http what becomes of a connection, and reports whether it
// ended with half a request.
func (c *conns) state(conn net.Conn, state http.ConnState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.half[conn] = true
	case http.StateClosed:
		half := c.half[conn]
		delete(c.half, conn)
		return half
	case http.StateHijacked, http.StateIdle, http.StateNew:
		delete(c.half, conn)
	}
	return false
}

// connKey is where the connection of a request is in its context.
type connKey struct{}

// watchConns has the server count connections that never bring a request.
func (s *Server) watchConns() {
	s.conns.half = map[net.Conn]bool{}
	s.http.ConnContext = func(ctx context.Context,
		c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	s.http.ConnState = func(c net.Conn, state http.ConnState) {
		stateOf(c, state)
		if !s.conns.state(c, state) || s.cfg.Refused == nil {
			return
		}
		from := netip.Addr{}
		if at, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			from = at.Addr().Unmap()
		}
		ctx, cancel := context.WithTimeout(s.life(), 5*time.Second)
		defer cancel()
		s.cfg.Refused(ctx, Refusal{Why: WhyHeaders, Source: from, Err: errHalf})
	}
}

// life is a context that outlives streams: the server's own.
func (s *Server) life() context.Context { return context.WithoutCancel(s.ending) }

// errHalf is what nobody is told of half a request.
var errHalf = &haft.Error{Code: haft.CodeInvalid,
	Message: "the headers of a request are too large or never came in whole"}
