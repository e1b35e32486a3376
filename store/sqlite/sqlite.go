// Package sqlite opens a store in a directory of this machine.
package sqlite

import (
	"context"
	"errors"
	"time"

	"haft/store"
)

// Config says where the store is.
type Config struct {
	// Dir is the directory; it is made if it is not there. Empty means memory.
	Dir string
	// Wait is how long to wait for another process that uses Dir.
	Wait time.Duration
	// Readers is how many queries may read at once; 0 means 4.
	Readers int
}

// Open opens the store in a directory.
func Open(ctx context.Context, cfg Config) (*store.Store, error) {
	return nil, errors.New("not written yet")
}
