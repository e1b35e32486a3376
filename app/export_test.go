package app

import (
	"context"
	"time"

	"haft"
	"haft/schema"
)

// ResolveWithin looks up one type of a Python module, in at most wall.
func (a *App) ResolveWithin(ctx context.Context, wall time.Duration, memory int64, module,
	name string) (*schema.Object, error) {
	l := a.newLookups(nil)
	l.limits.Wall, l.limits.Memory = haft.Millis(wall), memory
	return l.resolve(ctx, module, name)
}

// SignAudit signs the audit now.
func (s *Service) SignAudit(ctx context.Context) error { return s.keeper.Sign(ctx) }
