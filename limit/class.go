package limit

import (
	"cmp"
	"container/heap"
	"slices"
)

// A class has the calls of one tenant that wait and need the same keys, in the
// order in which they came. Either the first of them can run or none can, so they
// are looked at and moved as one.
//
// It is in one queue: the ready ones of its tenant, or those parked in lane.
type class struct {
	tenant      *tenant
	keys        []*key
	set         set
	first, last *Grant
	lane        *lane
	index       int
	sent        *lane // that sent it back to the ready ones
	tries       int   // of the first call that ended with a key that was taken
	due         bool  // the slots that come free are kept for it
}

// A set names a class within its tenant. Calls that need more keys than it has
// places for are a class each.
type set [4]*key

// A lane has the classes of one tenant that wait for one key.
type lane struct {
	tenant *tenant
	key    *key
	parked queue
	listed bool   // is in key.lanes
	sent   *class // to the ready ones; no other is, until it ran or was parked
	since  uint64 // when it began to wait, or last had a call that ran
}

// full returns a key of which class c cannot have a slot; nil is a call that no
// slot is kept for.
func full(keys []*key, c *class) *key {
	for _, k := range keys {
		if !k.open(c) {
			return k
		}
	}
	return nil
}

// await puts g, which cannot run, into its class.
func (h *hall) await(g *Grant) {
	t := g.tenant
	h.waiting++
	t.waiting++
	var s set
	shared := len(g.keys) <= len(s)
	if shared {
		copy(s[:], g.keys)
		if c := t.classes[s]; c != nil {
			g.class, g.prev = c, c.last
			c.last.next, c.last = g, g
			return
		}
	}
	c := &class{tenant: t, keys: slices.Clone(g.keys), set: s, first: g, last: g}
	g.class = c
	if shared {
		if t.classes == nil {
			t.classes = make(map[set]*class)
		}
		t.classes[s] = c
	}
	h.ready(c)
	h.dispatch()
}

// remove takes g out of its class.
func (c *class) remove(g *Grant) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		c.first = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		c.last = g.prev
	}
	g.class, g.prev, g.next = nil, nil, nil
}

// forget drops a class that is in no queue and has no calls.
func (h *hall) forget(c *class) {
	if c.tenant.classes[c.set] == c {
		delete(c.tenant.classes, c.set)
	}
}

// ready puts c among the ready classes of its tenant.
func (h *hall) ready(c *class) {
	heap.Push(&c.tenant.ready, c)
	h.line(c.tenant)
}

// park makes c wait for k, which is full.
func (h *hall) park(c *class, k *key) {
	h.arrived(c)
	t := c.tenant
	l := t.lanes[k]
	if l == nil {
		if t.lanes == nil {
			t.lanes = make(map[*key]*lane)
		}
		h.seq++
		l = &lane{tenant: t, key: k, since: h.seq}
		t.lanes[k] = l
	}
	c.lane = l
	heap.Push(&l.parked, c)
	h.list(l)
}

// arrived notes that c, if a lane has sent it, ran or goes elsewhere, so that the
// lane may send the next.
func (h *hall) arrived(c *class) {
	l := c.sent
	if l == nil {
		return
	}
	c.sent, l.sent = nil, nil
	h.list(l)
	h.wake(l.key)
}

func (h *hall) list(l *lane) {
	if !l.listed && l.sent == nil {
		l.listed = true
		l.key.lanes = append(l.key.lanes, l)
	}
}

// wake has each lane at k send a class, if k is open, or else the one for which k
// is kept. The lane that has waited longest is first to get in line.
func (h *hall) wake(k *key) {
	if !k.open(nil) {
		if c := k.due; c != nil && k.open(c) && c.lane != nil && c.lane.key == k {
			heap.Remove(&c.lane.parked, c.index)
			c.lane = nil
			h.ready(c)
		}
		return
	}
	if len(k.lanes) > 1 {
		slices.SortFunc(k.lanes, func(a, b *lane) int { return cmp.Compare(a.since, b.since) })
	}
	for i, l := range k.lanes {
		k.lanes[i] = nil
		l.listed = false
		if len(l.parked) == 0 {
			delete(l.tenant.lanes, k)
			h.tidy(l.tenant)
			continue
		}
		c := heap.Pop(&l.parked).(*class)
		c.lane, c.sent, l.sent = nil, l, c
		h.ready(c)
	}
	k.lanes = k.lanes[:0]
}

// claim keeps the slots that c needs for it, if none of them is kept for one who
// came before. The earliest of all is never held up by what is kept for others,
// so that it will run, and after it the next.
func (h *hall) claim(c *class) {
	if c.due {
		return
	}
	for _, k := range c.keys {
		if k.due != nil && k.due.first.seq < c.first.seq {
			return
		}
	}
	for _, k := range c.keys {
		if k.due != nil {
			h.unclaim(k.due)
		}
		k.due = c
	}
	c.due = true
}

func (h *hall) unclaim(c *class) {
	c.tries = 0
	if !c.due {
		return
	}
	c.due = false
	for _, k := range c.keys {
		if k.due == c {
			k.due = nil
			h.wake(k)
		}
	}
}
