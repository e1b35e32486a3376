package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"haft"
	"haft/internal/callenv"
)

// The bounds on a batch.
const (
	maxBatch  = 128 // calls
	batchWide = 16  // of them at once
)

// Batch implements [haft.Planner]. Neighbours that may run beside each other do;
// the others wait for what stands before them.
func (en *entrance) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	if len(calls) > maxBatch {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("a batch has at most %d calls", maxBatch)}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // nobody waits for it, and nothing has begun
	}
	results := make([]*haft.Result, len(calls))
	seen := en.permissions.changes.Load() // what is changed while the first run holds for the next
	for i := 0; i < len(calls); {
		n := 1
		if en.parallel(ctx, calls[i]) {
			for i+n < len(calls) && en.parallel(ctx, calls[i+n]) {
				n++
			}
		}
		en.runAtOnce(ctx, calls[i:i+n], results[i:i+n], seen)
		i += n
	}
	return results, nil
}

// parallel reports whether the tool of a call may run beside others.
func (en *entrance) parallel(ctx context.Context, c haft.Call) bool {
	tool, err := en.registry.Resolve(ctx, c.Principal.Org, c.Tool, c.Digest)
	return err == nil && tool.Tool.Version.Settings.Parallel
}

// runAtOnce runs calls at once, so many at a time.
func (en *entrance) runAtOnce(ctx context.Context, calls []haft.Call, results []*haft.Result, seen int64) {
	var wg sync.WaitGroup
	free := make(chan struct{}, batchWide)
	for i, c := range calls {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			results[i] = en.callOne(ctx, c, seen)
		})
	}
	wg.Wait()
}

// callOne runs a call and has a result whatever happens, except for a step of a chain that is
// postponed, or of which only the store can say what became: nil.
func (en *entrance) callOne(ctx context.Context, c haft.Call, seen int64) *haft.Result {
	if c.ID == "" {
		c.ID = haft.NewCallID()
	}
	res, err := en.callSince(ctx, c, seen)
	if err == nil {
		return res
	}
	if errors.Is(err, errPostponed) || c.Chain != "" && haft.CodeOf(err) == haft.CodeUnavailable {
		return nil
	}
	if errors.Is(err, callenv.ErrLabel) {
		c.ID = "" // which may be what holds the secret
	}
	ex := &execution{call: c}
	var blind error
	if ex.env.Redactor, blind = en.redaction.coverOf(ctx, c.Principal); blind != nil {
		ex.env.Redactor, ex.call.Tool = en.redaction.env.Plain(), "" // nobody can tell what in it is a secret
	}
	res, _ = en.pipeline.coded(ex, err) // it is the error that we have
	ex.redactResult(res)
	return res
}
