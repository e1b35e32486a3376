package sqlite

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"haft"
)

// A dirLock is the lock of a directory.
type dirLock struct{ file, dir *os.File }

// Close gives the lock back.
func (l dirLock) Close() error { return errors.Join(l.dir.Close(), l.file.Close()) }

// lockDir takes the lock of a directory and writes our pid into its file. It locks the
// directory itself too, since somebody may remove the file, and then the next process
// makes and locks another.
func lockDir(ctx context.Context, dir string, wait time.Duration) (l dirLock, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return l, cause(err)
	}
	defer root.Close()
	if l.file, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return l, cause(err)
	}
	if l.dir, err = root.Open("."); err != nil {
		return l, errors.Join(cause(err), l.file.Close())
	}
	until := time.Now().Add(wait)
	err = flock(ctx, l.file, l.file, until)
	if err == nil {
		err = flock(ctx, l.dir, l.file, until)
		if errors.Is(err, syscall.EBADF) {
			err = nil // NFS locks no directories
		}
	}
	if err != nil {
		return l, errors.Join(err, l.Close())
	}
	// Who reads the pid is told it as a hint. The lock does not depend on it.
	if err := errors.Join(l.file.Truncate(0), writeAt(l.file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return l, errors.Join(cause(err), l.Close())
	}
	return l, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// InUse is the error of [Open] if another process uses the directory.
type InUse struct{ why haft.Error }

// Error implements error.
func (i *InUse) Error() string { return i.why.Error() }

// Unwrap returns the [haft.Error].
func (i *InUse) Unwrap() error { return &i.why }

// poll is how often a lock is asked for that another process has.
const poll = 25 * time.Millisecond

// flock waits for the lock of f; named has the pid of whoever has it.
func flock(ctx context.Context, f, named *os.File, until time.Time) error {
	for {
		err := tryLock(f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return &haft.Error{Code: haft.CodeUnavailable,
				Message: "the data directory cannot be locked; put it on a file system of this machine", Err: err}
		case !time.Now().Before(until):
			return &InUse{haft.Error{Code: haft.CodeConflict,
				Message: "another haft" + pidOf(named) + " is using this directory: stop it, or use another directory"}}
		}
		timer := time.NewTimer(min(poll, time.Until(until)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &haft.Error{Code: haft.CodeUnavailable, Message: "the lock of the data directory was not waited for",
				Err: ctx.Err()}
		}
	}
}

// pidOf reads who has the lock, for the message.
func pidOf(f *os.File) string {
	var b [16]byte
	n, _ := f.ReadAt(b[:], 0) // short: the file is
	digits := 0
	for digits < n && b[digits] >= '0' && b[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return ""
	}
	return " (pid " + string(b[:digits]) + ")"
}
