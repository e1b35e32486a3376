package app

import (
	"context"
	"time"

	"haft"
	"haft/internal/access"
	"haft/internal/auth"
)

// Keyring returns the API keys of the service.
func (s *Service) Keyring(ctx context.Context) (*auth.Keyring, error) {
	return access.Keyring(ctx, s.dir, s.App.cfg.Logger)
}

// OpenAuth is [access.Open] for the service, with org for the first administrator.
func (s *Service) OpenAuth(ctx context.Context, org string, cfg auth.Config) (*access.Auth, error) {
	return access.Open(ctx, access.Config{Config: cfg, Dir: s.dir, Org: org, Manage: s.Manage,
		Logger: s.App.cfg.Logger})
}

// authenticator finds out who sends a request.
func (s *Server) authenticator(cfg ServerConfig) access.Authenticator {
	return access.Authenticator{Auth: s.Auth.Authenticator, Rules: cfg.Auth.Rules, ActFor: cfg.ActFor,
		Agents: s.Store.Agents}
}

// rechecker is [engine.Config.Recheck].
type rechecker = func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error)

// recheck looks up again whom the credentials of calls belong to. It waits until the
// server has its authenticator: calls of an earlier process resume before that.
func (s *Server) recheck(cfg ServerConfig) rechecker {
	return func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error) {
		if err := s.awaitAuth(ctx); err != nil {
			return p, time.Time{}, err
		}
		now, err := s.authenticator(cfg).Again(ctx, auth.Identity{Principal: p})
		return now.Principal, now.Ends, err
	}
}

// awaitAuth waits until Auth is set.
func (s *Server) awaitAuth(ctx context.Context) error {
	select {
	case <-s.known:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recheckKept is recheck for a service without HTTP. It does not know who may act as an
// agent.
func (s *Service) recheckKept() (rechecker, error) {
	a, err := auth.NewRechecker(s.Store.Keys)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p haft.Principal) (haft.Principal, time.Time, error) {
		now, err := a.Recheck(ctx, auth.Identity{Principal: p})
		return now.Principal, now.Ends, err
	}, nil
}
