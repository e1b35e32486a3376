//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of f, or returns EWOULDBLOCK if another open file has it.
// The lock belongs to the open file: it ends with it, and with the process.
func tryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
