package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"strings"
	"time"

	"haft"
	"haft/internal/store"
	"haft/sandbox"
)

// A filler fills a new tree, and returns what is in it then.
type filler func(ctx context.Context, tree *os.Root) (haft.WorkspaceSize, error)

// addCopy adds a workspace with a copy of the files of from; nil means none.
func addCopy(ctx context.Context, s *Store, w *row, from *os.Root) error {
	size, err := sizeOf(ctx, from, w.Quota)
	if err != nil {
		return err
	}
	return s.add(ctx, w, size, copyOf(s, from, w, size))
}

// copyOf returns what fills a tree of w with a copy of from, which has that size. Nil has nothing.
func copyOf(s *Store, from *os.Root, w *row, size haft.WorkspaceSize) filler {
	return func(ctx context.Context, tree *os.Root) (haft.WorkspaceSize, error) {
		if from == nil {
			return size, nil
		}
		if err := s.copy(ctx, from, tree, w.uid, size.Bytes); err != nil {
			return size, fmt.Errorf("copy a tree: %w", err)
		}
		return size, nil
	}
}

// add adds a workspace with the files that fill makes, which are at most so large.
func (s *Store) add(ctx context.Context, w *row, size haft.WorkspaceSize, fill filler) (err error) {
	w.home, w.Enforced, w.Created, w.Changed = "ws-"+strings.ToLower(rand.Text()), haft.QuotaMeasured, now(), now()
	if w.uid, err = newOwner(); err != nil {
		return err
	}
	release, err := s.hold(ctx, w.Owner.Org, size.Bytes) // before the work; the row counts once more
	if err != nil {
		return err
	}
	defer release()
	root, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	if err := root.Mkdir(w.home, 0o711); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	kept := false
	defer func() {
		if !kept {
			err = errors.Join(err, removeTree(root, w.home))
		}
	}()
	home, err := root.OpenRoot(w.home)
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	defer home.Close() // what was written is on the disk
	if err := home.WriteFile(lockFile, nil, 0o600); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	lock, err := lockHome(ctx, home, true, s.cfg.Wait, nil) // so that no sweep takes it for a leftover
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := s.makeTree(ctx, home, w, fill); err != nil {
		return err
	}
	if err := syncDir(root, "."); err != nil {
		return err
	}
	err = s.insert(ctx, w)
	kept = err == nil || !refused(err) // perhaps there is a row: if not, the next sweep removes it
	return err
}

// sizeOf measures a tree that is to be copied, and refuses more than limit. Nil has nothing.
func sizeOf(ctx context.Context, from *os.Root, limit haft.WorkspaceSize) (haft.WorkspaceSize, error) {
	if from == nil {
		return haft.WorkspaceSize{}, nil
	}
	size, err := measure(ctx, from, limit)
	return size, full(err)
}

// makeTree makes a new tree for w, has fill fill it, and sets w.dir and w.Used. The organisation has room for it.
func (s *Store) makeTree(ctx context.Context, home *os.Root, w *row, fill filler) (err error) {
	dir := "t-" + rand.Text()
	if err := home.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make a tree: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(home, dir))
		}
	}()
	tree, err := home.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("make a tree: %w", err)
	}
	defer tree.Close() // syncTree has written everything
	size, err := fill(ctx, tree)
	if err != nil {
		return err
	}
	if err := errors.Join(chown(home, dir, w.uid), syncTree(tree), syncDir(home, ".")); err != nil {
		return fmt.Errorf("make a tree: %w", err)
	}
	w.dir, w.Used = dir, size
	return nil
}

// copy copies a tree of so many bytes when fewer than [maxCopies] others are copied, as long as the disk has room.
func (s *Store) copy(ctx context.Context, from, to *os.Root, owner int, size int64) error {
	leave, err := s.copies.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.diskFull(to, size); err != nil {
		return err
	}
	c := copier{to: to, owner: owner, step: copyStep, check: func() error { return s.diskFull(to, 0) }}
	return c.tree(ctx, from)
}

// newOwner returns a user id of the host for the files of a workspace, if this process may give files
// away.
func newOwner() (int, error) {
	if os.Geteuid() != 0 {
		return 0, nil
	}
	n, err := rand.Int(rand.Reader, big.NewInt(sandbox.Owners))
	if err != nil {
		return 0, fmt.Errorf("choose a user id: %w", err)
	}
	return sandbox.FirstOwner + int(n.Int64()), nil
}

// change has do change a workspace that nobody else uses meanwhile, and writes down what is in it then. It
// may have as much as limit.
func (s *Store) change(ctx context.Context, w *row,
	do func(home *os.Root, w *row, limit haft.WorkspaceSize) error) error {
	l, err := s.take(ctx, w, true, s.cfg.Wait, nil)
	if err != nil {
		return err
	}
	defer l.release()
	limit, err := s.reserve(ctx, l.w)
	if err != nil {
		return err
	}
	old := l.w.dir
	err = do(l.home, l.w, limit)
	ctx = context.WithoutCancel(ctx)
	if e := l.measure(ctx, limit); err == nil {
		err = e
	}
	if e := s.update(ctx, l.w); e != nil { // perhaps the row has the other tree: the next sweep removes one of them
		return errors.Join(err, e)
	}
	if l.w.dir != old {
		err = errors.Join(err, removeTree(l.home, old))
	}
	return err
}

