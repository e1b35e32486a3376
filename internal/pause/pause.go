// Package pause waits for a time.
package pause

import (
	"context"
	"time"
)

// For waits, or until ctx ends, and then returns why it did.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
