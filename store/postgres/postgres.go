// Package postgres opens a store in a Postgres database.
package postgres

import (
	"context"
	"errors"

	"haft/store"
)

// Config has the settings of the connections. The zero value is good.
type Config struct {
	// Conns is how many connections there may be at once; 0 means 16.
	Conns int
}

// Open opens the store in the database at url.
func Open(ctx context.Context, url string, cfg Config) (*store.Store, error) {
	return nil, errors.New("not written yet")
}
