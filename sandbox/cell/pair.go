package cell

import (
	"fmt"
	"os"
	"syscall"
)

// pair returns both ends of a fresh socket pair. The host's end can be given
// deadlines; the inner one blocks, as programs expect.
func pair() (host, inside *os.File, err error) {
	// Between the system call and close-on-exec no other goroutine may fork.
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		// Both are ours alone; a failed close loses nothing more.
		_ = syscall.Close(fds[0])
		_ = syscall.Close(fds[1])
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "channel"), nil
}
