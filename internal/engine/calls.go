package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"haft"
)

// A callTable has the calls that are on their way in this process, and every goroutine of the engine.
type callTable struct {
	cfg *Config

	mu         sync.Mutex
	executions map[haft.CallID]*execution // what is on its way in this process
	// recording are calls that have ended and whose end the store has yet to take.
	recording map[haft.CallID]bool
	closed    bool

	launched   atomic.Int64    // ends of calls that are still to be recorded
	inFlight   sync.WaitGroup  // every execution
	background sync.WaitGroup  // every goroutine of the engine
	handedOver atomic.Bool     // others go on with accepted calls
	ctx        context.Context //nolint:containedctx // ends with the engine
	cancel     context.CancelCauseFunc
}

// Go runs work in a goroutine that Close waits for. It reports whether the
// engine still takes work.
func (t *callTable) Go(work func(context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.background.Go(func() { work(t.ctx) })
	return true
}

// isClosed reports whether the engine is being closed.
func (t *callTable) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// awaitStart waits until accepted calls may run, and reports whether they may.
func (t *callTable) awaitStart(ctx context.Context) bool {
	if t.cfg.Started == nil {
		return true
	}
	select {
	case <-t.cfg.Started:
		return true
	case <-ctx.Done():
		return false
	}
}

// Running returns how many calls are on their way in this process.
func (t *callTable) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.executions)
}
