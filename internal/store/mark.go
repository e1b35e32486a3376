package store

import "context"

// putMark keeps a number under a name.
const putMark = "INSERT INTO marks (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = " +
	"excluded.value"

// Mark returns a number that was kept under a name, or 0.
func (s Settings) Mark(ctx context.Context, name string) (int64, error) {
	return value[int64](ctx, s.db, "read the mark "+name, logged("SELECT value FROM marks WHERE name = $1"), name)
}

// FirstMark keeps a number under a name where there is none, and returns what is there.
func (s Settings) FirstMark(ctx context.Context, name string, value int64) (int64, error) {
	if mark, err := s.Mark(ctx, name); err != nil || mark != 0 {
		return mark, err
	}
	if _, err := s.db.exec(ctx, "keep the mark "+name, putMark+" WHERE marks.value = 0", name, value); err != nil {
		return 0, err
	}
	return s.Mark(ctx, name)
}

// ClearMark forgets the number under a name.
func (s Settings) ClearMark(ctx context.Context, name string) error {
	_, err := s.db.exec(ctx, "clear the mark "+name, putMark, name, int64(0))
	return err
}
