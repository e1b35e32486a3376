package workspace

import (
	"context"
	"os"
	"path/filepath"
)

// Dirs returns the home of a workspace, and the tree in it that has the files.
func Dirs(s *Store, org, name string) (home, files string, err error) {
	if _, err := s.open(context.Background(), true); err != nil {
		return "", "", err
	}
	w, err := one(s.list(context.Background(), "org = $1 AND name = $2", org, name))
	if err != nil {
		return "", "", err
	}
	home = filepath.Join(s.path, w.home)
	return home, filepath.Join(home, w.dir), nil
}

// SetReserve changes how many bytes of the disk stay free.
func SetReserve(s *Store, n int64) { s.cfg.Reserve = n }

// Hold keeps room in an organisation, as a copy does that has no row yet.
func Hold(s *Store, org string, size int64) (release func(), err error) {
	return s.hold(context.Background(), org, size)
}

// FillCopies keeps others from copying trees, until release.
func FillCopies(s *Store) (release func(), err error) { return fill(s.copies) }

// FillLooks keeps others from listing and comparing trees, until release.
func FillLooks(s *Store) (release func(), err error) { return fill(s.looks) }

// fill takes all places.
func fill(p places) (release func(), err error) {
	var all []func()
	for range cap(p) {
		leave, err := p.enter(context.Background())
		if err != nil {
			return nil, err
		}
		all = append(all, leave)
	}
	return func() {
		for _, leave := range all {
			leave()
		}
	}, nil
}

// CopyTree copies a tree, and asks check before every step bytes.
func CopyTree(ctx context.Context, from, to string, step int64, check func() error) error {
	x, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer y.Close()
	c := copier{to: y, step: step, check: check}
	return c.tree(ctx, x)
}
