package journal

import (
	"context"
	"errors"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// maxDropped is how often an event is published that was in one transaction with what somebody
// else, who was too late, had to say about the same call.
const maxDropped = 3

// Publish has a hub, whose log is the journal, publish an event together with part, or an event that moves nothing if
// part is nil. An error is known if it says what has become of the call, by the functions that [New] was given; else
// the store did not take the event.
func (j *Journal) Publish(ctx context.Context, hub *event.Hub, ev haft.Event, part *store.Batch) (known bool,
	err error) {
	if part == nil {
		for range maxDropped {
			if _, err = hub.Publish(ctx, ev); !errors.Is(err, event.ErrDropped) {
				break
			}
		}
		return false, err
	}
	if err = j.reserve(context.WithoutCancel(ctx), ev.Call, part); err != nil {
		return false, err
	}
	defer j.drop(ev.Call, part) // also if the hub panics
	if _, err = hub.PublishWith(ctx, ev, part); err == nil {
		return false, nil
	}
	if why, known := j.outcome(part); known {
		return true, why
	}
	return false, err
}

// A reservation is the turn of a part to be written.
type reservation struct {
	part *store.Batch
	over chan struct{}
}

// reserve waits until no other part of the call is about to be written: which of several may be
// written is for the store to say, not for who comes first here. The part has its turn until it
// is appended or dropped.
func (j *Journal) reserve(ctx context.Context, id haft.CallID, part *store.Batch) error {
	for {
		j.mu.Lock()
		other := j.moving[id]
		if other == nil {
			j.moving[id] = &reservation{part: part, over: make(chan struct{})}
		}
		j.mu.Unlock()
		if other == nil {
			return nil
		}
		select {
		case <-other.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drop gives back the turn of a part, if it still has it.
func (j *Journal) drop(id haft.CallID, part *store.Batch) {
	j.mu.Lock()
	j.dropLocked(id, part)
	j.mu.Unlock()
}

func (j *Journal) dropLocked(id haft.CallID, part *store.Batch) {
	if r := j.moving[id]; r != nil && r.part == part {
		delete(j.moving, id)
		close(r.over)
	}
}

// outcome says, once, why a part was not written, if that is known: nil means that it was before.
func (j *Journal) outcome(part *store.Batch) (err error, known bool) { //nolint:revive,staticcheck // whether it is known comes second, as of a map
	j.mu.Lock()
	defer j.mu.Unlock()
	err, known = j.settled[part]
	delete(j.settled, part)
	return err, known
}
