package upstream_test

import (
	"testing"
	"time"

	"haft/executor/upstream"
)

// A caller that ends a session for another one holds the lock of the pool and takes those of slots. A slot that opens
// its session holds its own lock and spawns a goroutine, which must not wait for the lock of the pool.
func TestPool_spawns_while_it_is_locked(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	done := make(chan bool, 1)
	go func() { done <- w.pool.SpawnLocked() }()
	select {
	case ok := <-done:
		if !ok {
			t.Error("nothing is spawned")
		}
	case <-time.After(10 * time.Second):
		panic("the pool waits for its own lock") // Close would wait too
	}
}
