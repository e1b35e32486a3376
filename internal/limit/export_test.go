package limit

import "fmt"

// Join is Enter without the wait: for tests that do one thing after another.
func (l *Limiter) Join(ask Ask) (*Grant, error) { return l.scheduler.enter(ask) }

// Running reports whether g has its turn and has not left.
func (g *Grant) Running() bool {
	g.scheduler.mu.Lock()
	defer g.scheduler.mu.Unlock()
	return g.stage == running
}

// Check reports which of its promises the scheduler does not keep.
func (l *Limiter) Check() error {
	h := &l.scheduler
	h.mu.Lock()
	defer h.mu.Unlock()
	run, wait := 0, 0
	used := make(map[*key]int)
	if h.running > h.most {
		return fmt.Errorf("%d calls run, %d may", h.running, h.most)
	}
	for name, t := range h.tenants {
		run, wait = run+t.running, wait+t.waiting
		if t.running > h.perTenant {
			return fmt.Errorf("%d calls of %s run, %d may", t.running, name, h.perTenant)
		}
		if t.waiting > h.queue {
			return fmt.Errorf("%d calls of %s wait, %d may", t.waiting, name, h.queue)
		}
		calls := 0
		for _, c := range t.all() {
			for g := c.first; g != nil; g = g.next {
				calls++
			}
			for _, k := range c.keys {
				used[k] += 0
			}
			if h.running < h.most && t.running < h.perTenant && full(c.keys, c) == nil {
				return fmt.Errorf("a call of %s could run and waits", name)
			}
		}
		if calls != t.waiting {
			return fmt.Errorf("%d calls of %s are in queues, %d wait", calls, name, t.waiting)
		}
		if calls+t.running+t.settled == 0 && len(t.waitLists) == 0 && !t.queued {
			return fmt.Errorf("%s is not forgotten", name)
		}
	}
	if run != h.running || wait != h.waiting {
		return fmt.Errorf("tenants have %d and %d calls, all have %d and %d", run, wait, h.running, h.waiting)
	}
	for k := range used {
		if h.keys[k.name] != k {
			return fmt.Errorf("a call waits for a key that is forgotten")
		}
	}
	for name, k := range h.keys {
		if k.refs == 0 || k.used < 0 || k.used > k.refs {
			return fmt.Errorf("key %s is used by %d of %d calls", name, k.used, k.refs)
		}
	}
	return nil
}

// all returns the groups of t with calls, from wherever they are.
func (t *tenant) all() []*group {
	all := append([]*group(nil), t.ready...)
	for _, l := range t.waitLists {
		all = append(all, l.groups...)
	}
	return all
}

// Due reports whether slots are kept for a call.
func (l *Limiter) Due() bool {
	l.scheduler.mu.Lock()
	defer l.scheduler.mu.Unlock()
	for _, k := range l.scheduler.keys {
		if k.due != nil {
			return true
		}
	}
	return false
}

// Empty reports whether nothing is left of any call.
func (l *Limiter) Empty() bool {
	h := &l.scheduler
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch() // passes over tenants whose calls are gone
	return h.running+h.waiting+len(h.tenants)+len(h.keys)+h.turns.n == 0
}
