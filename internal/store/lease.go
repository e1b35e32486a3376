package store

import (
	"context"
	"fmt"
	"time"
)

// Lease makes owner the only one who does something of that name for a while, if nobody
// else is, and reports whether it is. The clock is that of the database.
func (s *Store) Lease(ctx context.Context, name, owner string, d time.Duration) (mine bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, "INSERT INTO leases (name, owner, ends) VALUES ($1, $2, $3) ON CONFLICT (name) DO "+
			"UPDATE SET owner = excluded.owner, ends = excluded.ends WHERE leases.owner = excluded.owner OR "+
			"leases.ends <= $4",
			column(name), column(owner), now+d.Microseconds(), now)
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

// now is the time by the one clock that all processes share.
func (t *tx) now(ctx context.Context) (now int64, err error) {
	if t.s.dialect.Now == "" {
		return micros(time.Now()), nil
	}
	rows, err := t.query(ctx, "SELECT "+t.s.dialect.Now)
	if err != nil {
		return 0, err
	}
	return now, each(rows, func(r scanner) error { return r.Scan(&now) })
}
