package app

import (
	"context"
	"time"

	"haft"
	"haft/internal/auth"
	"haft/server"
)

// rechecker is [engine.Config.Recheck].
type rechecker = func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error)

var _ server.Rechecker = authenticator{}

// Recheck implements [server.Rechecker].
func (d authenticator) Recheck(ctx context.Context, who server.Identity) (server.Identity, error) {
	id, ok := who.Credential.(auth.Identity)
	if !ok {
		return server.Identity{}, &haft.Error{Code: haft.CodeUnauthenticated,
			Message: "the credential is not known any more"}
	}
	now, err := d.again(ctx, id)
	if err != nil {
		return server.Identity{}, err
	}
	return d.identity(now), nil
}

// again is [auth.Authenticator.Recheck], for somebody who knows agents.
func (d authenticator) again(ctx context.Context, id auth.Identity) (auth.Identity, error) {
	now, err := d.auth.Recheck(ctx, id)
	if err != nil || now.Key == "" || now.Principal.Agent == "" || now.KeyAgent == now.Principal.Agent {
		return now, err
	}
	if now.KeyAgent == "" { // somebody acts as the agent
		self := now
		self.Principal.Agent = ""
		if d.identity(self).ActAs == nil {
			return now, &haft.Error{Code: haft.CodeDenied, Message: "the API key may not act as the agent any more"}
		}
		return now, nil
	}
	// One of the two may be the name of the agent and the other its id.
	a, err := d.agents.Agent(ctx, now.Principal.Org, now.KeyAgent)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return now, err
	}
	if err != nil || string(a.ID) != now.Principal.Agent && a.Name != now.Principal.Agent {
		return now, &haft.Error{Code: haft.CodeUnauthenticated, Message: "the API key is for another agent now"}
	}
	return now, nil
}

// recheck says what the credentials of calls stand for, once the server knows its
// callers: calls that were left go on before that.
func (s *Server) recheck(cfg ServerConfig) rechecker {
	return func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error) {
		select {
		case <-s.known:
		case <-ctx.Done():
			return p, time.Time{}, context.Cause(ctx)
		}
		now, err := authenticator{s.Auth.Authenticator, cfg, s.Store}.again(ctx, auth.Identity{Principal: p})
		return now.Principal, now.Ends, err
	}
}

// recheckKept is recheck for a service that others do not reach. Who may act as an agent
// is not known to it.
func (s *Service) recheckKept() (rechecker, error) {
	a, err := auth.NewRechecker(s.Store)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error) {
		now, err := a.Recheck(ctx, auth.Identity{Principal: p})
		return now.Principal, now.Ends, err
	}, nil
}
