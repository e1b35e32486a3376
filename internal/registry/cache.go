package registry

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"haft"
)

// The bounds on the compiled tools that are kept.
const (
	defaultCache = 4096
	maxCost      = 256 << 20 // bytes, roughly
)

// A key is how a version was asked for.
type key struct {
	org, ref, digest string // digest "" is the current version
}

// A stamp says in which state a tool was read.
type stamp struct {
	id      haft.ToolID
	number  int   // of the current version
	updated int64 // microseconds
}

func stampOf(t haft.Tool) stamp {
	return stamp{t.ID, t.Version.Number, t.Updated.UnixMicro()}
}

// An entry is a tool as it was read, with the version that was asked for.
type entry struct {
	key      key
	name     string
	stamp    stamp
	disabled bool
	compiled *Compiled // nil if no version is active
	err      error     // why compiled must not run
	cost     int64
}

// A pendingLoad is a tool that one caller loads and others wait for.
type pendingLoad struct {
	done  chan struct{}
	entry *entry
	err   error
}

// cache keeps entries and drops the least recently used first.
//
// A load that began before a write may end after it. So every write begins a new age.
// An entry that was read in an older age is returned to the callers that waited for it,
// and is not kept.
type cache struct {
	most int

	mu      sync.Mutex
	entries map[key]*list.Element // of *entry
	recent  *list.List            // most recent first
	cost    int64
	age     uint64
	loads   map[loadKey]*pendingLoad
}

// A loadKey lets callers share a load only if the answer is the same for all of them.
type loadKey struct {
	key   key
	age   uint64
	stamp stamp
}

func newCache(most int) *cache {
	if most <= 0 {
		most = defaultCache
	}
	return &cache{most: most, entries: map[key]*list.Element{}, recent: list.New(), loads: map[loadKey]*pendingLoad{}}
}

// entry returns the entry of k. If fresh is set, the entry must be of this state. An entry
// that is not kept is loaded, once for all callers that want it at the same time.
func (c *cache) entry(ctx context.Context, k key, fresh *stamp,
	load func(context.Context) (*entry, error)) (*entry, error) {
	for {
		c.mu.Lock()
		if el := c.entries[k]; el != nil {
			if e := el.Value.(*entry); fresh == nil || e.stamp == *fresh {
				c.recent.MoveToFront(el)
				c.mu.Unlock()
				return e, nil
			}
		}
		lk := loadKey{key: k, age: c.age}
		if fresh != nil {
			lk.stamp = *fresh
		}
		p := c.loads[lk]
		if p == nil {
			p = &pendingLoad{done: make(chan struct{})}
			c.loads[lk] = p
			c.mu.Unlock()
			c.run(ctx, lk, p, load)
			return p.entry, p.err
		}
		c.mu.Unlock()
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		// The caller that loaded may have been cancelled. That is no answer for this one.
		if errors.Is(p.err, context.Canceled) || errors.Is(p.err, context.DeadlineExceeded) {
			if ctx.Err() == nil {
				continue
			}
		}
		return p.entry, p.err
	}
}

// errPanic is the error of waiters if loading panicked.
var errPanic = errors.New("loading a tool panicked")

// run loads an entry and keeps it unless something was written meanwhile.
func (c *cache) run(ctx context.Context, lk loadKey, p *pendingLoad, load func(context.Context) (*entry, error)) {
	p.err = errPanic
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.loads, lk)
		if p.err == nil && c.age == lk.age {
			c.keep(p.entry)
		}
		close(p.done)
	}()
	p.entry, p.err = load(ctx)
}

// keep adds an entry and forgets the oldest. Precondition: mu is held.
func (c *cache) keep(e *entry) {
	if el := c.entries[e.key]; el != nil {
		c.drop(el)
	}
	c.entries[e.key] = c.recent.PushFront(e)
	c.cost += e.cost
	for c.recent.Len() > c.most || c.cost > maxCost && c.recent.Len() > 1 {
		c.drop(c.recent.Back())
	}
}

// drop forgets an entry. Precondition: mu is held.
func (c *cache) drop(el *list.Element) {
	e := c.recent.Remove(el).(*entry)
	delete(c.entries, e.key)
	c.cost -= e.cost
}

// forget drops all entries of a tool, by any name, and begins a new age.
// It looks at every entry: writes are rare, and each is synced to a disk.
func (c *cache) forget(org string, id haft.ToolID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age++
	for k, el := range c.entries {
		if e := el.Value.(*entry); k.org == org && (e.stamp.id == id && id != "" || e.name == name) {
			c.drop(el)
		}
	}
}
