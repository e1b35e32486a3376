package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"haft"
)

// maxBatch is how many events are given to the log at once.
const maxBatch = 512

// A batch is what the log is given at once. Events that come while the log is
// busy wait in the next batch, so that many publishers pay for one write.
//
// The publisher that makes a batch is its leader: it waits for the batch before,
// seals its own, writes it and hands it out. So there is one writer at a time,
// and no goroutine for it.
type batch struct {
	before  *batch // nil once it is done
	events  []haft.Event
	parts   []any         // what each event is kept together with; see [PartLog]
	look    bool          // the current cursor of the log was asked for
	err     error         // valid once done is closed
	lookErr error         // of the look; valid once done is closed
	done    chan struct{} // closed by the leader
}

// errLogPanic is the error for the other events of a batch whose leader panicked.
var errLogPanic = errors.New("the log panicked")

// Publish numbers e, appends it to the log and passes it to the watchers. It returns e with its
// Seq and Cursor. An error means that no watcher got it, and the publisher has to handle that.
//
// The end of ctx does not stop it: an event is published even if the client that caused it has
// left.
func (h *Hub) Publish(ctx context.Context, e haft.Event) (haft.Event, error) {
	return h.PublishWith(ctx, e, nil)
}

// PublishWith is Publish for an event that the log keeps together with part, see [PartLog].
func (h *Hub) PublishWith(ctx context.Context, e haft.Event, part any) (haft.Event, error) {
	if err := check(e); err != nil {
		return haft.Event{}, fmt.Errorf("publish event: %w", err)
	}
	b, i, err := h.join(ctx, &e, part)
	if err != nil {
		return haft.Event{}, fmt.Errorf("publish event: %w", err)
	}
	if b.events[i].Cursor == 0 {
		return haft.Event{}, fmt.Errorf("publish event: %w", errDropped())
	}
	return b.events[i], nil
}

// check reports why e cannot be published.
func check(e haft.Event) error {
	if err := e.Principal.Check(); err != nil {
		return err
	}
	switch {
	case e.Call == "":
		return &haft.Error{Code: haft.CodeInvalid, Message: "an event belongs to a call"}
	case e.Type == "":
		return &haft.Error{Code: haft.CodeInvalid, Message: "an event has a type"}
	case len(e.Data) > MaxData:
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the data of the event has %d bytes, %d is the most", len(e.Data), MaxData)}
	case len(e.Data) > 0 && !json.Valid(e.Data):
		return &haft.Error{Code: haft.CodeInvalid, Message: "the data of the event is not JSON"}
	}
	return nil
}

// join puts e with its part, or nothing, into the next batch and waits until that is through.
func (h *Hub) join(ctx context.Context, e *haft.Event, part any) (*batch, int, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, 0, errClosed()
	}
	b := h.next
	leads := b == nil || len(b.events) >= maxBatch
	if leads {
		b = &batch{before: h.tail, done: make(chan struct{})}
		h.next, h.tail = b, b
	}
	i := len(b.events)
	if e != nil {
		b.events, b.parts = append(b.events, *e), append(b.parts, part)
	} else {
		b.look = true
	}
	h.mu.Unlock()
	if leads {
		h.lead(ctx, b)
	}
	<-b.done
	if e == nil && b.err == nil {
		return b, i, b.lookErr
	}
	return b, i, b.err
}

// lead writes b when its turn comes.
func (h *Hub) lead(ctx context.Context, b *batch) {
	if b.before != nil {
		<-b.before.done
		b.before = nil
	}
	h.mu.Lock()
	if h.next == b {
		h.next = nil // sealed
	}
	h.mu.Unlock()
	b.err = errLogPanic
	defer close(b.done)
	ctx, cancel := h.background(ctx)
	defer cancel()
	if b.look && h.shared != nil {
		b.lookErr = h.sync(ctx)
	}
	if b.err = h.write(ctx, b.events, b.parts); b.err != nil {
		return
	}
	first, last, n := kept(b.events)
	if n == 0 {
		return
	}
	h.mu.Lock()
	h.stats.Published += int64(n)
	h.stats.Refused += int64(len(b.events) - n)
	h.mu.Unlock()
	if h.behind(first) {
		// What others have appended comes first. The events are kept, so that an error
		// here only means that watchers get them with the next look.
		h.fresh = h.catchUp(ctx, last) == nil
		return
	}
	h.handOut(b.events)
}

