package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/sandbox"
)

// The rule of this file: a request, and so a stream, ends when its credential is no longer
// valid for it. [Server.guard] makes an openRequest for every request,
// openRequests.bind binds it to its sender, and [Server.Changed] checks all bound requests
// again. The client of an ended request gets the reason: see [Withdrawn].

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
	all      *openRequests
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
	l.cancel(notAllowed{why})
	l.w.abort()
}

// notAllowed is why a request may not continue. What runs for it gets no time to clean up.
type notAllowed struct{ error }

// Unwrap returns what the client is told, and [sandbox.ErrNoGrace].
func (n notAllowed) Unwrap() []error { return []error{n.error, sandbox.ErrNoGrace} }

// openRequests are the requests whose senders are known.
type openRequests struct {
	auth    Authenticator
	agents  haft.Agents
	ending  context.Context // ends when the server shuts down
	log     *slog.Logger
	changes atomic.Int64 // calls of changed

	mu    sync.Mutex
	orgs  map[string]map[*openRequest]struct{}
	dirty map[string]bool // organisations to look at; a goroutine does while there are any
	busy  bool
}

// begin makes the openRequest of a request.
func (o *openRequests) begin(r *http.Request, w *writer) (*openRequest, *http.Request) {
	l := &openRequest{all: o, base: r.Context(), w: w}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), openRequestKey{}, l))
	l.cancel = cancel
	return l, r.WithContext(ctx)
}

// finish ends the openRequest of an answered request.
func (o *openRequests) finish(l *openRequest) {
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
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.orgs[org], l)
	if len(o.orgs[org]) == 0 {
		delete(o.orgs, org)
	}
}

// identify authenticates r, which came from source, and binds the openRequest to its sender.
func (o *openRequests) identify(r *http.Request, source netip.Addr) (Identity, error) {
	seen := o.changes.Load()
	who, err := o.auth.Authenticate(r, source)
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
	o.bind(l, who, seen)
	return who, o.recheckIfChanged(r.Context(), l)
}

// bind binds a request to a credential. seen is the number of changes before the
// credential was checked.
func (o *openRequests) bind(l *openRequest, who Identity, seen int64) {
	l.mu.Lock()
	l.holder, l.seen, l.bound = who, seen, true
	if who.Principal.Agent != "" {
		l.agents = []string{who.Principal.Agent}
	}
	l.mu.Unlock()
	o.expireAt(l, who.Expires)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.orgs == nil {
		o.orgs = map[string]map[*openRequest]struct{}{}
	}
	of := o.orgs[who.Principal.Org]
	if of == nil {
		of = map[*openRequest]struct{}{}
		o.orgs[who.Principal.Org] = of
	}
	of[l] = struct{}{}
}

// expireAt makes the request end with its credential, unless that never expires.
func (o *openRequests) expireAt(l *openRequest, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.over || at.IsZero() {
		return
	}
	l.timer = time.AfterFunc(time.Until(at), func() { o.expire(l) })
}

// expire ends a request whose credential should have expired by now.
func (o *openRequests) expire(l *openRequest) {
	ctx, cancel := context.WithTimeout(o.ending, 5*time.Second)
	defer cancel()
	ends, err := o.recheck(ctx, l.claim())
	switch code := haft.CodeOf(err); {
	case err == nil && (ends.IsZero() || time.Until(ends) > 0):
		o.expireAt(l, ends) // it was made to last longer
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
	return l.all.recheckIfChanged(ctx, l)
}

// recheckIfChanged reports why a request may not continue, if anything was changed since
// its claim was last checked. Later changes check the new claim.
func (o *openRequests) recheckIfChanged(ctx context.Context, l *openRequest) error {
	now := o.changes.Load()
	l.mu.Lock()
	same := !l.bound || l.seen == now
	l.mu.Unlock()
	if same {
		return nil
	}
	ends, err := o.recheck(ctx, l.claim())
	if err != nil {
		return err
	}
	o.expireAt(l, ends)
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
func (o *openRequests) recheck(ctx context.Context, c claim) (ends time.Time, err error) {
	now := c.holder
	if again, ok := o.auth.(Rechecker); ok {
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
		if err := checkAgentActive(ctx, o.agents, now.Principal, agent); err != nil {
			return ends, err
		}
	}
	return now.Expires, nil
}

// checkAgentActive reports why an agent may not have streams and calls.
func checkAgentActive(ctx context.Context, agents haft.Agents, p haft.Principal, agent string) error {
	a, err := agents.Agent(ctx, p, agent)
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
	s.requests.changed(org)
	if s.cfg.Noting != nil {
		s.cfg.Noting(org)
	}
}

// changed implements [Server.Changed].
func (o *openRequests) changed(org string) {
	o.changes.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dirty == nil {
		o.dirty = map[string]bool{}
	}
	for name := range o.orgs {
		if org == "" || name == org {
			o.dirty[name] = true
		}
	}
	if len(o.dirty) > 0 && !o.busy && o.ending.Err() == nil {
		o.busy = true
		go o.recheckLoop()
	}
}

// recheckLoop checks the requests of changed organisations until none is left.
func (o *openRequests) recheckLoop() {
	for {
		o.mu.Lock()
		org, found := "", false
		for org = range o.dirty {
			found = true
			break
		}
		delete(o.dirty, org)
		if !found || o.ending.Err() != nil {
			o.busy = false
			o.mu.Unlock()
			return
		}
		list := make([]*openRequest, 0, len(o.orgs[org]))
		for l := range o.orgs[org] {
			list = append(list, l)
		}
		o.mu.Unlock()
		if err := o.recheckRequests(list); err != nil {
			o.log.Warn("the credentials of open requests cannot be looked at; it is tried again", "tenant", org,
				"err", err)
			select {
			case <-time.After(recheckPause):
			case <-o.ending.Done():
			}
			o.mu.Lock()
			o.dirty[org] = true
			o.mu.Unlock()
		}
	}
}

// recheckRequests ends the requests whose claim does not hold any more. Equal claims are
// checked once.
func (o *openRequests) recheckRequests(list []*openRequest) error {
	ctx, cancel := context.WithTimeout(o.ending, 10*time.Second)
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
			v.ends, v.err = o.recheck(ctx, c)
			verdicts[k] = v
		}
		switch code := haft.CodeOf(v.err); {
		case v.err == nil:
			o.expireAt(l, v.ends)
		case code == haft.CodeUnauthenticated || code == haft.CodeDenied:
			l.end(v.err)
		default:
			return v.err
		}
	}
	return nil
}
