package app

import (
	"cmp"
	"context"
	"net/http"

	"haft"
	"haft/compat/e2b"
	"haft/internal/authority"
	"haft/server"
)

// openE2B adds E2B's API to those of the server.
func (s *Server) openE2B(cfg *ServerConfig) {
	recheck := s.recheck(*cfg)
	api := e2b.New(e2b.Config{
		Call: s.Stream, Sessions: s.API.Sessions, Files: s.API.Sessions, Worker: s.API.Sessions, Ports: s.API.Sessions,
		Keeper: s.API.Snapshots, Workspaces: s.API.Workspaces, Configs: s.API.Sandboxes, Cancel: s.Cancel,
		Key:     s.digestKey,
		Sandbox: haft.SandboxType(s.App.name), Domain: cfg.E2BDomain, Busy: server.Busy,
		Identify: func(w http.ResponseWriter, r *http.Request) (server.Identity, error) {
			_, actor, err := s.HTTP.Identify(w, r, "")
			return actor, err
		},
		Refused: func(r *http.Request, err error) { s.HTTP.Refuse(r, err) },
		Recheck: func(ctx context.Context, p haft.Principal, a haft.Action) (haft.Principal, error) {
			now, _, err := recheck(ctx, p)
			return now, cmp.Or(err, cfg.Auth.Rules.Authorize(now, a, authority.Resource{}))
		},
	})
	api.Mount(&cfg.HTTP)
	s.closers = append(s.closers, func() error { api.Close(); api.Wait(); return nil })
}
