package backend

import (
	"context"
	"fmt"
	"time"

	"haft"
	"haft/internal/pause"
)

// WaitFor waits until a call has ended, or waits for another approval than the one
// that was given, and returns its result.
func WaitFor(ctx context.Context, s System, p haft.Principal, id haft.CallID, given haft.ApprovalID,
	most time.Duration) (*haft.Result, error) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		res, err := s.Wait(ctx, p, id)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for call %s: %w", id, context.Cause(ctx))
		case err != nil:
			return nil, err
		case res.Status.Final() || given != "" && res.Approval != given:
			return res, nil
		}
		_ = pause.For(ctx, wait) // the next look says that it has ended
	}
}
