package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A reading is what the processes of a sandbox have used, found in /proc.
type reading struct {
	cpu, rss  int64 // nanoseconds, with children that were waited for; bytes
	threads   int
	processes map[int]process
}

// A process is one of them.
type process struct {
	start   string // distinguishes it from a later process with its number
	own     int64  // nanoseconds, without children
	running bool
}

// readProcesses reads what descends from root, or all processes but this one if that is 0. It fails if a process
// that is alive cannot be read: what it uses is in no reading.
func readProcesses(root int, reap bool) (reading, error) {
	r := reading{processes: map[int]process{}}
	var pids []int
	var err error
	if root == 0 {
		var use unix.Rusage
		if unix.Getrusage(unix.RUSAGE_CHILDREN, &use) == nil {
			r.cpu = cpuOf(&use)
		}
		pids, err = descendants(reap)
	} else {
		pids, err = childrenOf(root, []int{root})
	}
	if err != nil {
		return r, err
	}
	for _, pid := range pids {
		var b []byte
		ended, err := look(pid, func() (err error) {
			b, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return err
		})
		if err != nil {
			return r, err
		}
		if ended {
			continue
		}
		f := statFields(string(b))
		if len(f) < 22 {
			return r, fmt.Errorf("look at process %d: its stat has %d fields, want 22", pid, len(f))
		}
		n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
		own := int64(ticks(f[11]) + ticks(f[12]))
		r.cpu += own + int64(ticks(f[13])+ticks(f[14]))
		tables, err := readPageTables(pid)
		if err != nil {
			return r, err
		}
		r.rss += n(21)*int64(os.Getpagesize()) + tables
		r.threads += max(int(n(17)), 1) // a zombie has none, but is counted
		r.processes[pid] = process{start: f[19], own: own, running: f[0] == "R"}
	}
	return r, nil
}

// readPageTables reads the memory of the page tables of a process. Mappings of nothing but zeros need no other memory,
// and a single page of one can need three tables of 4 KiB.
func readPageTables(pid int) (int64, error) {
	var b []byte
	_, err := look(pid, func() (err error) {
		b, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		return err
	})
	if err != nil {
		return 0, err
	}
	return kibOf(b, "VmPTE"), nil
}

// kibOf returns a field of a /proc/PID/status in bytes, or 0 if there is none, as for a zombie. The name of the
// command before it has its line breaks escaped.
func kibOf(status []byte, field string) int64 {
	_, rest, ok := bytes.Cut(status, []byte("\n"+field+":"))
	if !ok {
		return 0
	}
	kib, _, _ := strings.Cut(strings.TrimSpace(string(rest[:min(len(rest), 64)])), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// look reads something about a process or thread. It reports whether that has ended, and fails if that is alive and
// cannot be read: because of a limit, or because /proc hides it, which looks as if it had ended (hidepid). It reads
// twice, because a thread is listed a moment before it is found by its number.
func look(id int, read func() error) (ended bool, err error) {
	for range 2 {
		if err = read(); err == nil {
			return false, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			break
		}
		if errors.Is(unix.Kill(id, 0), unix.ESRCH) {
			return true, nil
		}
	}
	return false, fmt.Errorf("look at process %d: %w", id, err)
}

// A tally estimates the processor time of all processes, including those that ended
// without being waited for: if their parent ignores SIGCHLD, the kernel adds their time to
// no other process. A process that was seen twice counts with its own time. A running
// process that is seen for the first time is charged for the time since the previous
// reading, because short-lived processes may have run in its place. Readings come at
// random moments, so that the estimate is right on average.
type tally struct {
	seen map[int]*sighting
	gone int64 // nanoseconds
	last time.Time
}

// A sighting is a process that was alive at the last look.
type sighting struct {
	start  string
	charge int64 // nanoseconds
}

// maxShare bounds the time that one reading can charge: on a busy machine readings are late.
const maxShare = 2 * watchEvery

// add adds a reading and returns the estimate, less a margin of error.
func (t *tally) add(r reading) int64 {
	now := time.Now()
	since := min(now.Sub(t.last), maxShare)
	t.last = now
	available := int64(since) * int64(runtime.NumCPU()) // more cannot have run
	for pid, p := range r.processes {
		old := t.seen[pid]
		if old != nil && old.start == p.start {
			old.charge = p.own
			continue
		}
		if old != nil {
			t.gone += old.charge
		}
		charge := p.own
		if p.running {
			share := min(int64(float64(since)*occupancy(pid)), available)
			available -= share
			charge = max(charge, share)
		}
		t.seen[pid] = &sighting{p.start, charge}
	}
	total := int64(0)
	for pid, s := range t.seen {
		if _, alive := r.processes[pid]; !alive {
			t.gone += s.charge
			delete(t.seen, pid)
			continue
		}
		total += s.charge
	}
	return (total + t.gone) / 4 * 3
}

// occupancy is the part of the time since a process was ready to run that it ran.
func occupancy(pid int) float64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/schedstat")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 2 {
		return 0.5
	}
	ran, _ := strconv.ParseFloat(f[0], 64)
	waited, _ := strconv.ParseFloat(f[1], 64)
	if ran+waited == 0 {
		return 0.5
	}
	return ran / (ran + waited)
}
