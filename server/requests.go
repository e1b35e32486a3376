package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// The rule of this file: a request, and so a stream, ends when its credential is no longer
// valid for it. [Server.guard] makes an openRequest for every request, [Server.bind] binds
// it to its sender, and [Server.Changed] checks all bound requests again. The client of an
// ended request is told why: see [Withdrawn].

// How long one write to the client of an ended request may take, and how long all of them
// together.
const (
	abortWrite = time.Second
	abortTotal = 10 * time.Second
)

// recheckPause is how long to wait before requests are rechecked again after a failure.
const recheckPause = 300 * time.Millisecond

// Rechecker is an [Authenticator] that can check a credential again later.
type Rechecker interface {
	// Recheck returns the identity that a credential has now, given what Authenticate
	// returned. The error is [haft.CodeUnauthenticated] or [haft.CodeDenied], and says
	// why, if it is not good any more.
	Recheck(ctx context.Context, who Identity) (Identity, error)
}

// openRequest is a request from its first byte to its end.
type openRequest struct {
	server   *Server
	base     context.Context // of the connection: it does not end with the credential
	cancel   context.CancelCauseFunc
	w        *writer
	reserved bool // it came on the reserve: only operators are served

	mu      sync.Mutex
	over    bool
	bound   bool
	holder  Identity      // whose credential it is
	agents  []string      // on whose behalf the holder acts
	seen    int64         // the changes that the claim was last held against
	actions []haft.Action // that the credential has to be for
	timer   *time.Timer
}

// openRequestKey is the context key of the openRequest.
type openRequestKey struct{}

// openRequestOf returns the openRequest of a context, or nil in tests without a guard.
func openRequestOf(ctx context.Context) *openRequest {
	l, _ := ctx.Value(openRequestKey{}).(*openRequest)
	return l
}

// Withdrawn returns why a request was ended before its answer: its credential is no longer
// valid. It is nil for all other requests, also if the client left.
func Withdrawn(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if code := haft.CodeOf(cause); code == haft.CodeUnauthenticated || code == haft.CodeDenied {
		return cause
	}
	return nil
}

// end ends the request, also while its body is being read.
func (l *openRequest) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.cancel(why)
	l.w.abort()
}

// openRequests are the requests whose senders are known.
type openRequests struct {
	changes atomic.Int64 // that were told of

	mu    sync.Mutex
	orgs  map[string]map[*openRequest]struct{}
	dirty map[string]bool // organisations to look at; a goroutine does while there are any
	busy  bool
}

// begin makes the openRequest of a request.
func (s *Server) begin(r *http.Request, w *writer) (*openRequest, *http.Request) {
	l := &openRequest{server: s, base: r.Context(), w: w}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), openRequestKey{}, l))
	l.cancel = cancel
	return l, r.WithContext(ctx)
}

// finish ends the openRequest of an answered request.
func (s *Server) finish(l *openRequest) {
	l.mu.Lock()
	l.over = true
	bound, org := l.bound, l.holder.Principal.Org
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.cancel(nil)
	if !bound {
		return
	}
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	delete(s.requests.orgs[org], l)
	if len(s.requests.orgs[org]) == 0 {
		delete(s.requests.orgs, org)
	}
}

// identify authenticates r and binds the openRequest to its sender.
func (s *Server) identify(r *http.Request) (Identity, error) {
	seen := s.requests.changes.Load()
	who, err := s.auth.Authenticate(r, s.sourceAddr(r))
	if err != nil {
		return who, err
	}
	l := openRequestOf(r.Context())
	if l == nil {
		return who, nil
	}
	if l.reserved && !who.operates() {
		return who, errBusy
	}
	s.bind(l, who, seen)
	return who, s.recheckIfChanged(r.Context(), l)
}

// bind binds a request to a credential. seen is the number of changes before the
// credential was checked.
func (s *Server) bind(l *openRequest, who Identity, seen int64) {
	l.mu.Lock()
	l.holder, l.seen, l.bound = who, seen, true
	if who.Principal.Agent != "" {
		l.agents = []string{who.Principal.Agent}
	}
	l.mu.Unlock()
	s.expireAt(l, who.Expires)
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	if s.requests.orgs == nil {
		s.requests.orgs = map[string]map[*openRequest]struct{}{}
	}
	of := s.requests.orgs[who.Principal.Org]
	if of == nil {
		of = map[*openRequest]struct{}{}
		s.requests.orgs[who.Principal.Org] = of
	}
	of[l] = struct{}{}
}

// expireAt makes the request end with its credential, unless that never expires.
func (s *Server) expireAt(l *openRequest, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.over || at.IsZero() {
		return
	}
	l.timer = time.AfterFunc(time.Until(at), func() { s.expire(l) })
}

// expire ends a request whose credential should have expired by now.
func (s *Server) expire(l *openRequest) {
	ctx, cancel := context.WithTimeout(s.ending, 5*time.Second)
	defer cancel()
	ends, err := s.recheck(ctx, l.claim())
	switch code := haft.CodeOf(err); {
	case err == nil && (ends.IsZero() || time.Until(ends) > 0):
		s.expireAt(l, ends) // it was made to last longer
	case code == haft.CodeUnauthenticated || code == haft.CodeDenied:
		l.end(err)
	default:
		l.end(&haft.Error{Code: haft.CodeUnauthenticated, Message: "the credential has expired"})
	}
}

// actsAs notes the agent that the request acts as: the request ends when the agent may no
// longer act. It returns an error if that is so already.
func actsAs(ctx context.Context, agent string) error {
	return updateClaim(ctx, func(l *openRequest) {
		if !slices.Contains(l.agents, agent) {
			l.agents = append(slices.Clip(l.agents), agent) // a claim may hold the old slice
		}
	})
}

