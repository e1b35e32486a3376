package journal

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// maxTurn is how long somebody waits for the turn of a part, whoever else writes. It is more than a store that is away
// is given by the hub.
const maxTurn = time.Minute

// Publish has a hub, whose log is the journal, publish an event together with part, or an event that moves nothing if
// part is nil. An error is known if it says what has become of the call, by the functions that [New] was given; else
// the store did not take the event.
func (j *Journal) Publish(ctx context.Context, hub *event.Hub, ev haft.Event, part *store.Batch) (known bool,
	err error) {
	var with any = part
	if part == nil {
		if _, err = hub.Publish(ctx, ev); !errors.Is(err, event.ErrDropped) {
			return false, err
		}
		// It was in one transaction with what somebody else, who was too late, had to say of the same call. With the
		// turn of the call it is in none.
		part, with = &store.Batch{}, nil
	}
	if err = j.reserve(ev.Call, part); err != nil {
		return false, err
	}
	defer j.drop(ev.Call, part) // also if the hub panics
	if _, err = hub.PublishWith(ctx, ev, with); err == nil {
		return false, nil
	}
	if why, known := j.outcome(part); known {
		return true, why
	}
	return false, err
}

// errNoTurn says that others write about a call for longer than anybody waits.
var errNoTurn = errors.New("others write about the call for too long")

// A reservation is the turn of a part to be written.
type reservation struct {
	part *store.Batch
	over chan struct{}
}

// reserve waits until no other part of the call is about to be written: which of several may be
// written is for the store to say, not for who comes first here. The part has its turn until it
// is appended or dropped. No end of a context stops the wait, as for [event.Hub.Publish].
func (j *Journal) reserve(id haft.CallID, part *store.Batch) error {
	var tooLate <-chan time.Time
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
		if tooLate == nil {
			tooLate = time.After(maxTurn)
		}
		select {
		case <-other.over:
		case <-tooLate:
			return errNoTurn
		}
	}
}

// drop gives back the turn of a part, if it still has it.
func (j *Journal) drop(id haft.CallID, part *store.Batch) {
	j.mu.Lock()
	j.dropLocked(id, part)
	delete(j.settled, part)
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
