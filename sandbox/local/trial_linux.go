package local

import (
	"syscall"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

// cloner starts inits, one after the other.
type cloner struct {
	// failed says that a clone failed after its trial had succeeded. From then on, the
	// trial asks for all namespaces, which takes 0.5 ms instead of 16 µs.
	failed bool
}

// forkExec is [syscall.ForkExec] without its leak: where a clone with id mappings fails,
// Go 1.26 keeps both ends of the pipe that the child would have waited at. That is two
// descriptors for every attempt on a machine that forbids user namespaces. So a clone
// that makes no child is tried first.
func (c *cloner) forkExec(path string, attr *syscall.ProcAttr) (int, error) {
	if attr.Sys == nil || attr.Sys.UidMappings == nil && attr.Sys.GidMappings == nil {
		return syscall.ForkExec(path, []string{initName}, attr)
	}
	flags := uintptr(unix.CLONE_NEWUSER)
	if c.failed {
		flags = attr.Sys.Cloneflags
	}
	switch errno := plan.TryClone(flags); errno {
	case unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EAGAIN, unix.ENOMEM, unix.ENOSYS:
		return 0, errno
	default: // EFAULT is success; the real clone reports any other error
	}
	pid, err := syscall.ForkExec(path, []string{initName}, attr)
	c.failed = c.failed || err != nil
	return pid, err
}
