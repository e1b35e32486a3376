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

// A scheduler is where calls wait and run.
//
// What holds whenever mu is free: if fewer calls run than may, each that waits is
// of a tenant that has all it may have, or needs a key that is full or kept for
// another. If a key is open, each wait list at it that is not empty has sent a group to
// the ready ones.
type scheduler struct {
	most, perTenant, long, queue int

	mu      sync.Mutex
	tenants map[string]*tenant
	keys    map[string]*key
	running int
	settled int // run too, and do not count
	waiting int
	seq     uint64 // orders events in time
	// turns are the tenants with ready calls, in order. A tenant that has none any more, or may
	// not run another, is skipped at its turn.
	turns roundRobin
	// took is how long calls run, on average over the last few.
	took time.Duration

	spareTenants []*tenant
	spareKeys    []*key
}

type tenant struct {
	name      string
	running   int
	settled   int
	waiting   int
	queued    bool            // is in turns
	ready     ordered[*group] // groups that may be able to run
	groups    map[set]*group
	waitLists map[*key]*waitList
}

type key struct {
	name      string
	max       int
	used      int
	refs      int         // calls that need it, running or waiting
	waitLists []*waitList // that are to send a group when there is a free slot
	due       *group      // for which the next free slot is kept
}

// open reports whether group c could have a slot of k; nil means a call that no slot is
// reserved for.
func (k *key) open(c *group) bool {
	free := k.max - k.used
	if k.due != nil && k.due != c {
		free--
	}
	return free > 0
}

func (s *scheduler) tenant(name string) *tenant {
	t := s.tenants[name]
	if t != nil {
		return t
	}
	if n := len(s.spareTenants); n > 0 {
		t, s.spareTenants = s.spareTenants[n-1], s.spareTenants[:n-1]
	} else {
		t = &tenant{}
	}
	t.name = name
	s.tenants[name] = t
	return t
}

// need notes that g needs a slot.
func (s *scheduler) need(g *Grant, slot Slot) {
	k := s.keys[slot.Key]
	if k == nil {
		if n := len(s.spareKeys); n > 0 {
			k, s.spareKeys = s.spareKeys[n-1], s.spareKeys[:n-1]
		} else {
			k = &key{}
		}
		k.name = slot.Key
		s.keys[slot.Key] = k
	}
	if slices.Contains(g.keys, k) {
		k.max = min(k.max, slot.Max)
		return
	}
	more := slot.Max > k.max
	k.max = slot.Max
	k.refs++
	g.keys = append(g.keys, k)
	if more {
		s.wake(k)
		s.dispatch()
	}
}

// line gives t a turn, after all tenants that have one.
func (s *scheduler) line(t *tenant) {
	if !t.queued && len(t.ready) > 0 && t.running < s.perTenant {
		t.queued = true
		s.turns.push(t)
	}
}

// dispatch runs what can run.
func (s *scheduler) dispatch() {
	for s.running < s.most {
		t := s.turns.pop()
		if t == nil {
			return
		}
		t.queued = false
		if t.running < s.perTenant {
			s.turn(t)
		}
		s.line(t)
		s.tidy(t)
	}
}

// turn runs the first ready call of t that can run, and parks those before it.
func (s *scheduler) turn(t *tenant) {
	for len(t.ready) > 0 {
		c := heap.Pop(&t.ready).(*group)
		k := full(c.keys, c)
		if k == nil {
			s.run(c)
			return
		}
		c.tries++
		s.park(c, k)
		if c.tries >= patience {
			s.claim(c)
		}
	}
}

// run starts the first call of c.
func (s *scheduler) run(c *group) {
	g := c.first
	c.remove(g)
	s.waiting--
	c.tenant.waiting--
	s.start(g)
	s.seq++
	for _, k := range c.keys {
		if l := c.tenant.waitLists[k]; l != nil {
			l.since = s.seq
		}
	}
	if c.first == nil {
		s.forget(c)
	} else {
		s.ready(c)
	}
	s.unclaim(c)
	s.arrived(c)
	close(g.done)
}

func (s *scheduler) start(g *Grant) {
	g.stage = running
	g.began = time.Now()
	s.running++
	g.tenant.running++
	for _, k := range g.keys {
		k.used++
	}
}

// abandon takes out a call that waits.
func (s *scheduler) abandon(g *Grant) {
	c := g.group
	in := &c.tenant.ready
	if c.waitList != nil {
		in = &c.waitList.groups
	}
	g.stage = gone
	s.waiting--
	c.tenant.waiting--
	switch {
	case c.first != g:
		c.remove(g)
	case g.next != nil:
		c.remove(g)
		heap.Fix(in, c.index)
	default: // it is the only one
		heap.Remove(in, c.index)
		c.waitList = nil
		c.remove(g)
		s.forget(c)
		s.unclaim(c)
		s.arrived(c)
	}
	s.part(g)
}

// leave takes out a call that runs.
func (s *scheduler) leave(g *Grant) {
	g.stage = gone
	if g.settled {
		s.settled--
		g.tenant.settled--
	} else {
		s.took += (time.Since(g.began) - s.took) / 8
		s.running--
		g.tenant.running--
	}
	for _, k := range g.keys {
		k.used--
		s.wake(k)
	}
	s.line(g.tenant)
	s.part(g)
}

// part lets others run in the place of g, and removes tenants and keys that are not in use.
func (s *scheduler) part(g *Grant) {
	s.dispatch()
	for _, k := range g.keys {
		if k.refs--; k.refs > 0 {
			continue
		}
		delete(s.keys, k.name)
		*k = key{waitLists: k.waitLists} // empty: a key without calls is open, and wake was called since
		if len(s.spareKeys) < spare {
			s.spareKeys = append(s.spareKeys, k)
		}
	}
	s.tidy(g.tenant)
}

// tidy forgets t if it has no calls.
func (s *scheduler) tidy(t *tenant) {
	if t.running+t.settled+t.waiting+len(t.waitLists) > 0 || t.queued || s.tenants[t.name] != t {
		return
	}
	delete(s.tenants, t.name)
	if len(s.spareTenants) < spare {
		t.name = ""
		s.spareTenants = append(s.spareTenants, t)
	}
}
