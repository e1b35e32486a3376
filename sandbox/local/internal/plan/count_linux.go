package plan

import (
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TryClone calls clone with an invalid address for the pidfd, so that no child is made.
// EFAULT means that the kernel would have made it, and 0 that this kernel cannot be tested.
// It uses clone and not clone3, which container engines refuse whatever its flags are.
func TryClone(flags uintptr) unix.Errno {
	if !knowsPidfds() {
		return 0
	}
	flags |= unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | uintptr(unix.SIGCHLD)
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags, 0, ^uintptr(7), 0, 0, 0)
	return errno
}

// knowsPidfds reports whether clone knows CLONE_PIDFD (Linux 5.2). A kernel that ignores it
// would make the child, in our memory. pidfd_open, which is tested, came later.
var knowsPidfds = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // nothing was written
	return true
})

// count finds how many tasks the kernel counts for this user: the highest soft limit
// with which it refuses one more. That takes some 20 trials of 10 µs. No other thread of
// this process may need to start one meanwhile. A kernel that refuses nothing is left
// as it is: then only the meter counts.
func (s *Step) count() unix.Errno {
	var own unix.Rlimit
	if errno := prlimitProcesses(nil, &own); errno != 0 {
		return errno
	}
	refused := func(soft uint64) bool {
		return prlimitProcesses(&unix.Rlimit{Cur: soft, Max: own.Max}, nil) == 0 && TryClone(0) == unix.EAGAIN
	}
	least, most := uint64(1), min(own.Max, 1<<22) // PID_MAX_LIMIT
	limit := own.Max
	if refused(least) && !refused(most) {
		for most-least > 1 {
			if middle := least + (most-least)/2; refused(middle) {
				least = middle
			} else {
				most = middle
			}
		}
		limit = min(least+s.Count, own.Max)
	}
	return prlimitProcesses(&unix.Rlimit{Cur: limit, Max: limit}, nil)
}

// prlimitProcesses sets and gets the limit of processes. It is a raw call, during which
// the Go runtime has no reason to start a thread.
func prlimitProcesses(set, get *unix.Rlimit) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	return errno
}
