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

// FirstMark keeps a number under a name where there is none, and returns what is there.
func (s *Store) FirstMark(ctx context.Context, name string, value int64) (int64, error) {
	if mark, err := s.Mark(ctx, name); err != nil || mark != 0 {
		return mark, err
	}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, putMark+" WHERE marks.value = 0", name, value)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("keep the mark %s: %w", name, err)
	}
	return s.Mark(ctx, name)
}

// ClearMark forgets the number under a name.
func (s *Store) ClearMark(ctx context.Context, name string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, putMark, name, int64(0))
		return err
	})
	if err != nil {
		return fmt.Errorf("clear the mark %s: %w", name, err)
	}
	return nil
}
