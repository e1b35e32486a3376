// Package journal keeps events together with what they tell of, in one transaction.
package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/store"
)

// A Journal keeps events together with what they tell of: the record of the call,
// the entry of the audit, the request for approval. All of it is in the store or
// none of it is. It implements [event.SharedLog].
type Journal struct {
	store *store.Store
	// Entries counts those of the audit since it was signed.
	Entries atomic.Int64

	mu sync.Mutex
	// moving are the parts that are about to be written: one of a call, so that a batch never
	// has two states of it.
	moving map[haft.CallID]*reservation
	// fresh are calls that have no events yet, so that nobody has to ask.
	fresh map[haft.CallID]bool
	// settled are parts that were not written, and why; nil means that an earlier try was
	// written after all.
	settled map[*store.Batch]error
	// owner is whose calls can be written, and errors makes what is told of those that
	// are not: because this process was given up, or because others have moved them.
	owner              func() string
	givenUp, overtaken func() error
	// cursor is where the log stands, if known.
	cursor int64
	known  bool
}

var (
	_ event.SharedLog = (*Journal)(nil)
	_ event.PartLog   = (*Journal)(nil)
)

// Shared implements [event.SharedLog].
func (j *Journal) Shared() bool { return j.store.Shared() }

// Tip implements [event.SharedLog].
func (j *Journal) Tip(ctx context.Context) (int64, error) { return j.store.Events.EventTip(ctx) }

// New returns a journal that knows nothing yet.
func New(s *store.Store, owner func() string, givenUp, overtaken func() error) *Journal {
	return &Journal{store: s, owner: owner, givenUp: givenUp, overtaken: overtaken,
		moving: map[haft.CallID]*reservation{}, fresh: map[haft.CallID]bool{}, settled: map[*store.Batch]error{}}
}

// Begin says that a call is new.
func (j *Journal) Begin(id haft.CallID) {
	j.mu.Lock()
	j.fresh[id] = true
	j.mu.Unlock()
}

// Forget drops what is known of a call that wrote nothing.
func (j *Journal) Forget(id haft.CallID) {
	j.mu.Lock()
	delete(j.fresh, id)
	j.mu.Unlock()
}

// Append implements [event.Log].
func (j *Journal) Append(ctx context.Context, events []haft.Event) error {
	return j.AppendParts(ctx, events, make([]any, len(events)))
}

// AppendParts implements [event.PartLog]: parts are *store.Batch. What belongs to a call
// that has moved on is left out, so that one call does not fail those that share its
// transaction. The audit gets the time at which it is written: a call that waits for its
// turn, or for a store that is away, would have an earlier one than the entry before.
func (j *Journal) AppendParts(ctx context.Context, events []haft.Event, parts []any) error {
	batch := store.Batch{Owner: j.owner(), Sure: true}
	var lost store.Stale
	j.mu.Lock()
	for i, e := range events {
		delete(j.fresh, e.Call)
		part, ok := parts[i].(*store.Batch)
		if !ok {
			continue
		}
		j.dropLocked(e.Call, part)
		for i := range part.Audit {
			part.Audit[i].Time = time.Time{}
		}
		if part.Owner != batch.Owner { // of before this process was given up
			lost.Calls = append(lost.Calls, e.Call)
			j.settled[part] = j.givenUp()
			continue
		}
		if len(events) == 1 {
			batch = *part // nothing to be put together
			break
		}
		batch.Records = append(batch.Records, part.Records...)
		batch.Audit = append(batch.Audit, part.Audit...)
		batch.Approvals = append(batch.Approvals, part.Approvals...)
		batch.Limits = append(batch.Limits, part.Limits...)
		batch.Keys, batch.Chosen = append(batch.Keys, part.Keys...), append(batch.Chosen, part.Chosen...)
		batch.Again, batch.Sure = batch.Again || part.Again, batch.Sure && part.Sure
	}
	j.known = false
	j.mu.Unlock()
	for {
		batch.Events = j.without(events, parts, &batch, &lost)
		err := error(nil)
		if len(batch.Events) > 0 {
			err = j.store.Commit(ctx, batch)
		}
		if more, ok := errors.AsType[*store.Stale](err); ok && len(more.Calls)+len(more.Kept) > 0 {
			lost = *more
			continue
		}
		if err != nil {
			return fmt.Errorf("keep %d events and what they tell of: %w", len(events), err)
		}
		break
	}
	// The store has numbered those that it took, which are others than ours if some were not.
	for i, n := 0, 0; i < len(events); i++ {
		if events[i].Cursor != 0 {
			events[i] = batch.Events[n]
			n++
		}
	}
	j.Entries.Add(int64(len(batch.Audit)))
	j.mu.Lock()
	if n := len(batch.Events); n > 0 {
		j.cursor, j.known = batch.Events[n-1].Cursor, true
	}
	j.mu.Unlock()
	return nil
}

// without takes what belongs to calls out of a batch, and returns the events that stay.
// The others lose their cursors, and why is kept for whoever waits for them.
func (j *Journal) without(events []haft.Event, parts []any, b *store.Batch,
	lost *store.Stale) []haft.Event {
	if len(lost.Calls)+len(lost.Kept) == 0 {
		return events
	}
	j.mu.Lock()
	for i, e := range events {
		part, ok := parts[i].(*store.Batch)
		switch {
		case !ok:
		case slices.Contains(lost.Kept, e.Call):
			j.settled[part] = nil
		case slices.Contains(lost.Calls, e.Call):
			if _, known := j.settled[part]; !known {
				j.settled[part] = j.overtaken()
			}
		}
	}
	j.mu.Unlock()
	out := func(id haft.CallID) bool { return slices.Contains(lost.Calls, id) || slices.Contains(lost.Kept, id) }
	b.Records = slices.DeleteFunc(b.Records, func(r haft.Record) bool { return out(r.Call.ID) })
	b.Audit = slices.DeleteFunc(b.Audit, func(e audit.Entry) bool { return out(e.Call) })
	b.Keys = slices.DeleteFunc(b.Keys, func(k store.Key) bool { return out(k.Call) })
	b.Approvals = slices.DeleteFunc(b.Approvals, func(a haft.Approval) bool { return out(a.Call) })
	var stay []haft.Event
	for i := range events {
		if out(events[i].Call) {
			events[i].Cursor = 0
		}
		if events[i].Cursor != 0 {
			stay = append(stay, events[i])
		}
	}
	return stay
}

// After implements [event.Log].
func (j *Journal) After(ctx context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	return j.store.Events.EventsAfter(ctx, f, after, limit)
}

// Last implements [event.Log]. Of calls that are new it knows the answer itself.
func (j *Journal) Last(ctx context.Context, calls []haft.CallID) (int64, map[haft.CallID]int64, error) {
	j.mu.Lock()
	var ask []haft.CallID
	for _, id := range calls {
		if !j.fresh[id] {
			ask = append(ask, id)
		}
	}
	cursor, known := j.cursor, j.known
	j.mu.Unlock()
	if known && len(ask) == 0 {
		return cursor, nil, nil
	}
	return j.store.Events.LastEvents(ctx, ask)
}

// Fresh counts the calls that are remembered to have no events yet.
func (j *Journal) Fresh() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.fresh)
}
