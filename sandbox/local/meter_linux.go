package local

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// Shared says that the kernel counts other processes with those of the run, so that
	// more than the limit can be there: the meter ends the run then.
	Shared bool `json:"shared,omitempty"`
	// Reap finds the processes by their parent, not by being in /proc: there is
	// no pid namespace.
	Reap bool `json:"reap,omitempty"`
	// Looks is how many looks that find the processes at their limit end the run; 0 means 8.
	Looks int `json:"looks,omitempty"`
	// Idle says that there may be one process only, and that looking at long intervals
	// will do.
	Idle bool `json:"idle,omitempty"`
}

// watchEvery is how often an init reads /proc. A program can touch some 50 MB in that
// time.
const watchEvery = 25 * time.Millisecond

// meters are the meters of one init, by the process that each is for. The meter of a cold
// run is for process 0, which means all.
type meters struct {
	send func(message)

	mu  sync.Mutex
	all map[int]*meter
}

// A meter adds up what the processes of a sandbox use, by looking at /proc.
type meter struct {
	pid  int
	quit chan struct{}
	wake chan struct{} // there are other limits

	// Guarded by meters.mu.
	w    *watch
	base int64   // processor time that the limits do not count
	last message // the highest readings
}

// newMeters makes no meter yet.
func newMeters(send func(message)) *meters { return &meters{send: send, all: map[int]*meter{}} }

// start begins to look at what descends from pid, or to hold it to other limits. It does nothing if the process has
// been waited for, because then nothing stops its meter.
func (ms *meters) start(pid int, w *watch) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.all[pid]; m != nil {
		m.w, m.base = w, m.last.CPU
		select {
		case m.wake <- struct{}{}:
		default: // it has yet to see the change before
		}
		return
	}
	if pid != 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return
	}
	m := &meter{pid: pid, w: w, quit: make(chan struct{}), wake: make(chan struct{}, 1)}
	ms.all[pid] = m
	go ms.run(m)
}

// first is when to look first by new limits: at once for an idle command, since a caller
// waits for that.
func (ms *meters) first(m *meter) time.Duration {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m.w.Idle {
		return 0
	}
	return watchEvery
}

// stop ends the meter of a process that has ended, and puts its readings into the
// message that says so.
func (ms *meters) stop(end *message, forked bool) {
	pid := 0
	if forked {
		pid = end.PID
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.all[pid]
	if m == nil {
		return
	}
	close(m.quit)
	delete(ms.all, pid)
	end.CPU, end.RSS, end.Peak = max(end.CPU, m.last.CPU), max(end.RSS, m.last.RSS), m.last.Peak
}

// run looks at intervals until quit is closed, and reports the first limit that is hit.
func (ms *meters) run(m *meter) {
	full, over := 0, 0 // looks that found the processes at their limit, and looks in a row above it
	pace, born := watchEvery, tally{seen: map[int]*sighting{}, last: time.Now()}
	tick := time.NewTimer(pace)
	defer tick.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-m.wake:
			pace = watchEvery
			tick.Reset(ms.first(m))
			continue
		case <-tick.C:
		}
		ms.mu.Lock()
		w := m.w
		ms.mu.Unlock()
		now, err := readProcesses(m.pid, w.Reap)
		if err != nil {
			ms.send(message{Kind: msgUnmetered, PID: m.pid}) // what it uses cannot be limited
			return
		}
		cpu, rss, n, processes := max(now.cpu, born.add(now)), now.rss, now.threads, len(now.processes)
		ms.mu.Lock()
		m.last.CPU, m.last.RSS, m.last.Peak = max(m.last.CPU, cpu), max(m.last.RSS, rss), max(m.last.Peak, n)
		report, used := m.last, time.Duration(cpu-m.base)
		ms.mu.Unlock()
		if w.Processes > 0 && n+m.initTasks() >= w.Processes+initThreads {
			full++
		}
		if over++; !w.Shared || n <= w.Processes {
			over = 0
		}
		report.Kind, report.PID = msgLimit, m.pid
		switch {
		// A look takes time: one look alone may count processes that come and go.
		case over > 1 || over > 0 && n > w.Processes+initThreads:
			report.Limit = string(haft.FailPIDs)
		case w.Memory > 0 && rss > w.Memory:
			report.Limit = string(haft.FailMemory)
		case w.CPU > 0 && used > w.CPU:
			report.Limit = string(haft.FailCPU)
		case full >= cmp.Or(w.Looks, 8) || w.Idle && w.Processes > 0 && processes > 1:
			report.Limit = string(haft.FailPIDs)
		default:
			if w.Idle {
				if pace == watchEvery { // the first look
					ms.send(message{Kind: msgIdle, PID: m.pid})
				}
				pace = min(pace*2, idlePace)
			}
			tick.Reset(pace/2 + rand.N(pace)) // at unpredictable moments
			continue
		}
		report.Idle = w.Idle
		if ms.send(report); !w.Idle {
			return
		} // else its call may have begun, and other limits are on their way
	}
}

// initTasks is added to the threads of the sandbox before they are compared with a limit
// that includes initThreads: our own threads in a cold run, and initThreads in a fork, which
// has no init of its own.
func (m *meter) initTasks() int {
	if m.pid != 0 {
		return initThreads
	}
	own, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return initThreads
	}
	return len(own)
}

// descendants lists the processes of the sandbox: in a pid namespace all but the
// init, else those that descend from this one.
func descendants(reap bool) ([]int, error) {
	if reap {
		return childrenOf(os.Getpid(), nil)
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close() // only read
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// childrenOf appends the descendants of pid: of those that cannot be read, as many as are found. Its depth is that
// of the tree of processes, which the limit of processes bounds.
func childrenOf(pid int, to []int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	var tasks []os.DirEntry
	_, failed := look(pid, func() (err error) {
		tasks, err = os.ReadDir(dir)
		return err
	})
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		var b []byte
		_, err = look(id, func() (err error) {
			b, err = os.ReadFile(dir + "/" + t.Name() + "/children")
			return err
		})
		failed = errors.Join(failed, err)
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				to, err = childrenOf(child, append(to, child))
				failed = errors.Join(failed, err)
			}
		}
	}
	return to, failed
}
