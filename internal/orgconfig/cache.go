package orgconfig

import (
	"context"
	"sync"
	"time"
)

// A cache keeps what was read of organisations. A value that is being read while it is
// forgotten is written to an entry that is not in the map any more, and so is not kept.
type cache[T any] struct {
	mu  sync.Mutex
	all map[string]*cached[T]
}

// cached is a value and when it was read; a zero time means not yet.
type cached[T any] struct {
	value T
	at    time.Time
}

const (
	// maxCached is of how many organisations values are kept.
	maxCached = 10_000
	// cacheFresh is how long a value counts as current when other processes may change it.
	cacheFresh = time.Second
)

// get returns the value of an organisation, and reads it first if need be.
func (c *cache[T]) get(ctx context.Context, org string, shared bool,
	read func(ctx context.Context, org string) (T, error)) (T, error) {
	c.mu.Lock()
	entry := c.all[org]
	if entry == nil {
		if c.all == nil || len(c.all) >= maxCached {
			c.all = make(map[string]*cached[T])
		}
		entry = &cached[T]{}
		c.all[org] = entry
	}
	have := *entry
	c.mu.Unlock()
	if !have.at.IsZero() && (!shared || time.Since(have.at) < cacheFresh) {
		return have.value, nil
	}
	value, err := read(ctx, org)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*entry = cached[T]{value, time.Now()}
	return value, nil
}

// forget has the value of an organisation read again, or those of all if it is empty.
func (c *cache[T]) forget(org string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if org == "" {
		c.all = nil
	} else {
		delete(c.all, org)
	}
}
