package script

import (
	"sync"

	"haft/sandbox/cell"
)

// recent remembers, for each kind of cell, the source of the last call that
// succeeded in one. A parked cell is told it and compiles it, since the next call is
// likely to be of the same tool; one of another tool is told its own and compiles
// that. Cells are never shared between organisations, so what a tool could find in
// its memory is a source that its own organisation has stored: those of
// [executor.Request.Stored] are remembered, and no others.
//
// That it succeeded says that the interpreter survives compiling it.
type recent struct {
	mu    sync.Mutex
	heads map[cell.Key][]byte
}

// The bounds of what is remembered.
const (
	maxRecent     = 256
	maxRecentHead = 16 << 10
)

// note remembers the frame that tells a source.
func (c *recent) note(key cell.Key, head []byte) {
	if len(head) > maxRecentHead {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heads == nil || len(c.heads) >= maxRecent && c.heads[key] == nil {
		c.heads = make(map[cell.Key][]byte) // it is soon full of what is used again
	}
	c.heads[key] = head
}

// of returns the frame, or nil.
func (c *recent) of(key cell.Key) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heads[key]
}

// drop forgets the sources of some cells.
func (c *recent) drop(of func(cell.Key) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.heads {
		if of(key) {
			delete(c.heads, key)
		}
	}
}
