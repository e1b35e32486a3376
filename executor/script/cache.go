package script

import "sync"

// A cache is a bounded map. When it is full it is emptied, and soon holds again the
// entries that are used. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	max int

	mu      sync.Mutex
	entries map[K]V
}

// get returns the value of a key.
func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.entries[key]
	return v, ok
}

// has reports whether a key is there.
func (c *cache[K, V]) has(key K) bool {
	_, ok := c.get(key)
	return ok
}

// put sets the value of a key.
func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; !ok && len(c.entries) >= c.max {
		clear(c.entries)
	}
	if c.entries == nil {
		c.entries = map[K]V{}
	}
	c.entries[key] = value
}

// deleteFunc deletes the entries for which del returns true.
func (c *cache[K, V]) deleteFunc(del func(K, V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.entries {
		if del(k, v) {
			delete(c.entries, k)
		}
	}
}
