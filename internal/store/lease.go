package store

import (
	"context"
	"time"

	"haft/internal/store/stored"
)

// Lease makes owner the only one who does something of that name for a while, if nobody
// else is, and reports whether it is. The clock is that of the database.
func (s Settings) Lease(ctx context.Context, name, owner string, d time.Duration) (mine bool, err error) {
	err = s.db.write(ctx, "take a lease", func(ctx context.Context, t *tx) error {
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
	return mine && err == nil, err
}

// EndLease gives back what owner leased. A lease that is somebody else's by now stays.
func (s Settings) EndLease(ctx context.Context, name, owner string) error {
	_, err := s.db.exec(ctx, "give back a lease", "DELETE FROM leases WHERE name = $1 AND owner = $2", column(name),
		column(owner))
	return err
}

// now is the time by the one clock that all processes share.
func (t *tx) now(ctx context.Context) (int64, error) {
	if t.s.dialect.Now == "" {
		return stored.Micros(time.Now()), nil
	}
	return value[int64](ctx, t, "ask for the time", unlogged("SELECT "+t.s.dialect.Now))
}