// kept returns the cursors of the first and the last event that the log took, and of how
// many it did.
func kept(events []haft.Event) (first, last int64, n int) {
	for _, e := range events {
		if e.Cursor == 0 {
			continue
		}
		if n++; n == 1 {
			first = e.Cursor
		}
		last = e.Cursor
	}
	return first, last, n
}

// write numbers events and has the log keep them. Numbers count only once the
// log has them, so a refused event leaves no gap.
func (h *Hub) write(ctx context.Context, events []haft.Event, parts []any) error {
	kept := false
	defer func() { // also if the log panics
		if !kept {
			h.refused(events)
		}
	}()
	if err := h.learn(ctx, events); err != nil {
		return err
	}
	if len(events) == 0 {
		kept = true
		return nil
	}
	cursor := h.cursor // only a leader changes it
	for i := range events {
		e := &events[i]
		cursor++
		h.seqs[e.Call]++
		e.Cursor, e.Seq = cursor, h.seqs[e.Call]
	}
	h.fresh = false
	var err error
	if l, ok := h.cfg.Log.(PartLog); ok {
		err = l.AppendParts(ctx, events, parts)
	} else {
		err = h.cfg.Log.Append(ctx, events)
	}
	if err != nil {
		return fmt.Errorf("keep %d events: %w", len(events), err)
	}
	h.fresh, kept = true, true
	for _, e := range events {
		h.seqs[e.Call] = e.Seq // as it was kept
		if e.Type == haft.EventCompleted || e.Cursor == 0 {
			delete(h.seqs, e.Call)
		}
	}
	return nil
}

// learn asks the log where it stands: at the start, after an error, and for calls that
// the hub does not know.
func (h *Hub) learn(ctx context.Context, events []haft.Event) error {
	if !h.fresh { // first: others may have events of these calls
		cursor, _, err := h.cfg.Log.Last(ctx, nil)
		if err == nil {
			err = h.catchUp(ctx, cursor)
		}
		if err != nil {
			return fmt.Errorf("ask where the log of events stands: %w", err)
		}
	}
	var unknown []haft.CallID
	for _, e := range events {
		if _, ok := h.seqs[e.Call]; !ok {
			h.seqs[e.Call] = 0
			unknown = append(unknown, e.Call)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	_, seqs, err := h.cfg.Log.Last(ctx, unknown)
	if err != nil {
		return fmt.Errorf("ask where the log of events stands: %w", err)
	}
	for id, seq := range seqs {
		h.seqs[id] = seq
	}
	return nil
}

// catchUp passes on the events that the log kept although Append failed, and those that others
// appended. At the start there are no watchers.
func (h *Hub) catchUp(ctx context.Context, cursor int64) error {
	most := max(1, h.cfg.Queue/2) // at once, so that they fit into the queues
	for h.begun && h.cursor < cursor && !h.skip(cursor) {
		events, err := h.cfg.Log.After(ctx, Filter{}, h.cursor, most)
		if errors.Is(err, ErrLost) {
			h.loseAll()
			break
		}
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		if h.shared != nil {
			for _, e := range events {
				delete(h.seqs, e.Call) // its next number is asked for
			}
		}
		h.handOut(events)
	}
	h.mu.Lock()
	h.cursor = max(h.cursor, cursor)
	h.mu.Unlock()
	h.fresh, h.begun = true, true
	return nil
}

// refused counts events that were not kept, and forgets the numbers that they
// had.
func (h *Hub) refused(events []haft.Event) {
	for _, e := range events {
		delete(h.seqs, e.Call)
	}
	h.mu.Lock()
	h.stats.Refused += int64(len(events))
	h.mu.Unlock()
}

// handOut puts events into the queues of the watchers that they match.
func (h *Hub) handOut(events []haft.Event) {
	for _, w := range h.deliver(events) {
		h.cfg.Logger.Warn("a watcher of events was too slow and was dropped",
			"tenant", w.filter.Org, "agent", w.filter.Agent, "queue", h.cfg.Queue)
	}
}

// deliver does the work of handOut and returns the watchers that it dropped.
func (h *Hub) deliver(events []haft.Event) (dropped []*watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if e.Cursor == 0 { // the log did not take it
			continue
		}
		for w := range h.orgs[e.Principal.Org] {
			if w.filter.Fits(e) && !w.push(e, h.cfg.Queue) {
				h.removeLocked(w)
				dropped = append(dropped, w)
			}
			w.seen.Store(e.Cursor)
		}
		h.cursor = e.Cursor
	}
	h.stats.Dropped += int64(len(dropped))
	return dropped
}
