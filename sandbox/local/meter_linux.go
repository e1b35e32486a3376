package local

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"haft"
)

// watch are the limits that an init enforces where there is no cgroup for them.
type watch struct {
	Memory    int64         `json:"memory,omitempty"`
	CPU       time.Duration `json:"cpu,omitempty"`
	Processes int           `json:"processes,omitempty"`
	// Reap finds the processes by their parent, not by being in /proc: there is
	// no pid namespace.
	Reap bool `json:"reap,omitempty"`
}

// watchEvery is how often an init looks. A program that touches memory as fast as
// it can gets some 50 MB further in that time.
const watchEvery = 25 * time.Millisecond

// A meter adds up what all processes of a sandbox use, by looking at /proc.
type meter struct {
	w    *watch
	over func(limit string)

	mu       sync.Mutex
	cpu, rss int64
	peak     int
}

// newMeter starts to look, if there is something to watch.
func newMeter(w *watch, over func(limit string)) *meter {
	m := &meter{w: w, over: over}
	if w != nil {
		go m.run()
	}
	return m
}

// fill puts the highest readings into a message.
func (m *meter) fill(msg *message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	msg.CPU, msg.RSS, msg.Peak = max(msg.CPU, m.cpu), max(msg.RSS, m.rss), m.peak
}

// run looks until the process ends, and reports the first limit that is hit.
func (m *meter) run() {
	full := 0 // looks that found the processes at their limit
	for range time.Tick(watchEvery) {
		cpu, rss, n := look(m.w.Reap)
		m.mu.Lock()
		m.cpu, m.rss, m.peak = max(m.cpu, cpu), max(m.rss, rss), max(m.peak, n)
		m.mu.Unlock()
		if own, err := os.ReadDir("/proc/self/task"); err == nil && m.w.Processes > 0 && n+len(own) >= m.w.Processes+initThreads {
			full++
		}
		limit := haft.FailureKind("")
		switch {
		case m.w.Memory > 0 && rss > m.w.Memory:
			limit = haft.FailMemory
		case m.w.CPU > 0 && time.Duration(cpu) > m.w.CPU:
			limit = haft.FailCPU
		case full >= 8:
			limit = haft.FailPIDs
		}
		if limit != "" {
			m.over(string(limit))
			return
		}
	}
}

// look adds up processor time (nanoseconds), resident memory and threads of all
// processes but this one.
func look(reap bool) (cpu, rss int64, threads int) {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &use) == nil {
		cpu = cpuOf(&use)
	}
	pids := descendants(reap)
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // it has just ended
		}
		// The command's name, in brackets, can hold anything.
		_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		f := strings.Fields(rest)
		if len(f) < 22 {
			continue
		}
		n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
		cpu += (n(11) + n(12) + n(13) + n(14)) * int64(time.Second/100) // USER_HZ
		rss += n(21) * int64(os.Getpagesize())
		threads += max(int(n(17)), 1) // a zombie has none, but is counted
	}
	return cpu, rss, threads
}

// descendants lists the processes of the sandbox: in a pid namespace all but the
// init, else those that descend from this one.
func descendants(reap bool) []int {
	if reap {
		return childrenOf(os.Getpid(), nil)
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close() // only read
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// childrenOf appends the descendants of pid. Its depth is that of the tree of
// processes, which the limit of processes bounds.
func childrenOf(pid int, to []int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return to
	}
	for _, t := range tasks {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				to = childrenOf(child, append(to, child))
			}
		}
	}
	return to
}
