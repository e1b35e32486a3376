package local

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/cgroup"
)

// A gauge reads the usage of a command while its process lives: most calls are answered
// before their process has ended. Its files are opened before the call, so that reading
// takes one system call each. A nil gauge reads zero.
//
// A cgroup does not replace it: there may be none, and pages that a fork shares with its
// template are charged to the template.
type gauge struct {
	pid          int
	status, stat int // /proc/PID/status and stat
	base         time.Duration
}

// openGauge returns a gauge for a process of ours, or nil.
func openGauge(pid int) *gauge {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := unix.Open(dir+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	stat, err := unix.Open(dir+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(status) // only read
		return nil
	}
	return &gauge{pid: pid, status: status, stat: stat}
}

// gaugeOf returns a gauge for the process behind a pidfd, or nil.
func gaugeOf(pidfd *os.File) *gauge {
	pid, err := cgroup.PID(pidfd)
	if err != nil {
		return nil
	}
	return openGauge(pid)
}

// gaugeBelow returns a gauge for the child of an init, or nil.
func gaugeBelow(init int) *gauge {
	pid := strconv.Itoa(init)
	b, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children") // its first thread starts the command
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(b), " ")
	child, err := strconv.Atoi(first)
	if err != nil {
		return nil
	}
	return openGauge(child)
}

// begin makes the gauge count processor time from now.
func (g *gauge) begin() {
	if g != nil {
		g.base = g.clock()
	}
}

// clock returns the processor time of all threads of the process. It uses the process id,
// which the kernel may have given to another process: read checks that.
func (g *gauge) clock() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^g.pid)<<3|2, &t) != nil { // CPUCLOCK_SCHED of a process
		return 0
	}
	return time.Duration(t.Nano())
}

// read returns the most resident memory of the process and, if times is set, processor
// time since begin, of children that were waited for too. Both are 0 if it has ended.
func (g *gauge) read(times bool) (cpu time.Duration, rss int64) {
	if g == nil {
		return 0, 0
	}
	var b [4096]byte
	if times {
		cpu = g.clock() - g.base
		n, err := unix.Pread(g.stat, b[:], 0)
		if err != nil {
			return 0, 0
		}
		if f := statFields(string(b[:n])); len(f) > 14 {
			cpu += ticks(f[13]) + ticks(f[14])
		}
	}
	n, err := unix.Pread(g.status, b[:], 0)
	if err != nil {
		return 0, 0
	}
	return max(cpu, 0), kibOf(b[:n], "VmHWM")
}

// since returns how much of a processor time that was counted from the start of the
// process is after begin.
func (g *gauge) since(total time.Duration) time.Duration {
	if g == nil {
		return total
	}
	return total - g.base
}

// close closes the files.
func (g *gauge) close() {
	if g != nil {
		_ = unix.Close(g.status) // only read
		_ = unix.Close(g.stat)
	}
}

// statFields returns the fields of a /proc/PID/stat from the state on. The name of the
// command before them, in brackets, can hold anything.
func statFields(text string) []string {
	_, rest, _ := strings.Cut(text[strings.LastIndexByte(text, ')')+1:], " ")
	return strings.Fields(rest)
}

// ticks reads a time of /proc/PID/stat, in USER_HZ.
func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * (time.Second / 100)
}
