package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"haft"
	"haft/internal/connlimit"
)

// Why is why a request was refused before anything was done for it.
type Why string

// The reasons.
const (
	WhyCredential Why = "credential" // the sender is not known
	WhyScope      Why = "scope"      // the credential is not for it
	WhyHost       Why = "host"       // it was meant for another name
	WhyOrigin     Why = "origin"     // a page of another origin sent it
	WhyBody       Why = "body"       // its body is too large, or came too slowly
	WhyHeaders    Why = "headers"    // its headers are too large, or never came in whole
	WhyBusy       Why = "busy"       // there are too many connections, and its sender is no operator
)

// RefusalLog gets refused requests.
type RefusalLog interface {
	// Refused must be quick, and is called from many goroutines.
	Refused(ctx context.Context, r Refusal)
}

// Refusal is a refused request.
type Refusal struct {
	Why Why
	// Source is where it came from.
	Source netip.Addr
	// Principal is the sender, where it is known.
	Principal haft.Principal
	// Err is the answer that the sender got, and its cause.
	Err error
}

// reportRefusal reports a refused request to the operator.
func (s *Server) reportRefusal(r *http.Request, why Why, who haft.Principal, err error) {
	if s.cfg.Refusals != nil {
		s.cfg.Refusals.Refused(context.WithoutCancel(r.Context()), Refusal{why, s.proxies.sourceAddr(r), who, err})
	}
}

// connKey is the context key of the connection of a request.
type connKey struct{}

// connState follows the state of a connection, and reports one that ends before the
// headers of its request are complete: no handler sees such a request.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	t := connlimit.Of(c)
	if t == nil || !t.Follow(state) || s.cfg.Refusals == nil {
		return
	}
	addr, _ := connlimit.SourceOf(c)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ending), 5*time.Second)
	defer cancel()
	s.cfg.Refusals.Refused(ctx, Refusal{Why: WhyHeaders, Source: addr, Err: errIncomplete})
}

// errIncomplete is the error of an incomplete request. It is only logged.
var errIncomplete = &haft.Error{Code: haft.CodeInvalid,
	Message: "the headers of a request are too large or never came in whole"}
