package event

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// page is how many events are read from the log at once.
const page = 256

// A watcher has a bounded queue that the hub fills and its range loop empties.
type watcher struct {
	filter Filter
	wake   chan struct{} // holds one token if there is something to see
	// seen is the Cursor up to which all that fits is in the queue.
	seen atomic.Int64

	mu    sync.Mutex
	queue []haft.Event
	err   error // why nothing more will come
}

// push queues e. It returns false if the queue is full and the watcher was ended with an error.
func (w *watcher) push(e haft.Event, most int) bool {
	w.mu.Lock()
	full := len(w.queue) >= most
	if full {
		w.err = slow()
	} else {
		w.queue = append(w.queue, e)
	}
	w.mu.Unlock()
	w.nudge()
	return !full
}

// end ends the watcher after the events that are queued.
func (w *watcher) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	w.nudge()
}

func (w *watcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it knows already
	}
}

// take returns the queued events, and why the watch has ended, if it has.
func (w *watcher) take() ([]haft.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	return events, w.err
}

// overflowed reports whether the watcher was dropped for being slow.
func (w *watcher) overflowed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Is(w.err, ErrSlow)
}

// Watch yields the events that fit f after the one with the given Cursor: first
// those that are kept, then those to come. If after is 0 it begins with the
// oldest that is kept, and if it is less than 0 with the next that happens.
//
// It ends when ctx ends, or with one error: [ErrSlow], [ErrLost] or [ErrClosed],
// or what the log says. A watcher that is still reading what was kept is never
// too slow.
func (h *Hub) Watch(ctx context.Context, f Filter, after int64) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		if err := h.watch(ctx, f, after, yield); err != nil {
			yield(haft.Event{}, err)
		}
	}
}

// errEnough ends a watch whose range loop was left.
var errEnough = errors.New("enough")

// watch does the work of Watch, and returns the error to yield last.
func (h *Hub) watch(ctx context.Context, f Filter, after int64, yield func(haft.Event, error) bool) error {
	w, from, err := h.enter(ctx, f)
	if err != nil {
		return fmt.Errorf("watch events: %w", err)
	}
	defer func() { h.leave(w) }()
	switch {
	case after > from:
		return Lost() // of an earlier life of the log
	case after < 0:
		after = from
	}
	// The queue collects from here on what comes after from. What lies between
	// after and from is in the log. If the queue overflows meanwhile, then there
	// is more in the log.
	for after < from || w.overflowed() {
		if w.overflowed() {
			h.leave(w)
			if w, from, err = h.enter(ctx, f); err != nil {
				return fmt.Errorf("watch events: %w", err)
			}
		}
		if after, err = h.replay(ctx, f, after, from, yield); err != nil {
			return ended(ctx, err)
		}
	}
	if f.Marks && !yield(haft.Event{Cursor: after}, nil) {
		return nil
	}
	return ended(ctx, follow(ctx, w, yield))
}

// ended keeps quiet about ends that the watcher brought about.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// enter makes a watcher whose queue gets every event after the Cursor returned.
func (h *Hub) enter(ctx context.Context, f Filter) (*watcher, int64, error) {
	if err := f.check(); err != nil {
		return nil, 0, err
	}
	h.mu.Lock()
	unborn := h.cursor == 0
	h.mu.Unlock()
	if unborn || h.shared != nil { // learn where the log stands
		if _, _, err := h.join(ctx, nil, nil); err != nil {
			return nil, 0, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, 0, errClosed()
	case h.stats.Watchers >= h.cfg.Watchers:
		return nil, 0, &haft.Error{Code: haft.CodeUnavailable, Message: "too many are watching"}
	case len(h.orgs[f.Org]) >= h.cfg.WatchersPerOrg:
		return nil, 0, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("the organisation watches %d times already", h.cfg.WatchersPerOrg)}
	}
	w := &watcher{filter: f, wake: make(chan struct{}, 1)}
	if h.orgs[f.Org] == nil {
		h.orgs[f.Org] = make(map[*watcher]struct{})
	}
	h.orgs[f.Org][w] = struct{}{}
	h.stats.Watchers++
	h.pollLocked(ctx)
	return w, h.cursor, nil
}

// leave forgets a watcher.
func (h *Hub) leave(w *watcher) {
	if w == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(w)
}

// replay yields one page of what the log has between after and from, and returns
// how far it got.
func (h *Hub) replay(ctx context.Context, f Filter, after, from int64,
	yield func(haft.Event, error) bool) (int64, error) {
	if err := ctx.Err(); err != nil {
		return after, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Patience)
	defer cancel()
	events, err := h.cfg.Log.After(ctx, f, after, page)
	if err != nil {
		return after, fmt.Errorf("read kept events: %w", err)
	}
	for _, e := range events {
		if e.Cursor > from {
			return from, nil // the queue has it, or the next round will
		}
		if !yield(e, nil) {
			return after, errEnough
		}
		after = e.Cursor
	}
	if len(events) < page {
		return from, nil
	}
	return after, nil
}

// markEvery is how often a watcher that wants marks gets the cursor up to which events were
// read.
const markEvery = 2 * time.Second

// follow yields queued events until the watch ends.
func follow(ctx context.Context, w *watcher, yield func(haft.Event, error) bool) error {
	var tick <-chan time.Time
	if w.filter.Marks {
		t := time.NewTicker(markEvery)
		defer t.Stop()
		tick = t.C
	}
	last, marked := int64(0), false
	for {
		seen := w.seen.Load() // before the queue, which then has all up to there
		events, err := w.take()
		for _, e := range events {
			if ctx.Err() != nil {
				return nil
			}
			if last = e.Cursor; !yield(e, nil) {
				return errEnough
			}
		}
		if err != nil {
			return err
		}
		if marked && seen > last {
			if last = seen; !yield(haft.Event{Cursor: seen}, nil) {
				return errEnough
			}
		}
		marked = false
		select {
		case <-tick:
			marked = true
		case <-w.wake:
		case <-ctx.Done():
			return nil
		}
	}
}
