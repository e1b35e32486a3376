package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/audit"
	"haft/event"
	"haft/store"
)

// journal keeps events together with what they tell of: the record of the call,
// the entry of the audit, the request for approval. All of it is in the store or
// none of it is. It implements [event.Log].
type journal struct {
	store *store.Store
	// entries counts those of the audit since it was signed.
	entries atomic.Int64

	mu sync.Mutex
	// parts are what the next event of a call is to be written with.
	parts map[haft.CallID]*store.Batch
	// fresh are calls that have no events yet, so that nobody has to ask.
	fresh map[haft.CallID]bool
	// stale are calls whose record could not be opened again.
	stale map[haft.CallID]bool
	// cursor is where the log stands, if known.
	cursor int64
	known  bool
}

var _ event.Log = (*journal)(nil)

// newJournal returns a journal that knows nothing yet.
func newJournal(s *store.Store) *journal {
	return &journal{store: s, parts: make(map[haft.CallID]*store.Batch), fresh: make(map[haft.CallID]bool), stale: make(map[haft.CallID]bool)}
}

// begin says that a call is new.
func (j *journal) begin(id haft.CallID) {
	j.mu.Lock()
	j.fresh[id] = true
	j.mu.Unlock()
}

// forget drops what is known of a call that wrote nothing.
func (j *journal) forget(id haft.CallID) {
	j.mu.Lock()
	delete(j.fresh, id)
	delete(j.parts, id)
	j.mu.Unlock()
}

// attach has part written with the next event of the call.
func (j *journal) attach(id haft.CallID, part *store.Batch) {
	j.mu.Lock()
	j.parts[id] = part
	j.mu.Unlock()
}

// Append implements [event.Log].
func (j *journal) Append(ctx context.Context, events []haft.Event) error {
	batch := store.Batch{Events: events, Sure: true}
	j.mu.Lock()
	for _, e := range events {
		delete(j.fresh, e.Call)
		part := j.parts[e.Call]
		if part == nil {
			continue
		}
		delete(j.parts, e.Call)
		if len(events) == 1 {
			batch = *part // nothing to be put together
			batch.Events = events
			break
		}
		batch.Records = append(batch.Records, part.Records...)
		batch.Audit = append(batch.Audit, part.Audit...)
		batch.Approvals = append(batch.Approvals, part.Approvals...)
		batch.Limits = append(batch.Limits, part.Limits...)
		batch.Chains = append(batch.Chains, part.Chains...)
		batch.Again, batch.Sure = batch.Again || part.Again, batch.Sure && part.Sure
	}
	j.known = false
	j.mu.Unlock()
	err := j.store.Commit(ctx, batch)
	if old, ok := errors.AsType[*store.Stale](err); ok && len(old.Calls) > 0 {
		// One call must not fail those that share its transaction.
		err = j.store.Commit(ctx, j.without(batch, old.Calls))
	}
	if err != nil {
		return fmt.Errorf("keep %d events and what they tell of: %w", len(events), err)
	}
	j.entries.Add(int64(len(batch.Audit)))
	j.mu.Lock()
	j.cursor, j.known = events[len(events)-1].Cursor, true
	j.mu.Unlock()
	return nil
}

// without takes the records of calls out of a batch, and remembers that they
// were refused.
func (j *journal) without(b store.Batch, calls []haft.CallID) store.Batch {
	j.mu.Lock()
	for _, id := range calls {
		j.stale[id] = true
	}
	j.mu.Unlock()
	b.Records = slices.DeleteFunc(b.Records, func(r haft.Record) bool { return slices.Contains(calls, r.Call.ID) })
	b.Audit = slices.DeleteFunc(b.Audit, func(e audit.Entry) bool { return slices.Contains(calls, e.Call) })
	b.Approvals = slices.DeleteFunc(b.Approvals, func(a haft.Approval) bool { return slices.Contains(calls, a.Call) })
	return b
}

// refused reports, once, whether the record of a call was refused.
func (j *journal) refused(id haft.CallID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.stale[id]
	delete(j.stale, id)
	return was
}

// After implements [event.Log].
func (j *journal) After(ctx context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	return j.store.EventsAfter(ctx, f, after, limit)
}

// Last implements [event.Log]. Of calls that are new it knows the answer itself.
func (j *journal) Last(ctx context.Context, calls []haft.CallID) (int64, map[haft.CallID]int64, error) {
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
	return j.store.LastEvents(ctx, ask)
}

// tell publishes an event of a flight together with part.
func (e *Engine) tell(ctx context.Context, f *flight, typ haft.EventType, data any, part *store.Batch) error {
	var raw json.RawMessage
	if data != nil {
		var err error
		if raw, err = json.Marshal(data); err != nil {
			return fmt.Errorf("encode the data of an event: %w", err)
		}
		if raw, _ = f.redactor.JSON(raw); len(raw) > event.MaxData {
			raw = json.RawMessage(`{"omitted":"too large"}`)
		}
	}
	call := f.named()
	if call.Principal.User != "" { // else it says whose events they are
		call.Principal.Credential = "" // it is nothing that others watch
	}
	ev, err := haft.NewEvent(call, typ, time.Now(), raw)
	if err != nil {
		return err
	}
	if part != nil {
		e.journal.attach(f.call.ID, part)
	}
	if _, err := e.hub.Publish(ctx, ev); err != nil {
		e.journal.forget(f.call.ID)
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the call cannot be recorded", Err: err}
	}
	if part != nil && e.journal.refused(f.call.ID) {
		return &haft.Error{Code: haft.CodeConflict, Message: "the call has ended already"}
	}
	return nil
}

// named returns the call with the name of its tool, whatever it was called by, and
// without its payload.
func (f *flight) named() haft.Call {
	c := haft.Call{ID: f.call.ID, Tool: f.call.Tool, Principal: f.call.Principal, Trace: f.call.Trace}
	if f.tool != nil {
		c.Tool = f.tool.Tool.Name
	} else {
		c.Tool = f.redactor.Text(c.Tool) // it can be anything
	}
	if f.agent == nil && c.Principal.Agent != "" {
		c.Principal.Agent = f.redactor.Text(c.Principal.Agent) // nor is there an agent of this name
	}
	return c
}
