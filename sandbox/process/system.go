package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"haft"
)

// closeOnExec marks every descriptor of ours but the standard ones, so that the
// command gets only what it is given. Go opens everything that way, but what the
// engine's own parent left open (make's job server, say) would be handed on.
func closeOnExec() error {
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, d := range list {
		if fd, err := strconv.Atoi(d.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// usageOf reads what the command and the children that it waited for have used. The
// processor time is that after prepared, and unknown if that is negative.
func usageOf(ps *os.ProcessState, prepared time.Duration) haft.Usage {
	var u haft.Usage
	if prepared >= 0 {
		u.CPU = haft.Millis(ps.UserTime() + ps.SystemTime() - prepared)
	}
	if ru, ok := ps.SysUsage().(*syscall.Rusage); ok {
		u.MaxRSS = int64(ru.Maxrss) * rssUnit
	}
	return u
}
