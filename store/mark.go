package store

import (
	"context"
	"fmt"
)

// Mark returns a number that was kept under a name, or 0.
func (s *Store) Mark(ctx context.Context, name string) (int64, error) {
	var value int64
	err := s.rows(ctx, func(r scanner) error { return r.Scan(&value) }, "SELECT value FROM marks WHERE name = $1", name)
	if err != nil {
		return 0, fmt.Errorf("read the mark %s: %w", name, err)
	}
	return value, nil
}

// PutMark keeps a number under a name.
func (s *Store) PutMark(ctx context.Context, name string, value int64) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, putMark, name, value)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the mark %s: %w", name, err)
	}
	return nil
}
