package service

import (
	"context"
	"time"

	"haft"
)

// PruneCalls prunes in rounds of some length, and returns whether it got to the end in so many.
func (m *RetentionManager) PruneCalls(ctx context.Context, rounds int, most time.Duration) (bool, error) {
	pass := &pruning{}
	for range rounds {
		if err := m.pruneCalls(ctx, pass, true, most); err != nil || !pass.unfinished() {
			return err == nil, err
		}
	}
	return false, nil
}

// PruneKeys forgets old idempotency keys, as the housekeeping does before it prunes calls.
func (m *RetentionManager) PruneKeys(ctx context.Context) error { return m.prune(ctx) }

// SetCaller has calls be made by c.
func (a *API) SetCaller(c haft.Caller) { a.base.calls = c }
