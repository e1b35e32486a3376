package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"haft"
)

// A lease is the right to use the files of a workspace: of one writer, or of several readers. It
// is a lock of the kernel (flock), so that it ends with this process, however that ends, and holds
// between processes.
//
// The home of the workspace is locked for a moment, and then the file in it that tools do not see. Whoever
// waits for the file has the home, and readers that come later wait for the home: so readers cannot
// keep a writer waiting for ever.
type lease struct {
	home *os.Root
	lock *os.File
	w    *row // as it is now
}

const lockFile = "lock"

// errInUse says that a lease could not be had in time.
var errInUse = &haft.Error{Code: haft.CodeConflict, Message: "the workspace is in use by another call " +
	"or session: try again later"}

// take waits for a lease, at most as long as ctx and wait last, and only if mayWait, if it is not nil, says so.
func (s *Store) take(ctx context.Context, w *row, write bool, wait time.Duration,
	mayWait func() bool) (l *lease, err error) {
	home, err := s.openHome(ctx, w)
	if err != nil {
		return nil, err
	}
	lock, err := lockHome(ctx, home, write, wait, mayWait)
	if err != nil {
		return nil, errors.Join(err, home.Close())
	}
	l = &lease{home: home, lock: lock}
	if l.w, err = one(s.list(ctx, "home = $1", w.home)); err != nil { // it may have changed while this waited
		l.release()
		return nil, err
	}
	return l, nil
}

// files opens the files of the workspace.
func (l *lease) files() (*os.Root, error) {
	files, err := openDir(l.home, l.w.dir)
	if err != nil {
		return nil, homeError(err)
	}
	return files, nil
}

// measure measures the files. More than limit is no error here.
func (l *lease) measure(ctx context.Context, limit haft.WorkspaceSize) error {
	files, err := l.files()
	if err != nil {
		return err
	}
	defer files.Close() // only read
	used, err := measure(ctx, files, limit)
	if _, ok := errors.AsType[*overError](err); err != nil && !ok {
		return err
	}
	l.w.Used = used
	return nil
}

// openHome opens the directory of a workspace.
func (s *Store) openHome(ctx context.Context, w *row) (*os.Root, error) {
	root, err := s.open(ctx, false)
	if err != nil {
		return nil, err
	}
	home, err := root.OpenRoot(w.home)
	if err != nil {
		return nil, homeError(err)
	}
	return home, nil
}

// release gives the lease back. It can be called twice.
func (l *lease) release() {
	_ = l.lock.Close() // which unlocks it; nothing was written
	_ = l.home.Close() // only read
}

// leased runs do with the files of a workspace and its row, while nobody writes to it.
func (s *Store) leased(ctx context.Context, w *row, do func(files *os.Root, w *row) error) error {
	l, err := s.take(ctx, w, false, s.cfg.Wait, nil)
	if err != nil {
		return err
	}
	defer l.release()
	files, err := l.files()
	if err != nil {
		return err
	}
	defer files.Close() // only read
	return do(files, l.w)
}

// lockHome locks the home of a workspace. Closing the file unlocks it.
func lockHome(ctx context.Context, home *os.Root, write bool, wait time.Duration,
	mayWait func() bool) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errInUse)
	defer cancel()
	how := syscall.LOCK_SH
	if write {
		how = syscall.LOCK_EX
	}
	turn, err := flock(ctx, home, ".", syscall.LOCK_EX, mayWait)
	if err != nil {
		return nil, err
	}
	defer turn.Close() // which unlocks it
	lock, err := flock(ctx, home, lockFile, how, mayWait)
	if err != nil {
		return nil, err
	}
	// Whoever removed the workspace had the lock until the file was gone.
	if _, err := home.Lstat(lockFile); err != nil {
		return nil, errors.Join(missing("workspace"), lock.Close())
	}
	return lock, nil
}

// flock opens and locks a file, and asks again until ctx ends: a call that blocks in the kernel could not
// be cancelled.
func flock(ctx context.Context, home *os.Root, name string, how int, mayWait func() bool) (*os.File, error) {
	f, err := home.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, missing("workspace")
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock of a workspace: %w", err)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock a workspace: %w", err), f.Close())
		}
		if mayWait != nil && !mayWait() {
			return nil, errors.Join(errInUse, f.Close())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}
