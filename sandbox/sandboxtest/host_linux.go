package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// linux says that every kind of socket must be there.
const linux = true

// mountTable is our own view of the mounts.
func mountTable() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	// Tests of other packages run beside this one, and some mount a small disk in their own
	// directory. Everything of this test is below os.TempDir, which Run sets.
	others := filepath.Join(filepath.Dir(os.TempDir()), "Test")
	var own strings.Builder
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) < 5 || !strings.HasPrefix(fields[4], others) {
			own.WriteString(line)
		}
	}
	return own.String(), nil
}

// marked returns the processes whose command line has the token. A program could remove it
// from its environment.
func marked(token string) ([]int, error) {
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(b, []byte(token)) {
			continue // it has ended, or is not ours
		}
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// left reports processes of a run that is over. Zombies have no command line.
func left(token string) error {
	pids, err := marked(token)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("%d processes are left when Run returns: %v", len(pids), pids)
	}
	return nil
}

// cgroupsOf returns the directories of the cgroups of a process.
func cgroupsOf(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("read cgroups: %w", err)
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[2] == "/" {
			continue
		}
		for _, base := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/" + parts[1], "/sys/fs/cgroup/unified"} {
			if st, err := os.Stat(base + parts[2]); err == nil && st.IsDir() {
				dirs = append(dirs, base+parts[2])
			}
		}
	}
	return dirs, nil
}

// openDescriptors counts ours.
func openDescriptors() (int, error) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, fmt.Errorf("count descriptors: %w", err)
	}
	return len(list), nil
}

// removed reports directories that are still there.
func removed(dirs []string) error {
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			return fmt.Errorf("a cgroup is left: %s", d)
		}
	}
	return nil
}

// stillServes takes one of each resource that the kernel counts by user, as the engine does.
func stillServes() error {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the engine cannot watch files any more: %w", err)
	}
	defer unix.Close(watch) // only tried
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the engine cannot make sockets any more: %w", err)
	}
	defer unix.Close(pair[0]) // only tried
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(watch), nil, 0); err != nil {
		return fmt.Errorf("the engine cannot send descriptors any more: %w", err)
	}
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the engine cannot wait any more: %w", err)
	}
	defer unix.Close(events) // only tried
	if err := unix.EpollCtl(events, unix.EPOLL_CTL_ADD, pair[1], &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return fmt.Errorf("the engine cannot wait for descriptors any more: %w", err)
	}
	return nil
}

// supervisorState is what a hostile program might have changed about this process, or
// left for its user: limits, priority, processors, the memory killer's score, keys, and
// shared memory by the name and the key that the program uses.
func supervisorState() (string, error) {
	var b strings.Builder
	for r := range 16 { // RLIM_NLIMITS
		var l unix.Rlimit
		if err := unix.Getrlimit(r, &l); err != nil {
			return "", fmt.Errorf("read limit %d: %w", r, err)
		}
		fmt.Fprintf(&b, "limit %d: %d, %d\n", r, l.Cur, l.Max)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return "", fmt.Errorf("read priority: %w", err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return "", fmt.Errorf("read affinity: %w", err)
	}
	fmt.Fprintf(&b, "nice %d, processors %v\n", nice, set)
	for _, name := range []string{"/proc/self/oom_score_adj", "/proc/self/loginuid"} {
		text, _ := os.ReadFile(name) // not every kernel has it
		fmt.Fprintf(&b, "%s: %s\n", name, bytes.TrimSpace(text))
	}
	keys, _ := os.ReadFile("/proc/keys") // those that we may see
	fmt.Fprintf(&b, "keys named by a program: %d\n", bytes.Count(keys, []byte(attackName)))
	shm, err := filepath.Glob("/dev/shm/*" + attackName + "*")
	if err != nil {
		return "", fmt.Errorf("list shared memory: %w", err)
	}
	table, _ := os.ReadFile("/proc/sysvipc/shm") // a kernel need not have it
	fmt.Fprintf(&b, "shared memory: %v, %v\n", shm, bytes.Contains(table, []byte(fmt.Sprint(attackKey))))
	return b.String(), nil
}
