package toolsource

import (
	"context"
	"time"

	"haft"
	"haft/schema"
)

// ResolveWithin looks up one type of a Python module, in at most wall.
func (r *Runner) ResolveWithin(ctx context.Context, wall time.Duration, memory int64, module,
	name string) (*schema.Object, error) {
	l := r.newLookups(nil)
	l.limits.Wall, l.limits.Memory = haft.Millis(wall), memory
	return l.resolve(ctx, module, name)
}
