package limit

import (
	"cmp"
	"container/heap"
	"slices"
)

// A group has the calls of one tenant that wait and need the same keys, in the
// order in which they came. Either the first of them can run or none can, so they
// are looked at and moved as one.
//
// It is in one queue: the ready ones of its tenant, or those of waitList.
type group struct {
	tenant      *tenant
	keys        []*key
	set         set
	first, last *Grant
	waitList    *waitList
	index       int
	sent        *waitList // that sent it back to the ready ones
	tries       int       // of the first call that ended with a key that was taken
	due         bool      // the slots that come free are kept for it
}

// A set names a group within its tenant. Calls that need more keys than it has
// places for are a group each.
type set [4]*key

// A wait list has the groups of one tenant that wait for one key.
type waitList struct {
	tenant *tenant
	key    *key
	groups ordered[*group]
	listed bool   // is in key.waitLists
	sent   *group // to the ready ones; no other is, until it ran or waits again
	since  uint64 // when it began to wait, or last had a call that ran
}

// full returns a key that has no slot for group c; nil is a call that no slot is reserved for.
func full(keys []*key, c *group) *key {
	for _, k := range keys {
		if !k.open(c) {
			return k
		}
	}
	return nil
}

// await puts g, which cannot run, into its group.
func (s *scheduler) await(g *Grant) {
	t := g.tenant
	s.waiting++
	t.waiting++
	var name set
	shared := len(g.keys) <= len(name)
	if shared {
		copy(name[:], g.keys)
		if c := t.groups[name]; c != nil {
			g.group, g.prev = c, c.last
			c.last.next, c.last = g, g
			return
		}
	}
	c := &group{tenant: t, keys: slices.Clone(g.keys), set: name, first: g, last: g}
	g.group = c
	if shared {
		if t.groups == nil {
			t.groups = make(map[set]*group)
		}
		t.groups[name] = c
	}
	s.ready(c)
	s.dispatch()
}

// remove takes g out of its group.
func (c *group) remove(g *Grant) {
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
	g.group, g.prev, g.next = nil, nil, nil
}

// forget drops a group that is in no queue and has no calls.
func (s *scheduler) forget(c *group) {
	if c.tenant.groups[c.set] == c {
		delete(c.tenant.groups, c.set)
	}
}

// ready puts c among the ready groups of its tenant.
func (s *scheduler) ready(c *group) {
	heap.Push(&c.tenant.ready, c)
	s.line(c.tenant)
}

// park makes c wait for k, which is full.
func (s *scheduler) park(c *group, k *key) {
	s.arrived(c)
	t := c.tenant
	l := t.waitLists[k]
	if l == nil {
		if t.waitLists == nil {
			t.waitLists = make(map[*key]*waitList)
		}
		s.seq++
		l = &waitList{tenant: t, key: k, since: s.seq}
		t.waitLists[k] = l
	}
	c.waitList = l
	heap.Push(&l.groups, c)
	s.list(l)
}

// arrived notes that c, if a wait list has sent it, ran or goes elsewhere, so that the
// wait list may send the next.
func (s *scheduler) arrived(c *group) {
	l := c.sent
	if l == nil {
		return
	}
	c.sent, l.sent = nil, nil
	s.list(l)
	s.wake(l.key)
}

func (s *scheduler) list(l *waitList) {
	if !l.listed && l.sent == nil {
		l.listed = true
		l.key.waitLists = append(l.key.waitLists, l)
	}
}

// wake has each wait list at k send a group, if k is open, or else the one for which k
// is kept. The wait list that has waited longest is first to get in line.
func (s *scheduler) wake(k *key) {
	if !k.open(nil) {
		if c := k.due; c != nil && k.open(c) && c.waitList != nil && c.waitList.key == k {
			heap.Remove(&c.waitList.groups, c.index)
			c.waitList = nil
			s.ready(c)
		}
		return
	}
	if len(k.waitLists) > 1 {
		slices.SortFunc(k.waitLists, func(a, b *waitList) int { return cmp.Compare(a.since, b.since) })
	}
	for i, l := range k.waitLists {
		k.waitLists[i] = nil
		l.listed = false
		if len(l.groups) == 0 {
			delete(l.tenant.waitLists, k)
			s.tidy(l.tenant)
			continue
		}
		c := heap.Pop(&l.groups).(*group)
		c.waitList, c.sent, l.sent = nil, l, c
		s.ready(c)
	}
	k.waitLists = k.waitLists[:0]
}

// claim reserves the slots that c needs, if none of them is reserved for an earlier group.
// Reserved slots never hold up the earliest group, so that it will run, and after it the next.
func (s *scheduler) claim(c *group) {
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
			s.unclaim(k.due)
		}
		k.due = c
	}
	c.due = true
}

func (s *scheduler) unclaim(c *group) {
	c.tries = 0
	if !c.due {
		return
	}
	c.due = false
	for _, k := range c.keys {
		if k.due == c {
			k.due = nil
			s.wake(k)
		}
	}
}
