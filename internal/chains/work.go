package chains

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"haft"
)

// chainsAtOnce is how many chains are taken further at once in the background. An
// organisation that has none among them gets one more: long chains of others do not keep
// its own from going on.
const chainsAtOnce = 256

// A chainRef names a chain.
type chainRef struct {
	org string
	id  haft.ChainID
}

// chainWork has the chains that are to be taken further in the background: of each
// organisation in the order in which they came. It has only their names: where they stand
// is in the store.
type chainWork struct {
	most  int // of an organisation
	spawn func(func(context.Context)) bool
	run   func(context.Context, chainRef)

	mu      sync.Mutex
	queues  map[string][]chainRef // by organisation; none is empty
	known   map[haft.ChainID]bool // in a queue or running; true means that it has to be run again
	orgs    map[string]int        // how many are known
	running map[string]int        // by organisation
	workers int
	closed  bool
}

func newChainWork(most int, spawn func(func(context.Context)) bool, run func(context.Context, chainRef)) *chainWork {
	return &chainWork{most: most, spawn: spawn, run: run, queues: map[string][]chainRef{},
		known: map[haft.ChainID]bool{}, orgs: map[string]int{}, running: map[string]int{}}
}

// refuseIfFull refuses a chain of an organisation that has too many already.
func (w *chainWork) refuseIfFull(org string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.orgs[org] < w.most && !w.closed {
		return nil
	}
	return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(retryWhenFull),
		Message: fmt.Sprintf("%d chains of the organisation wait already, which is the most", w.most)}
}

// has reports whether a chain is in a queue or running.
func (w *chainWork) has(id haft.ChainID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.known[id]
	return known
}

// push has a chain taken further. One that is being taken further is so once more.
func (w *chainWork) push(c chainRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return // the next engine goes on with it
	}
	if _, known := w.known[c.id]; known {
		w.known[c.id] = true
		return
	}
	w.known[c.id] = false
	w.orgs[c.org]++
	if w.workers >= chainsAtOnce && w.running[c.org] > 0 {
		w.queues[c.org] = append(w.queues[c.org], c)
		return
	}
	w.workers++
	w.running[c.org]++
	if !w.spawn(func(ctx context.Context) { w.work(ctx, c) }) {
		w.closed = true
	}
}

// work takes a chain further, and then others until there are none.
func (w *chainWork) work(ctx context.Context, c chainRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ok := true; ok && !w.closed; c, ok = w.nextLocked() {
		w.known[c.id] = false
		w.mu.Unlock()
		w.run(ctx, c)
		w.mu.Lock()
		if w.running[c.org]--; w.running[c.org] == 0 {
			delete(w.running, c.org)
		}
		if w.known[c.id] {
			w.queues[c.org] = append(w.queues[c.org], c)
			continue
		}
		delete(w.known, c.id)
		if w.orgs[c.org]--; w.orgs[c.org] == 0 {
			delete(w.orgs, c.org)
		}
	}
	w.workers--
}

// nextLocked takes a chain from the queue of the organisation that has the fewest running.
// Precondition: mu is held.
func (w *chainWork) nextLocked() (c chainRef, ok bool) {
	org, fewest := "", math.MaxInt
	if w.workers > chainsAtOnce {
		fewest = 1 // only one that has none
	}
	for o := range w.queues {
		if n := w.running[o]; n < fewest {
			org, fewest, ok = o, n, true
		}
	}
	if !ok {
		return c, false
	}
	c = w.queues[org][0]
	if w.queues[org] = w.queues[org][1:]; len(w.queues[org]) == 0 {
		delete(w.queues, org)
	}
	w.running[org]++
	return c, true
}

// close starts nothing more.
func (w *chainWork) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
}

// goOn takes a chain further in the background. If it fails, it is taken up again by
// Sweep.
func (ch *Chains) goOn(ctx context.Context, c chainRef) {
	_, err := ch.advance(ctx, c.org, c.id)
	if err == nil || ctx.Err() != nil || haft.CodeOf(err) == haft.CodeConflict || ch.host.Process.Elsewhere(ctx, err) ||
		errors.Is(err, ErrClosing) {
		return // it is with another process, or the next engine goes on with it
	}
	ch.cfg.Logger.Warn("a chain does not go on; it is tried again", "chain", c.id, "error", err)
}

// Sweep has open chains of this process taken further that nobody does.
func (ch *Chains) Sweep(ctx context.Context) error {
	list, err := ch.store.Chains.IdleChains(ctx, ch.host.Process.Owner())
	if err != nil {
		return err
	}
	for _, ref := range list {
		if ch.work.has(haft.ChainID(ref.ID)) {
			continue // thousands may wait for their turn
		}
		c, err := ch.store.Chains.ChainOf(ctx, ref)
		if err != nil {
			return err
		}
		name := chainRef{c.Principal.Org, c.ID}
		if !ch.locks.Busy(name.org + "\x00" + string(name.id)) {
			ch.work.push(name)
		}
	}
	return nil
}
