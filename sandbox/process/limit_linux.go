package process

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"haft"
)

// rssUnit is what the system counts resident memory in.
const rssUnit = 1 << 10

// processorTime returns the processor time of a process that has not been waited for,
// without its children's, or -1 if it cannot be read.
func processorTime(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|2, &t) != nil { // CPUCLOCK_SCHED of a process
		return -1
	}
	return time.Duration(t.Nano())
}

// limit sets the rlimits of a process that has just been started. Children that it forks
// in the microseconds before are not limited; this provider promises nothing.
//
// The number of processes is not limited: RLIMIT_NPROC counts all processes of
// the user, the engine's included.
func limit(pid int, l haft.Limits) error {
	cpu := uint64((l.CPU.D() + time.Second - 1) / time.Second)
	for _, x := range []struct {
		name       string
		resource   int
		soft, hard uint64
	}{
		{"cpu", unix.RLIMIT_CPU, cpu, cpu + 1},
		{"data", unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
		{"files", unix.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles)},
		{"file size", unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
		{"core", unix.RLIMIT_CORE, 0, 0},
	} {
		var old unix.Rlimit
		err := unix.Prlimit(pid, x.resource, nil, &old)
		if err == nil {
			lim := unix.Rlimit{Cur: min(x.soft, old.Max), Max: min(x.hard, old.Max)}
			err = unix.Prlimit(pid, x.resource, &lim, nil)
		}
		if errors.Is(err, unix.ESRCH) {
			return nil // it is over already
		}
		if err != nil {
			return fmt.Errorf("limit %s: %w", x.name, err)
		}
	}
	return nil
}
