package cell

import (
	"slices"
	"sync"
)

// A startQueue bounds how many cells are being started at once. Waiting calls come
// before cells that are started in advance, and keys take turns, so that a burst of one
// key does not hold up the others.
type startQueue struct {
	mu      sync.Mutex
	free    int
	calls   map[Key][]*ticket // never empty lists
	turns   []Key             // the keys of calls, in the order of their turns
	advance []*ticket
}

// A ticket waits for its turn; ready is closed when it has come.
type ticket struct {
	key     Key
	ready   chan struct{}
	started bool
}

// enter queues for a start, in advance or for a call. The ticket must be given to leave,
// also if its turn never came.
func (q *startQueue) enter(key Key, inAdvance bool) *ticket {
	t := &ticket{key: key, ready: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if inAdvance {
		q.advance = append(q.advance, t)
	} else {
		if q.calls == nil {
			q.calls = map[Key][]*ticket{}
		}
		if len(q.calls[key]) == 0 {
			q.turns = append(q.turns, key)
		}
		q.calls[key] = append(q.calls[key], t)
	}
	q.serve()
	return t
}

// leave ends a start, or removes a ticket that still waits.
func (q *startQueue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.started {
		q.free++
	} else {
		isT := func(x *ticket) bool { return x == t }
		q.advance = slices.DeleteFunc(q.advance, isT)
		q.setCalls(t.key, slices.DeleteFunc(q.calls[t.key], isT))
	}
	q.serve()
}

// serve starts waiting tickets up to the limit. Preconditions: mu is held.
func (q *startQueue) serve() {
	for ; q.free > 0; q.free-- {
		var t *ticket
		switch {
		case len(q.turns) > 0:
			key := q.turns[0]
			t = q.calls[key][0]
			q.turns = append(q.turns[1:], key)
			q.setCalls(key, q.calls[key][1:])
		case len(q.advance) > 0:
			t, q.advance = q.advance[0], q.advance[1:]
		default:
			return
		}
		t.started = true
		close(t.ready)
	}
}

// setCalls replaces the list of a key. Preconditions: mu is held.
func (q *startQueue) setCalls(key Key, list []*ticket) {
	if len(list) > 0 {
		q.calls[key] = list
		return
	}
	delete(q.calls, key)
	q.turns = slices.DeleteFunc(q.turns, func(k Key) bool { return k == key })
}
