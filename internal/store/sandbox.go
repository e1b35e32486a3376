package store

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// PutSandboxConfig adds a configuration, or replaces the one of that type in its
// organisation if that is what If says, and else returns [haft.CodeConflict]. That
// one keeps its id and the time of its creation. It returns what is kept.
func (s *Store) PutSandboxConfig(ctx context.Context, c haft.SandboxConfig) (*haft.SandboxConfig, error) {
	if c.Org == "" {
		return nil, invalid("a sandbox configuration belongs to an organisation")
	}
	if err := c.Type.Check(); err != nil {
		return nil, err
	}
	if c.ID == "" {
		c.ID = haft.SandboxConfigID(newID("sandbox_"))
	}
	if err := need("the id of the configuration", string(c.ID)); err != nil {
		return nil, err
	}
	condition, at := c.If, c.Updated
	c.If = ""
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		old, err := locked[haft.SandboxConfig](ctx, t, "SELECT doc FROM sandbox_configs WHERE org = $1 AND type = $2",
			column(c.Org), string(c.Type))
		if err != nil {
			return err
		}
		kept, before := "", time.Time{}
		if old != nil {
			kept, before = old.Revision(), old.Updated
			c.ID, c.Created = old.ID, old.Created
		}
		if err := holds(condition, kept); err != nil {
			return err
		}
		if c.Updated = stamp(at, before); c.Created.IsZero() {
			c.Created = c.Updated
		}
		doc, err := encode(c)
		if err != nil {
			return err
		}
		if len(doc) > MaxText {
			return invalid("the configuration has %d bytes, %d is the most", len(doc), MaxText)
		}
		n, err := t.exec(ctx, "INSERT INTO sandbox_configs (id, org, type, doc) VALUES ($1, $2, $3, $4) ON CONFLICT "+
			"(id) DO UPDATE SET doc = excluded.doc WHERE sandbox_configs.org = excluded.org AND "+
			"sandbox_configs.type = excluded.type",
			string(c.ID), column(c.Org), string(c.Type), doc)
		if err == nil && n == 0 {
			return conflict("another configuration has that id")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the sandbox configuration: %w", err)
	}
	return &c, nil
}

// SandboxConfig returns the configuration of that type or id, or
// [haft.CodeNotFound].
func (s *Store) SandboxConfig(ctx context.Context, org, ref string) (*haft.SandboxConfig, error) {
	return one[haft.SandboxConfig](ctx, s, "sandbox configuration",
		"SELECT doc FROM sandbox_configs WHERE org = $1 AND (type = $2 OR id = $2) LIMIT 1", column(org), column(ref))
}

// SandboxConfigs lists the configurations of an organisation by type. There is at
// most one of each.
func (s *Store) SandboxConfigs(ctx context.Context, org string) ([]haft.SandboxConfig, error) {
	list, err := docs[haft.SandboxConfig](ctx, s,
		"SELECT doc FROM sandbox_configs WHERE org = $1 ORDER BY type LIMIT $2", column(org), MaxPage)
	if err != nil {
		return nil, fmt.Errorf("list sandbox configurations: %w", err)
	}
	return list, nil
}

// RemoveSandboxConfig removes the configuration of that id, or returns
// [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition.
func (s *Store) RemoveSandboxConfig(ctx context.Context, org string, id haft.SandboxConfigID, condition string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		now, err := locked[haft.SandboxConfig](ctx, t, "SELECT doc FROM sandbox_configs WHERE org = $1 AND id = $2",
			column(org), column(string(id)))
		if err != nil {
			return err
		}
		if now == nil {
			return notFound("sandbox configuration")
		}
		if err := holds(condition, now.Revision()); err != nil {
			return err
		}
		n, err := t.exec(ctx, "DELETE FROM sandbox_configs WHERE org = $1 AND id = $2", column(org), column(string(id)))
		if err == nil && n == 0 {
			return notFound("sandbox configuration")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the sandbox configuration: %w", err)
	}
	return nil
}

// locked reads what is kept as one column of JSON inside a transaction, so that
// nobody else changes it before the end; nil means that it is not there.
func locked[T any](ctx context.Context, t *tx, text string, args ...any) (*T, error) {
	rows, err := t.query(ctx, text+t.s.dialect.ForUpdate, args...)
	if err != nil {
		return nil, err
	}
	var found *T
	err = each(rows, func(r scanner) error {
		var doc string
		if err := r.Scan(&doc); err != nil {
			return err
		}
		found = new(T)
		return decode(doc, found)
	})
	return found, err
}

// holds reports why something is not to be written on a condition, given the
// revision that is kept; "" means that there is none.
func holds(condition, kept string) error {
	switch {
	case condition == "" || condition == kept || condition == haft.IfNone && kept == "":
		return nil
	case condition == haft.IfNone:
		return conflict("it is there already")
	case kept == "":
		return conflict("it is not there any more; look again first")
	}
	return conflict("it was changed by somebody else; look again first")
}
