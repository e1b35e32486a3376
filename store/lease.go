package store

import (
	"context"
	"fmt"
	"time"
)

// Lease makes owner the only one who does something of that name until a time, if
// nobody else is, and reports whether it is.
func (s *Store) Lease(ctx context.Context, name, owner string, now, until time.Time) (mine bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "INSERT INTO leases (name, owner, ends) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, ends = excluded.ends WHERE leases.owner = excluded.owner OR leases.ends <= $4",
			column(name), column(owner), micros(until), micros(now))
		mine = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take a lease: %w", err)
	}
	return mine, nil
}

// EndLease gives back what owner leased. A lease that is somebody else's by now stays.
func (s *Store) EndLease(ctx context.Context, name, owner string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "DELETE FROM leases WHERE name = $1 AND owner = $2", column(name), column(owner))
		return err
	})
	if err != nil {
		return fmt.Errorf("give back a lease: %w", err)
	}
	return nil
}
