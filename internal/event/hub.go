package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"haft"
)

// The reasons why a watch ends, besides the end of its context.
var (
	// ErrSlow: the watcher took too long, and its queue is full. It may watch
	// again, after the last Cursor it got.
	ErrSlow = errors.New("the watcher was too slow")
	// ErrLost: events after the given Cursor are no longer kept. The watcher has
	// to look at the calls themselves and watch from now on.
	ErrLost = errors.New("events are no longer kept")
	// ErrDropped: the log did not take the event. It is not the reason of a watch.
	ErrDropped = errors.New("the event was not taken")
	// ErrClosed: the hub is shutting down.
	ErrClosed = errors.New("the hub is closed")
)

// MaxData is the longest Data of an event, in bytes.
const MaxData = 1 << 20

// Config has the settings of a hub. Log must be given.
type Config struct {
	// Log keeps the events.
	Log Log
	// Queue is how many events may wait for one watcher before it counts as
	// slow; 0 means 256.
	Queue int
	// Watchers is how many there may be at once; 0 means 10,000.
	Watchers int
	// WatchersPerOrg is how many of them one organisation may have; 0 means
	// 1,000.
	WatchersPerOrg int
	// Patience bounds one call of the log; 0 means 10 seconds.
	Patience time.Duration
	// Logger gets a record of each watcher that was dropped; nil discards.
	Logger *slog.Logger
}

// Stats are counts since the hub was made, but for Watchers.
type Stats struct {
	Published int64 // events that were kept and handed out
	Refused   int64 // events that the log did not take
	Dropped   int64 // watchers that were too slow
	Watchers  int   // there now
}

// A Hub numbers events, keeps them and hands them out. It is safe for concurrent
// use.
//
// Lifecycle: [New], then Publish and Watch in any order, then Close.
type Hub struct {
	cfg    Config
	shared SharedLog // nil if only this hub appends to its log

	// The writer's state: touched only by the leader of the batch whose turn it
	// is, see publish.go.
	seqs  map[haft.CallID]int64 // of calls that are under way
	fresh bool                  // cursor is known to be the log's
	begun bool                  // cursor was known to be the log's once

	// mu comes before the mu of a watcher.
	mu     sync.Mutex
	next   *batch // takes events; nil if none waits
	tail   *batch // the batch made last
	cursor int64  // of the latest event that was handed out
	orgs   map[string]map[*watcher]struct{}
	stats  Stats
	closed bool

	polling bool           // guarded by mu
	polls   sync.WaitGroup // that Close waits for
	ended   chan struct{}  // closed by Close
}

// New returns a hub that has done nothing yet.
func New(cfg Config) *Hub {
	cfg.Queue = cmp.Or(max(cfg.Queue, 0), 256)
	cfg.Watchers = cmp.Or(max(cfg.Watchers, 0), 10_000)
	cfg.WatchersPerOrg = cmp.Or(max(cfg.WatchersPerOrg, 0), 1000)
	cfg.Patience = cmp.Or(max(cfg.Patience, 0), 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	h := &Hub{
		cfg:   cfg,
		seqs:  make(map[haft.CallID]int64),
		orgs:  make(map[string]map[*watcher]struct{}),
		ended: make(chan struct{}),
	}
	if l, ok := cfg.Log.(SharedLog); ok && l.Shared() {
		h.shared = l
	}
	return h
}

// Cursor returns that of the last event of all calls: a watch after it gets what
// happens from now on.
func (h *Hub) Cursor(ctx context.Context) (int64, error) {
	h.mu.Lock()
	at := h.cursor
	h.mu.Unlock()
	if at != 0 && h.shared == nil {
		return at, nil
	}
	if _, _, err := h.join(ctx, nil, nil); err != nil { // learn where the log stands
		return 0, fmt.Errorf("read where the log of events stands: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cursor, nil
}

// Stats returns the counts of the hub.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Close refuses new events, waits for those that are being published, and ends every watch with
// [ErrClosed] after its queued events. Closing again changes nothing.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.ended)
	}
	tail := h.tail
	h.mu.Unlock()
	if tail != nil {
		<-tail.done
	}
	h.polls.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endAllLocked(errClosed())
}

// endAllLocked ends every watch. Precondition: h.mu is held.
func (h *Hub) endAllLocked(why error) {
	for _, watchers := range h.orgs {
		for w := range watchers {
			w.end(why)
			h.removeLocked(w)
		}
	}
}

// removeLocked forgets a watcher. Precondition: h.mu is held.
func (h *Hub) removeLocked(w *watcher) {
	watchers := h.orgs[w.filter.Org]
	if _, ok := watchers[w]; !ok {
		return
	}
	delete(watchers, w)
	if len(watchers) == 0 {
		delete(h.orgs, w.filter.Org)
	}
	h.stats.Watchers--
}

func slow() error {
	return &haft.Error{Code: haft.CodeUnavailable,
		Message: "events came faster than they were read; go on after the last one", Err: ErrSlow}
}

// Lost is the error of a [Log] that wraps [ErrLost].
func Lost() error {
	return &haft.Error{Code: haft.CodeConflict,
		Message: "events after that one are no longer kept; look at the calls and watch from now on", Err: ErrLost}
}

func errDropped() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "the call is not what it was any more", Err: ErrDropped}
}

func errClosed() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the server is shutting down", Err: ErrClosed}
}

// background is the context of work that must not stop half-way because the publisher that does
// it has left.
func (h *Hub) background(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Patience)
}
