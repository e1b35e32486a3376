package cell

import (
	"context"
	"sync"
)

// gate bounds how many cells are being started at once. Calls that wait go
// before cells for stock, and keys take turns, so that a burst of one key does
// not hold up the others.
type gate struct {
	mu    sync.Mutex
	free  int
	calls map[Key][]*ticket // never empty lists
	turns []Key             // the keys of calls, in the order of their turns
	stock []*ticket
}

// A ticket waits for its turn; ready is closed when it has come.
type ticket struct {
	key   Key
	ready chan struct{}
	had   bool
}

// ask queues for a slot. The ticket must be given to leave, also if its turn
// never came.
func (g *gate) ask(key Key, forStock bool) *ticket {
	t := &ticket{key: key, ready: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case forStock:
		g.stock = append(g.stock, t)
	default:
		if g.calls == nil {
			g.calls = map[Key][]*ticket{}
		}
		if len(g.calls[key]) == 0 {
			g.turns = append(g.turns, key)
		}
		g.calls[key] = append(g.calls[key], t)
	}
	g.serve()
	return t
}

// wait blocks until it is t's turn, or ctx ends.
func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the slot back, or the place in the queue.
func (g *gate) leave(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.had {
		g.free++
	} else {
		g.stock = without(g.stock, t)
		if list := g.calls[t.key]; list != nil {
			g.queue(t.key, without(list, t))
		}
	}
	g.serve()
}

// serve hands out what is free. Preconditions: mu is held.
func (g *gate) serve() {
	for g.free > 0 {
		var t *ticket
		switch {
		case len(g.turns) > 0:
			key := g.turns[0]
			list := g.calls[key]
			t = list[0]
			g.turns = g.turns[1:]
			if len(list) > 1 {
				g.turns = append(g.turns, key)
			}
			g.calls[key] = list[1:]
			if len(list) == 1 {
				delete(g.calls, key)
			}
		case len(g.stock) > 0:
			t = g.stock[0]
			g.stock = g.stock[1:]
		default:
			return
		}
		g.free--
		t.had = true
		close(t.ready)
	}
}

// queue replaces the list of key. Preconditions: mu is held.
func (g *gate) queue(key Key, list []*ticket) {
	if len(list) > 0 {
		g.calls[key] = list
		return
	}
	delete(g.calls, key)
	for i, k := range g.turns {
		if k == key {
			g.turns = append(g.turns[:i:i], g.turns[i+1:]...)
			return
		}
	}
}

// without returns list without t.
func without(list []*ticket, t *ticket) []*ticket {
	for i, x := range list {
		if x == t {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
