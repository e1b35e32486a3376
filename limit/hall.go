package limit

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// patience is how often a call finds one of its keys taken before they are kept
// for it.
const patience = 8

// spare bounds the tenants and keys that are kept for use again: most come and go
// with every call.
const spare = 64

// A hall is where calls wait and run.
//
// What holds whenever mu is free: if fewer calls run than may, each that waits is
// of a tenant that has all it may have, or needs a key that is full or kept for
// another. If a key is open, each lane at it that is not empty has sent a class to
// the ready ones.
type hall struct {
	most, perTenant, long, queue int

	mu      sync.Mutex
	tenants map[string]*tenant
	keys    map[string]*key
	running int
	settled int // run too, and do not count
	waiting int
	seq     uint64 // counts what has to be told apart by when it was
	// turns are the tenants with ready calls, in order. One that has none any more
	// or may not run another is passed over when it comes to it.
	turns ring
	// took is how long calls run, on average over the last few.
	took time.Duration

	spareTenants []*tenant
	spareKeys    []*key
}

type tenant struct {
	name    string
	running int
	settled int
	waiting int
	queued  bool  // is in turns
	ready   queue // classes that may be able to run
	classes map[set]*class
	lanes   map[*key]*lane
}

type key struct {
	name  string
	max   int
	used  int
	refs  int     // calls that need it, running or waiting
	lanes []*lane // that are to send a class when there is a free slot
	due   *class  // for which the next free slot is kept
}

// open reports whether c could have a slot of k; nil is anybody.
func (k *key) open(c *class) bool {
	free := k.max - k.used
	if k.due != nil && k.due != c {
		free--
	}
	return free > 0
}

func (h *hall) tenant(name string) *tenant {
	t := h.tenants[name]
	if t != nil {
		return t
	}
	if n := len(h.spareTenants); n > 0 {
		t, h.spareTenants = h.spareTenants[n-1], h.spareTenants[:n-1]
	} else {
		t = &tenant{}
	}
	t.name = name
	h.tenants[name] = t
	return t
}

// need notes that g needs a slot.
func (h *hall) need(g *Grant, s Slot) {
	k := h.keys[s.Key]
	if k == nil {
		if n := len(h.spareKeys); n > 0 {
			k, h.spareKeys = h.spareKeys[n-1], h.spareKeys[:n-1]
		} else {
			k = &key{}
		}
		k.name = s.Key
		h.keys[s.Key] = k
	}
	if slices.Contains(g.keys, k) {
		k.max = min(k.max, s.Max)
		return
	}
	more := s.Max > k.max
	k.max = s.Max
	k.refs++
	g.keys = append(g.keys, k)
	if more {
		h.wake(k)
		h.dispatch()
	}
}

// line gives t a turn, after all who have one.
func (h *hall) line(t *tenant) {
	if !t.queued && len(t.ready) > 0 && t.running < h.perTenant {
		t.queued = true
		h.turns.push(t)
	}
}

// dispatch runs what can run.
func (h *hall) dispatch() {
	for h.running < h.most {
		t := h.turns.pop()
		if t == nil {
			return
		}
		t.queued = false
		if t.running < h.perTenant {
			h.turn(t)
		}
		h.line(t)
		h.tidy(t)
	}
}

// turn runs the first ready call of t that can run, and parks those before it.
func (h *hall) turn(t *tenant) {
	for len(t.ready) > 0 {
		c := heap.Pop(&t.ready).(*class)
		k := full(c.keys, c)
		if k == nil {
			h.run(c)
			return
		}
		c.tries++
		h.park(c, k)
		if c.tries >= patience {
			h.claim(c)
		}
	}
}

// run starts the first call of c.
func (h *hall) run(c *class) {
	g := c.first
	c.remove(g)
	h.waiting--
	c.tenant.waiting--
	h.start(g)
	h.seq++
	for _, k := range c.keys {
		if l := c.tenant.lanes[k]; l != nil {
			l.since = h.seq
		}
	}
	if c.first == nil {
		h.forget(c)
	} else {
		h.ready(c)
	}
	h.unclaim(c)
	h.arrived(c)
	close(g.done)
}

func (h *hall) start(g *Grant) {
	g.stage = running
	g.began = time.Now()
	h.running++
	g.tenant.running++
	for _, k := range g.keys {
		k.used++
	}
}

// abandon takes out a call that waits.
func (h *hall) abandon(g *Grant) {
	c := g.class
	in := &c.tenant.ready
	if c.lane != nil {
		in = &c.lane.parked
	}
	g.stage = gone
	h.waiting--
	c.tenant.waiting--
	switch {
	case c.first != g:
		c.remove(g)
	case g.next != nil:
		c.remove(g)
		heap.Fix(in, c.index)
	default: // it is the only one
		heap.Remove(in, c.index)
		c.lane = nil
		c.remove(g)
		h.forget(c)
		h.unclaim(c)
		h.arrived(c)
	}
	h.part(g)
}

// leave takes out a call that runs.
func (h *hall) leave(g *Grant) {
	g.stage = gone
	if g.settled {
		h.settled--
		g.tenant.settled--
	} else {
		h.took += (time.Since(g.began) - h.took) / 8
		h.running--
		g.tenant.running--
	}
	for _, k := range g.keys {
		k.used--
		h.wake(k)
	}
	h.line(g.tenant)
	h.part(g)
}

// part lets others run in the place of g, and forgets whom nobody needs.
func (h *hall) part(g *Grant) {
	h.dispatch()
	for _, k := range g.keys {
		if k.refs--; k.refs > 0 {
			continue
		}
		delete(h.keys, k.name)
		*k = key{lanes: k.lanes} // empty: a key without calls is open, and wake was called since
		if len(h.spareKeys) < spare {
			h.spareKeys = append(h.spareKeys, k)
		}
	}
	h.tidy(g.tenant)
}

// tidy forgets t if it has no calls.
func (h *hall) tidy(t *tenant) {
	if t.running+t.settled+t.waiting+len(t.lanes) > 0 || t.queued || h.tenants[t.name] != t {
		return
	}
	delete(h.tenants, t.name)
	if len(h.spareTenants) < spare {
		t.name = ""
		h.spareTenants = append(h.spareTenants, t)
	}
}
