package engine

import (
	"context"
	"fmt"
	"sync"

	"haft"
)

// The bounds on a batch.
const (
	maxBatch  = 128 // calls
	batchWide = 16  // of them at once
)

// Batch implements [haft.Planner]. Neighbours that may run beside each other do;
// the others wait for what stands before them.
func (e *Engine) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	if len(calls) > maxBatch {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("a batch has at most %d calls", maxBatch)}
	}
	results := make([]*haft.Result, len(calls))
	for i := 0; i < len(calls); {
		n := 1
		if e.parallel(ctx, calls[i]) {
			for i+n < len(calls) && e.parallel(ctx, calls[i+n]) {
				n++
			}
		}
		e.together(ctx, calls[i:i+n], results[i:i+n])
		i += n
	}
	return results, nil
}

// parallel reports whether the tool of a call may run beside others.
func (e *Engine) parallel(ctx context.Context, c haft.Call) bool {
	tool, err := e.registry.Resolve(ctx, c.Principal.Org, c.Tool, c.Digest)
	return err == nil && tool.Tool.Version.Settings.Parallel
}

// together runs calls at once, so many at a time.
func (e *Engine) together(ctx context.Context, calls []haft.Call, results []*haft.Result) {
	var wg sync.WaitGroup
	free := make(chan struct{}, batchWide)
	for i, c := range calls {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			results[i] = e.one(ctx, c)
		})
	}
	wg.Wait()
}

// one runs a call and has a result whatever happens.
func (e *Engine) one(ctx context.Context, c haft.Call) *haft.Result {
	if c.ID == "" {
		c.ID = NewCallID()
	}
	res, err := e.Call(ctx, c)
	if err == nil {
		return res
	}
	f := &flight{call: c}
	res, _ = e.coded(f, err) // it is the error that we have
	return res
}
