package event

import (
	"context"
	"errors"
	"time"
)

// A SharedLog is a [Log] that hubs of other processes append to as well. Its cursors become
// visible in their order: a reader that continues after one never misses a smaller one. So the
// order of the log is the order of events for every watcher of every hub.
type SharedLog interface {
	Log
	// Shared reports whether others can append. If not, the hub does not read Tip.
	Shared() bool
	// Tip returns the highest Cursor of all that was appended, by whomever.
	Tip(ctx context.Context) (int64, error)
}

// pollEvery is how often a hub with watchers looks for the events of others. A query by
// a primary key is cheap, and waiting for notifications would hold a connection.
const pollEvery = 250 * time.Millisecond

// sync hands out what others have appended. Precondition: it is this batch's turn.
func (h *Hub) sync(ctx context.Context) error {
	tip, err := h.shared.Tip(ctx)
	if err != nil {
		return err
	}
	return h.catchUp(ctx, tip)
}

// behind reports whether others have appended before an event that was appended just
// now. Precondition: it is this batch's turn.
func (h *Hub) behind(cursor int64) bool {
	return h.shared != nil && cursor != h.cursor+1
}

// skip moves on without reading if there are no watchers, and reports whether it did. Skipped
// events may be of calls that are known here, so that their numbers are read again.
// Precondition: it is this batch's turn.
func (h *Hub) skip(cursor int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stats.Watchers > 0 {
		return false
	}
	h.cursor = max(h.cursor, cursor)
	clear(h.seqs)
	return true
}

// loseAll ends every watch: events that it should have got are no longer kept.
func (h *Hub) loseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endAllLocked(Lost())
}

// pollLocked starts the search for events of other processes, which lasts as long as there are
// watchers. Precondition: h.mu is held.
func (h *Hub) pollLocked(ctx context.Context) {
	if h.shared == nil || h.polling {
		return
	}
	h.polling = true
	ctx = context.WithoutCancel(ctx)
	h.polls.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		failing := false
		for {
			select {
			case <-tick.C:
			case <-h.ended:
			}
			h.mu.Lock()
			if h.polling = !h.closed && h.stats.Watchers > 0; !h.polling {
				h.mu.Unlock()
				return
			}
			h.mu.Unlock()
			_, _, err := h.join(ctx, nil, nil)
			if err != nil && !failing && !errors.Is(err, ErrClosed) {
				h.cfg.Logger.Warn("the events of other servers cannot be read; it is tried again", "err", err)
			}
			failing = err != nil
		}
	})
}
