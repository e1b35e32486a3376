package eventtest

import (
	"context"
	"sync"
	"time"

	"haft"
	"haft/internal/event"
)

// The defaults of [Memory].
const (
	DefaultKept = 1024   // events per organisation
	defaultOrgs = 10_000 // organisations
)

// Memory is a [event.Log] that keeps the latest events of each organisation, as long
// as the process lives. One organisation's flood never pushes out the events of
// another.
type Memory struct {
	kept  int
	start int64

	mu    sync.Mutex
	last  int64
	orgs  map[string]*ring
	calls map[haft.CallID]counted
	// lost is the highest Cursor of the organisations that were pushed out as a
	// whole.
	lost int64
}

// ring holds the latest events of one organisation.
type ring struct {
	events []haft.Event // a circle once it is full
	head   int          // the oldest, once it is full
	lost   int64        // the highest Cursor that was pushed out
}

// counted is the state of one call.
type counted struct {
	seq  int64
	kept int // events of it in the ring
}

// NewMemory returns an empty log that keeps so many events per organisation; 0
// means [DefaultKept]. Cursors begin at start; 0 means the time in microseconds,
// so that a cursor of an earlier process is recognised as one: see [event.ErrLost].
func NewMemory(kept int, start int64) *Memory {
	if kept <= 0 {
		kept = DefaultKept
	}
	if start <= 0 {
		start = time.Now().UnixMicro()
	}
	return &Memory{
		kept: kept, start: start, last: start,
		orgs: make(map[string]*ring), calls: make(map[haft.CallID]counted),
	}
}

// Append implements [event.Log]. It does not fail.
func (m *Memory) Append(_ context.Context, events []haft.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		r := m.orgs[e.Principal.Org]
		if r == nil {
			m.evictOrg()
			// Older events of this organisation may have gone with its ring.
			r = &ring{lost: m.lost}
			m.orgs[e.Principal.Org] = r
		}
		m.push(r, e)
		m.last = e.Cursor
	}
	return nil
}

// push adds e to r and forgets the oldest event if r is full.
func (m *Memory) push(r *ring, e haft.Event) {
	c := m.calls[e.Call]
	m.calls[e.Call] = counted{e.Seq, c.kept + 1}
	if len(r.events) < m.kept {
		r.events = append(r.events, e)
		return
	}
	old := r.events[r.head]
	m.forget(old.Call)
	r.lost = old.Cursor
	r.events[r.head] = e
	r.head = (r.head + 1) % m.kept
}

// forget counts one event of a call less.
func (m *Memory) forget(id haft.CallID) {
	c := m.calls[id]
	if c.kept--; c.kept <= 0 {
		delete(m.calls, id)
		return
	}
	m.calls[id] = c
}

// evictOrg pushes out the organisation that was quiet for longest, if there are
// too many.
func (m *Memory) evictOrg() {
	if len(m.orgs) < defaultOrgs {
		return
	}
	var name string
	oldest := int64(-1)
	for org, r := range m.orgs {
		if c := r.newest(); oldest < 0 || c < oldest {
			name, oldest = org, c
		}
	}
	for _, e := range m.orgs[name].events {
		m.forget(e.Call)
	}
	delete(m.orgs, name)
	m.lost = max(m.lost, oldest)
}

// newest returns the Cursor of the latest event. A ring is never empty.
func (r *ring) newest() int64 {
	return r.events[(r.head+len(r.events)-1)%len(r.events)].Cursor
}

// After implements [event.Log].
func (m *Memory) After(_ context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Org == "" {
		return nil, event.Lost() // the hub has no need to ask: Append does not fail
	}
	r := m.orgs[f.Org]
	if r == nil {
		if after != 0 && (after < m.start || after < m.lost) {
			return nil, event.Lost()
		}
		return nil, nil
	}
	if after != 0 && (after < m.start || after < r.lost) {
		return nil, event.Lost()
	}
	var found []haft.Event
	for i := range r.events {
		e := r.events[(r.head+i)%len(r.events)]
		if e.Cursor > after && f.Fits(e) {
			if found = append(found, e); len(found) == limit {
				break
			}
		}
	}
	return found, nil
}

// Last implements [event.Log].
func (m *Memory) Last(_ context.Context, calls []haft.CallID) (int64, map[haft.CallID]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seqs := make(map[haft.CallID]int64, len(calls))
	for _, id := range calls {
		if c, ok := m.calls[id]; ok {
			seqs[id] = c.seq
		}
	}
	return m.last, seqs, nil
}
