package engine

import (
	"context"
	"fmt"
	"sync"

	"haft"
)

// chainsAtOnce is how many chains are taken further at once in the background.
const chainsAtOnce = 256

// A chainRef names a chain.
type chainRef struct {
	org string
	id  haft.ChainID
}

// chainWork has the chains that are to be taken further in the background, in the order in
// which they came. It has only their names: where they stand is in the store.
type chainWork struct {
	most  int // of an organisation
	spawn func(func(context.Context)) bool
	run   func(context.Context, chainRef)

	mu      sync.Mutex
	queue   []chainRef
	known   map[chainRef]bool // in the queue or running; true means that it has to be run again
	orgs    map[string]int
	running int
	closed  bool
}

func newChainWork(most int, spawn func(func(context.Context)) bool, run func(context.Context, chainRef)) *chainWork {
	return &chainWork{most: most, spawn: spawn, run: run, known: map[chainRef]bool{}, orgs: map[string]int{}}
}

// room refuses a chain of an organisation that has too many already.
func (w *chainWork) room(org string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.orgs[org] < w.most && !w.closed {
		return nil
	}
	return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(retryBacklog),
		Message: fmt.Sprintf("%d chains of the organisation wait already, which is the most", w.most)}
}

// push has a chain taken further. One that is being taken further is so once more.
func (w *chainWork) push(c chainRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return // the next engine goes on with it
	}
	if _, known := w.known[c]; known {
		w.known[c] = true
		return
	}
	w.known[c] = false
	w.orgs[c.org]++
	w.queue = append(w.queue, c)
	if w.running < chainsAtOnce {
		w.startLocked()
	}
}

// startLocked runs a goroutine that takes chains from the queue until it is empty.
// Precondition: mu is held.
func (w *chainWork) startLocked() {
	w.running++
	if !w.spawn(w.work) {
		w.running--
		w.closed = true
	}
}

// work takes chains from the queue until there are none.
func (w *chainWork) work(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && !w.closed {
		c := w.queue[0]
		w.queue = w.queue[1:]
		w.known[c] = false
		w.mu.Unlock()
		w.run(ctx, c)
		w.mu.Lock()
		if w.known[c] {
			w.queue = append(w.queue, c)
			continue
		}
		delete(w.known, c)
		if w.orgs[c.org]--; w.orgs[c.org] == 0 {
			delete(w.orgs, c.org)
		}
	}
	w.running--
}

// close starts nothing more.
func (w *chainWork) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
}

// goOn takes a chain further in the background. If it fails, it is taken up again by
// sweepChains.
func (e *Engine) goOn(ctx context.Context, c chainRef) {
	_, err := e.advance(ctx, c.org, c.id)
	if err == nil || ctx.Err() != nil || haft.CodeOf(err) == haft.CodeConflict || e.overtaken(ctx, err) {
		return // it is with another process, or the next engine goes on with it
	}
	e.cfg.Logger.Warn("a chain does not go on; it is tried again", "chain", c.id, "error", err)
}

// sweepChains has open chains of this process taken further that nobody does.
func (e *Engine) sweepChains(ctx context.Context) error {
	list, err := e.store.IdleChains(ctx, e.owner())
	if err != nil {
		return err
	}
	for _, ref := range list {
		c, err := e.store.ChainOf(ctx, ref)
		if err != nil {
			return err
		}
		name := chainRef{c.Principal.Org, c.ID}
		if !e.chains.busy(name.org + "\x00" + string(name.id)) {
			e.chainWork.push(name)
		}
	}
	return nil
}
