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

// The rule of this file: a request, and so a stream, ends when the credential that it
// came with is not good for it any more. [Server.guard] makes the life of every
// request, [Server.bind] ties it to whoever sent it, and [Server.Changed] holds all
// that are bound against what holds now. Whoever is ended is told why: see
// [Withdrawn].

// How long a write to the reader of a request that was ended may take, and how long all
// of them: a reader that does not read is not waited for.
const (
	abortWrite = time.Second
	abortTotal = 10 * time.Second
)

// recheckAgain is when lives are looked at again if that was not possible.
const recheckPause = 300 * time.Millisecond

// A Rechecker is an [Authenticator] that can say later what a credential stands for.
type Rechecker interface {
	// Recheck returns the identity that a credential has now, given what Authenticate
	// returned. The error is [haft.CodeUnauthenticated] or [haft.CodeDenied], and says
	// why, if it is not good any more.
	Recheck(ctx context.Context, who Identity) (Identity, error)
}

// A life is that of a request, from its first byte to its end.
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

// lifeKey is where the life of a request is in its context.
type openRequestKey struct{}

// lifeOf returns the life of a request, or nil in tests without a guard.
func openRequestOf(ctx context.Context) *openRequest {
	l, _ := ctx.Value(openRequestKey{}).(*openRequest)
	return l
}

// Withdrawn returns why a request was ended before its answer: the credential that it
// came with is not good any more. It is nil for all others, also if the client left.
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

// end ends the request. A body that is being read is not waited for.
func (l *openRequest) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.cancel(why)
	l.w.abort()
}

// lives are the requests whose senders are known.
type openRequests struct {
	changes atomic.Int64 // that were told of

	mu    sync.Mutex
	orgs  map[string]map[*openRequest]struct{}
	dirty map[string]bool // organisations to look at; a goroutine does while there are any
	busy  bool
}

// begin makes the life of a request.
func (s *Server) begin(r *http.Request, w *writer) (*openRequest, *http.Request) {
	l := &openRequest{server: s, base: r.Context(), w: w}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), openRequestKey{}, l))
	l.cancel = cancel
	return l, r.WithContext(ctx)
}

// finish ends the life of a request that was answered.
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

// identify authenticates r and binds its life to whoever sent it.
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

// bind ties a life to a credential. seen are the changes before it was looked at.
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

// endAt has the request end with its credential, unless that is never.
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

// expire ends a request whose credential should have ended by now, with the reason.
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

// actsAs notes on whose behalf the request is: it ends when the agent may not act any
// more. The error says that this is so already.
func actsAs(ctx context.Context, agent string) error {
	return updateClaim(ctx, func(l *openRequest) {
		if !slices.Contains(l.agents, agent) {
			l.agents = append(slices.Clip(l.agents), agent) // a claim may hold the old slice
		}
	})
}

// Needs notes which actions a request does: it ends when its credential is not for all
// of them any more. The error says that this is so already.
func Needs(ctx context.Context, actions ...haft.Action) error {
	return updateClaim(ctx, func(l *openRequest) { l.actions = actions })
}

// claims changes what a request needs to go on. A change of keys, agents or rules may
// have looked at the request before it needed this: then it is looked at once more.
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

// current reports why a request may not go on, if anything was changed since its claim
// was last looked at. Changes from now on find the claim as it is.
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

func (l *openRequest) claim() claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return claim{l.holder, l.agents, l.actions}
}

// recheck reports why a claim does not hold any more, and else when its credential ends.
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

// agentStands reports why an agent may not have streams and calls.
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

// Changed tells that keys, agents or rules of an organisation were changed; "" means of
// all. Requests and streams that may not go on end soon after. It does not block.
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

// reviewLives looks at the requests of organisations until there is none to look at.
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

// reviewOrg ends those lives whose claim does not hold any more. Equal claims are looked
// at once.
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
