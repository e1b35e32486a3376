package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// The pauses between two attempts at a lock. flock can wait by itself, but not for
// a context to end.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// open returns the lock file of a digest, with its lock taken, or nil if another
// has it and wait is false. It never returns a file that was removed meanwhile.
func (s *Store) open(ctx context.Context, digest string, exclusive, wait bool, busy func()) (*os.File, error) {
	pause := firstPause
	for {
		f, err := os.OpenFile(s.path("locks", digest), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, explain("open the lock of a layer", err)
		}
		got, err := tryLock(f, exclusive)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock a layer: %w", err)
		}
		if got {
			same, err := current(f)
			if err == nil && same {
				return f, nil
			}
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("look at the lock of a layer: %w", err)
			}
			continue
		}
		f.Close()
		if !wait {
			return nil, nil
		}
		if busy != nil {
			busy()
			busy = nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
			pause = min(2*pause, lastPause)
		}
	}
}

// current reports whether f is still the file that its name leads to.
func current(f *os.File) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

// stamp notes that the layer of a lock is used now.
func stamp(f *os.File) {
	now := time.Now()
	// A time that is not noted makes the layer look older than it is, no more.
	_ = os.Chtimes(f.Name(), now, now)
}

// tryLock takes the lock of f, or reports that another open file has it.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// links returns how many names the file has.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// diskFull reports whether err says that there is no space left.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// readOnly reports whether err says that Haft may not write there.
func readOnly(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)
}
