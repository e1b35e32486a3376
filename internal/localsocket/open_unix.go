//go:build unix

package localsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"haft"
)

// lockFile locks a file, which is made, or returns [haft.CodeConflict] if another process has it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the socket: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = &haft.Error{Code: haft.CodeConflict, Message: "another process serves the data directory", Err: err}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// connect connects to the socket of a directory. A directory that we may not look into is not served to us.
func connect(ctx context.Context, dir string) (*net.UnixConn, error) {
	var conn net.Conn
	err := withShortPath(dir, func(path string) (err error) {
		for until := time.Now().Add(patience); ; {
			conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
			if !errors.Is(err, syscall.EAGAIN) || time.Now().After(until) { // many connect at once
				return err
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	switch {
	case err == nil:
		return conn.(*net.UnixConn), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to the server of the data directory: %w", context.Cause(ctx))
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOTSOCK):
		return nil, errors.Join(ErrNotServed, err)
	}
	return nil, fmt.Errorf("connect to the server of the data directory: %w", err)
}
