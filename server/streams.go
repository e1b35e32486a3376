package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"haft"
)

// streams are the open streams of events, and the requests that wait for a call.
type streams struct {
	agents                haft.Agents
	perCredential, perOrg int
	open                  counter[string] // by credential and by organisation

	ending  context.Context // ends when the server shuts down
	endAll  context.CancelCauseFunc
	mu      sync.Mutex     // orders running.Add before running.Wait
	running sync.WaitGroup // which Shutdown of net/http does not know of
}

// newStreams returns streams with the bounds of cfg.
func newStreams(agents haft.Agents, cfg Config) *streams {
	s := &streams{agents: agents, perCredential: cfg.Streams, perOrg: cfg.OrgStreams}
	s.ending, s.endAll = context.WithCancelCause(context.Background()) //nolint:forbidigo // it is the server's life and not a request's
	return s
}

// count counts a stream of p until the function leave is called. It refuses more than a
// credential or an organisation may have.
func (s *streams) count(p haft.Principal) (leave func(), err error) {
	many := func(whose string) error {
		return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(time.Second),
			Message: whose + " has as many open streams as it may: end one first"}
	}
	return s.open.add(func(counts []int) error {
		switch {
		case counts[0] >= s.perCredential:
			return many("the credential")
		case counts[1] >= s.perOrg:
			return many("the organisation")
		}
		return nil
	}, "credential "+p.Org+"\x00"+p.User+"\x00"+p.Agent+"\x00"+p.Credential, "org "+p.Org)
}

// begin begins a stream and returns its context, which ends with the request, the
// credential or the server. The caller calls done.
func (s *streams) begin(r *http.Request, who Identity) (ctx context.Context, done func(), err error) {
	if agent := who.Principal.Agent; agent != "" {
		if err := checkAgentActive(r.Context(), s.agents, who.Principal, agent); err != nil {
			return nil, nil, err
		}
	}
	leave, err := s.count(who.Principal)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.Err() != nil {
		leave()
		return nil, nil, errShuttingDown
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(s.ending, func() { cancel(context.Cause(s.ending)) })
	return ctx, func() {
		unhook()
		leave()
		cancel(nil)
		s.running.Done()
	}, nil
}

// end ends all streams, and refuses new ones.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAll(errShuttingDown)
}

// wait waits until all streams have ended, or until ctx ends.
func (s *streams) wait(ctx context.Context) error {
	gone := make(chan struct{})
	go func() { s.running.Wait(); close(gone) }()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		// The write timeout ends them soon.
		return fmt.Errorf("wait for streams to end: %w", context.Cause(ctx))
	}
}
