package app

import (
	"context"

	"haft"
	"haft/internal/engine"
	sandboxed "haft/internal/session"
)

// endSessions makes sessions end with what allowed them: with the calls of their owners, with
// the credential that they were made by, and with the right to their workspace.
func (s *Service) endSessions(ec *engine.Config) {
	ec.Killed = func(reason string, match func(haft.Principal) bool) { s.sessions.Stop(reason, match) }
	changed, recheck := ec.Changed, ec.Recheck
	s.sessions.SetPermissions(sandboxed.Permissions{
		Credential: func(ctx context.Context, p haft.Principal) error {
			_, _, err := recheck(ctx, p)
			return err
		},
		Call:   func(ctx context.Context, c haft.Call) error { return s.Engine.StillAllowed(ctx, c) },
		Logger: s.App.cfg.Logger,
	})
	ec.Changed = func(org string) {
		if changed != nil {
			changed(org)
		}
		s.sessions.PermissionsChanged(org)
	}
}