// removeWait is how long the removal of a workspace waits for those who use it.
const removeWait = time.Second

// remove removes a workspace with its snapshots, unless somebody uses them. If files are not on this machine,
// only their rows are removed: the machine that has them removes them at its next sweep.
func (s *Store) remove(ctx context.Context, w *row) error {
	release, err := s.takeAll(ctx, w)
	defer release() // what was taken
	if err != nil {
		return err
	}
	list, err := s.family(ctx, w)
	if err != nil {
		return err
	}
	for _, x := range list[min(1, len(list)):] { // the first one is w
		release, err := s.takeAll(ctx, x)
		defer release()
		if err != nil {
			return err
		}
	}
	if err := s.delete(ctx, w.Owner.Org, list); err != nil {
		return err
	}
	return s.removeHomes(ctx, list)
}

// takeAll takes a workspace from everybody, if its files are on this machine.
func (s *Store) takeAll(ctx context.Context, w *row) (release func(), err error) {
	l, err := s.take(ctx, w, true, removeWait, nil)
	switch {
	case haft.CodeOf(err) == haft.CodeUnavailable:
		return func() {}, nil
	case err != nil:
		return func() {}, err
	}
	return l.release, nil
}

// removeHomes removes the directories of workspaces that have no rows.
func (s *Store) removeHomes(ctx context.Context, list []*row) error {
	root, err := s.open(ctx, false)
	if err != nil {
		return nil // there are none here
	}
	var errs []error
	for _, w := range list {
		errs = append(errs, removeTree(root, w.home))
	}
	return errors.Join(errs...)
}

// Erase removes the workspaces of an organisation, or of one user if that is not empty: their rows at once,
// and then their files. Those that a call of somebody else uses are removed by the next sweep.
func (s *Store) Erase(ctx context.Context, org, user string) error {
	list, err := s.list(ctx, "org = $1 AND ($2 = '' OR usr = $3)", org, user, user)
	if err == nil {
		err = s.delete(ctx, org, list)
	}
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound { // others have removed them
		return err
	}
	if err = nil; user == "" {
		err = s.db.Write(ctx, "erase an organisation", func(ctx context.Context, t store.Tx) error {
			_, err := t.Exec(ctx, "DELETE FROM workspace_orgs WHERE org = $1", org)
			return err
		})
	}
	root, other := s.open(ctx, false)
	if other != nil {
		return err // there are none here
	}
	errs := []error{err}
	for _, w := range list {
		errs = append(errs, unlessGone(s.sweepHome(ctx, root, w.home)))
	}
	return errors.Join(errs...)
}

// Sweep removes what a crash left behind. What somebody uses is left to the next one.
func (s *Store) Sweep(ctx context.Context) error {
	root, err := s.open(ctx, false)
	if haft.CodeOf(err) == haft.CodeUnavailable {
		return nil // there are no workspaces here
	}
	if err != nil {
		return err
	}
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("list workspaces: %w", err)
	}
	var errs []error
	for _, e := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if strings.HasPrefix(e.Name(), trash) {
			errs = append(errs, removeTree(root, e.Name()))
		} else if e.IsDir() {
			errs = append(errs, unlessGone(s.sweepHome(ctx, root, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// sweepHome removes what is in the home of a workspace and its row does not name, or all of it if there is no
// row. What a writer that was killed had reserved is given back.
func (s *Store) sweepHome(ctx context.Context, root *os.Root, name string) error {
	home, err := root.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("open the directory of a workspace: %w", err)
	}
	defer home.Close() // only read
	lock, err := lockHome(ctx, home, true, time.Millisecond, nil)
	switch code := haft.CodeOf(err); {
	case code == haft.CodeConflict:
		return nil
	case code == haft.CodeNotFound: // it has no lock: it was not finished, unless it is being made now
		if info, err := root.Lstat(name); err != nil || time.Since(info.ModTime()) < time.Minute {
			return err
		}
		return removeTree(root, name)
	case err != nil:
		return err
	}
	defer lock.Close() // which unlocks it
	list, err := s.list(ctx, "home = $1", name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return removeTree(root, name)
	}
	entries, err := fs.ReadDir(home.FS(), ".")
	if err != nil {
		return fmt.Errorf("list the directory of a workspace: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if name := e.Name(); name != lockFile && name != list[0].dir {
			errs = append(errs, removeTree(home, name))
		}
	}
	return errors.Join(append(errs, s.giveBack(ctx, home, list[0]))...)
}

// giveBack gives back what a writer had reserved that was killed.
func (s *Store) giveBack(ctx context.Context, home *os.Root, w *row) error {
	list, err := s.list(ctx, "home = $1 AND reserved > 0", w.home)
	if err != nil || len(list) == 0 {
		return err
	}
	l := &lease{home: home, w: w}
	return errors.Join(l.measure(ctx, w.Quota), s.update(ctx, w))
}