// Needs notes which actions a request does: it ends when its credential no longer allows
// all of them. The error says that this is so already.
func Needs(ctx context.Context, actions ...haft.Action) error {
	return updateClaim(ctx, func(l *openRequest) { l.actions = actions })
}

// updateClaim changes what a request needs to continue. A change of keys, agents or rules
// may have checked the request before: then it is checked again.
func updateClaim(ctx context.Context, change func(*openRequest)) error {
	l := openRequestOf(ctx)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	change(l)
	l.mu.Unlock()
	return l.server.recheckIfChanged(ctx, l)
}

// recheckIfChanged reports why a request may not continue, if anything was changed since
// its claim was last checked. Later changes check the new claim.
func (s *Server) recheckIfChanged(ctx context.Context, l *openRequest) error {
	now := s.requests.changes.Load()
	l.mu.Lock()
	same := !l.bound || l.seen == now
	l.mu.Unlock()
	if same {
		return nil
	}
	ends, err := s.recheck(ctx, l.claim())
	if err != nil {
		return err
	}
	s.expireAt(l, ends)
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	return nil
}

// A claim is what a request needs to go on.
type claim struct {
	holder  Identity
	agents  []string
	actions []haft.Action
}

// claim is what a request needs to continue.
func (l *openRequest) claim() claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return claim{l.holder, l.agents, l.actions}
}

// recheck reports why a claim no longer holds, and otherwise when its credential expires.
func (s *Server) recheck(ctx context.Context, c claim) (ends time.Time, err error) {
	now := c.holder
	if again, ok := s.auth.(Rechecker); ok {
		if now, err = again.Recheck(ctx, c.holder); err != nil {
			return ends, err
		}
	}
	for _, a := range c.actions {
		if err := now.Permit(a); err != nil {
			return ends, err
		}
	}
	if c.holder.operates() && !now.operates() {
		return ends, &haft.Error{Code: haft.CodeDenied, Message: "the credential is not that of an operator any more"}
	}
	for _, agent := range c.agents {
		if agent != now.Principal.Agent {
			if now.ActAs == nil {
				return ends, &haft.Error{Code: haft.CodeDenied,
					Message: "the credential may not act as the agent any more"}
			}
			if err := now.ActAs(agent); err != nil {
				return ends, err
			}
		}
		if err := s.checkAgentActive(ctx, now.Principal, agent); err != nil {
			return ends, err
		}
	}
	return now.Expires, nil
}

// checkAgentActive reports why an agent may not have streams and calls.
func (s *Server) checkAgentActive(ctx context.Context, p haft.Principal, agent string) error {
	a, err := s.service.Agent(ctx, p, agent)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return &haft.Error{Code: haft.CodeDenied, Message: "the agent was removed"}
	case err != nil:
		return err
	case a.Disabled:
		return &haft.Error{Code: haft.CodeDenied, Message: "the agent is disabled"}
	}
	return nil
}

// Changed says that keys, agents or rules of an organisation were changed; "" means all.
// Requests and streams that may not continue end soon after. It does not block.
func (s *Server) Changed(org string) {
	s.requests.changes.Add(1)
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	if s.requests.dirty == nil {
		s.requests.dirty = map[string]bool{}
	}
	for o := range s.requests.orgs {
		if org == "" || o == org {
			s.requests.dirty[o] = true
		}
	}
	if len(s.requests.dirty) > 0 && !s.requests.busy && s.ending.Err() == nil {
		s.requests.busy = true
		go s.recheckLoop()
	}
}

// recheckLoop checks the requests of changed organisations until none is left.
func (s *Server) recheckLoop() {
	for {
		s.requests.mu.Lock()
		org, found := "", false
		for org = range s.requests.dirty {
			found = true
			break
		}
		delete(s.requests.dirty, org)
		if !found || s.ending.Err() != nil {
			s.requests.busy = false
			s.requests.mu.Unlock()
			return
		}
		list := make([]*openRequest, 0, len(s.requests.orgs[org]))
		for l := range s.requests.orgs[org] {
			list = append(list, l)
		}
		s.requests.mu.Unlock()
		if err := s.recheckRequests(list); err != nil {
			s.cfg.Logger.Warn("the credentials of open requests cannot be looked at; it is tried again", "tenant", org,
				"err", err)
			select {
			case <-time.After(recheckPause):
			case <-s.ending.Done():
			}
			s.requests.mu.Lock()
			s.requests.dirty[org] = true
			s.requests.mu.Unlock()
		}
	}
}

// recheckRequests ends the requests whose claim does not hold any more. Equal claims are
// checked once.
func (s *Server) recheckRequests(list []*openRequest) error {
	ctx, cancel := context.WithTimeout(s.ending, 10*time.Second)
	defer cancel()
	type verdict struct {
		ends time.Time
		err  error
	}
	verdicts := map[string]verdict{}
	for _, l := range list {
		c := l.claim()
		k := fmt.Sprintf("%q %q %q", c.holder.Principal.Credential, c.agents, c.actions)
		v, known := verdicts[k]
		if !known || c.holder.Principal.Credential == "" {
			v.ends, v.err = s.recheck(ctx, c)
			verdicts[k] = v
		}
		switch code := haft.CodeOf(v.err); {
		case v.err == nil:
			s.expireAt(l, v.ends)
		case code == haft.CodeUnauthenticated || code == haft.CodeDenied:
			l.end(v.err)
		default:
			return v.err
		}
	}
	return nil
}
