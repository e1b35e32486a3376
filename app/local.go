package app

import (
	"context"
	"errors"

	"haft/internal/access"
	"haft/internal/authority"
	"haft/internal/store/sqlite"
	"haft/internal/telemetry"
	"haft/server"
)

// InUse reports whether a service could not be opened because another process has the data directory.
func InUse(err error) bool {
	_, yes := errors.AsType[*sqlite.InUse](err)
	return yes
}

// LocalServer makes the HTTP server of a service for clients of the socket in its data directory. It makes no API keys.
// Shut it down before the service is closed.
func (s *Service) LocalServer(ctx context.Context, version string) (*server.Server, error) {
	counts, err := telemetry.Open(ctx, telemetry.Config{})
	if err != nil {
		return nil, err
	}
	x := &Server{Service: s, telemetry: counts}
	cfg := ServerConfig{HTTP: server.Config{Version: version}}
	cfg.Logger = s.App.cfg.Logger
	cfg.Auth.Rules.Operators = authority.EveryOrg // as for a command that opens the directory
	x.Auth, err = access.Open(ctx, access.Config{Dir: s.dir, NoFirstKey: true, Manage: s.Manage, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return server.New(s.API, x.authenticator(cfg), x.offers(cfg))
}
