package app

import (
	"context"
	"sync"
	"time"

	"haft"
	"haft/internal/engine"
)

// recheckTime bounds how long it is asked whether the owners of sessions still may have them.
const recheckTime = 30 * time.Second

// endSessions makes sessions end with what allowed them: with the calls of their owners, with
// the credential that they were made by, and with the right to their workspace.
func (s *Service) endSessions(ec *engine.Config) {
	ec.Killed = func(reason string, match func(haft.Principal) bool) { s.sessions.Stop(reason, match) }
	if ec.Recheck == nil {
		return
	}
	changed, recheck := ec.Changed, ec.Recheck
	var work sync.WaitGroup
	ec.Changed = func(org string) {
		if changed != nil {
			changed(org)
		}
		owners := s.sessions.Owners(org)
		if len(owners) == 0 {
			return
		}
		work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), recheckTime)
			defer cancel()
			s.sessions.Recheck(ctx, org, s.Engine.StillAllowed)
			for _, p := range owners {
				_, _, err := recheck(ctx, p)
				if c := haft.CodeOf(err); c == haft.CodeUnauthenticated || c == haft.CodeDenied {
					s.sessions.Stop("what allowed it was withdrawn", func(q haft.Principal) bool {
						return q.Org == p.Org && q.User == p.User && q.Credential == p.Credential
					})
				}
			}
		})
	}
	s.closers = append(s.closers, func() error { work.Wait(); return nil })
}
