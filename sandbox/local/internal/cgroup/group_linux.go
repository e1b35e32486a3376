package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound a group. Zero is unlimited.
type Limits struct {
	Memory int64
	PIDs   int
	// Sockets bounds the memory of TCP sockets in version 1. In version 2 it is a part of Memory.
	Sockets int64
}

// socketLimit is the file of Limits.Sockets.
const socketLimit = "memory.kmem.tcp.limit_in_bytes"

// A Group is one run's cgroup.
//
// Lifecycle: New → Join → processes → Peek → Remove.
type Group struct {
	tree *Tree
	dirs map[string]string
	open map[string]int // meters that are kept open, see Watch
}

// maxWatched bounds the groups whose meters are open at once, to leave descriptors for
// other purposes.
const maxWatched = 128

// Watch opens the files of the meters in advance, so that Read need not. Those that cannot
// be opened are read by name.
func (g *Group) Watch() {
	if g.open != nil || g.tree.watched.Add(1) > maxWatched {
		g.tree.watched.Add(-1)
		return
	}
	g.open = make(map[string]int, 3)
	for _, m := range []struct{ controller, one, two string }{
		{CPU, "cpuacct.usage", "cpu.stat"}, {PIDs, "pids.peak", "pids.peak"},
		{Memory, "memory.max_usage_in_bytes", "memory.peak"},
	} {
		file := m.one
		if g.tree.V2 {
			file = m.two
		}
		if dir := g.dirs[m.controller]; dir != "" {
			name := filepath.Join(dir, file)
			if fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				g.open[name] = fd
			}
		}
	}
}

// unwatch closes the meters.
func (g *Group) unwatch() {
	if g.open == nil {
		return
	}
	for _, fd := range g.open {
		_ = unix.Close(fd) // only read
	}
	g.open = nil
	g.tree.watched.Add(-1)
}

// read reads a meter.
func (g *Group) read(name string) string {
	fd, ok := g.open[name]
	if !ok {
		return read(name)
	}
	var b [512]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// New makes a group and sets its limits.
func (t *Tree) New(name string, l Limits) (*Group, error) {
	g := &Group{tree: t, dirs: map[string]string{}}
	for c, dir := range t.dirs {
		g.dirs[c] = filepath.Join(dir, name)
		if err := os.Mkdir(g.dirs[c], 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, errors.Join(fmt.Errorf("make cgroup: %w", err), g.Remove())
		}
	}
	if err := g.limit(l); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// limit writes the limits.
func (g *Group) limit(l Limits) error {
	type setting struct {
		controller, file, value string
		optional                bool
	}
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.PIDs)
	settings := []setting{
		{Memory, "memory.limit_in_bytes", memory, false},
		// Swap accounting may be off, and then there is no such file.
		{Memory, "memory.memsw.limit_in_bytes", memory, true},
		{PIDs, "pids.max", pids, false},
	}
	if l.Sockets > 0 {
		settings = append(settings, setting{Memory, socketLimit, strconv.FormatInt(l.Sockets, 10), false})
	}
	if g.tree.V2 {
		settings = []setting{
			{Memory, "memory.max", memory, false},
			{Memory, "memory.swap.max", "0", true},
			// The kernel kills all processes of a run together: the result of a run
			// that lost one of its processes would be wrong.
			{Memory, "memory.oom.group", "1", true},
			{PIDs, "pids.max", pids, false},
		}
	}
	for _, s := range settings {
		if g.dirs[s.controller] == "" || s.controller == Memory && l.Memory == 0 ||
			s.controller == PIDs && l.PIDs == 0 {
			continue
		}
		err := write(filepath.Join(g.dirs[s.controller], s.file), s.value)
		if s.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	return nil
}

// A TasksFile lets a process move itself into a group.
type TasksFile struct {
	Controller string
	File       *os.File
}

// TasksFiles opens the tasks files of version 1. The caller closes them.
func (g *Group) TasksFiles() ([]TasksFile, error) {
	var files []TasksFile
	if g.tree.V2 {
		return nil, nil
	}
	for _, c := range g.tree.Joined() {
		name := filepath.Join(g.dirs[c], "tasks")
		// Not os.OpenFile: it would register a file that is only handed over with the runtime's poller.
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			CloseTasksFiles(files)
			return nil, fmt.Errorf("open cgroup: %w", &os.PathError{Op: "open", Path: name, Err: err})
		}
		files = append(files, TasksFile{c, os.NewFile(uintptr(fd), name)})
	}
	return files, nil
}

// Add moves a process, given by its pidfd, into a group of version 2.
func (g *Group) Add(pidfd *os.File) error {
	pid, err := PID(pidfd)
	if err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	return write(filepath.Join(g.dirs[Memory], "cgroup.procs"), strconv.Itoa(pid))
}

// PID returns the number of the process behind a pidfd.
func PID(pidfd *os.File) (int, error) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find process: %w", err)
	}
	var pid int64
	if err := raw.Control(
		func(fd uintptr) { pid = field(read("/proc/self/fdinfo/"+strconv.Itoa(int(fd))), "Pid:") }); err != nil {
		return 0, fmt.Errorf("find process: %w", err)
	}
	if pid <= 0 {
		return 0, fmt.Errorf("find process: %w", unix.ESRCH)
	}
	return int(pid), nil
}

// CloseTasksFiles closes the files.
func CloseTasksFiles(files []TasksFile) {
	for _, d := range files {
		_ = d.File.Close() // nothing is written through it
	}
}

// Dir opens the directory of version 2 for CLONE_INTO_CGROUP, or returns nil.
func (g *Group) Dir() (*os.File, error) {
	if !g.tree.V2 || len(g.dirs) == 0 {
		return nil, nil
	}
	f, err := os.Open(g.dirs[Memory])
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// A Reading is what a group has used.
type Reading struct {
	CPU    time.Duration
	Memory int64 // at most
	PIDs   int   // at most
}

// Read reads the meters. What cannot be read is zero: a group without a
// controller does not have its meter.
func (g *Group) Read() Reading {
	r := Reading{CPU: g.ReadCPU()}
	if dir := g.dirs[PIDs]; dir != "" {
		r.PIDs = int(number(g.read(filepath.Join(dir, "pids.peak"))))
	}
	switch dir := g.dirs[Memory]; {
	case dir == "":
	case g.tree.V2:
		r.Memory = number(g.read(filepath.Join(dir, "memory.peak")))
	default:
		r.Memory = number(g.read(filepath.Join(dir, "memory.max_usage_in_bytes")))
	}
	return r
}

// OOM reads how many processes were killed because there was no more memory.
func (g *Group) OOM() int64 {
	switch dir := g.dirs[Memory]; {
	case dir == "":
		return 0
	case g.tree.V2:
		return field(read(filepath.Join(dir, "memory.events")), "oom_kill")
	default:
		return field(read(filepath.Join(dir, "memory.oom_control")), "oom_kill")
	}
}

// ReadCPU reads the processor time alone.
func (g *Group) ReadCPU() time.Duration {
	switch dir := g.dirs[CPU]; {
	case dir == "":
		return 0
	case g.tree.V2:
		return time.Duration(field(g.read(filepath.Join(dir, "cpu.stat")), "usage_usec")) * time.Microsecond
	default:
		return time.Duration(number(g.read(filepath.Join(dir, "cpuacct.usage"))))
	}
}

// MeterCPU returns a function that is as ReadCPU and can be called at any time by anybody: it
// uses none of the open files. It returns 0 when the group is gone.
func (g *Group) MeterCPU() func() time.Duration {
	alone := &Group{tree: g.tree, dirs: g.dirs} // which do not change any more
	return alone.ReadCPU
}

// Refused reads how many forks were refused because there were no more pids.
func (g *Group) Refused() int64 {
	if dir := g.dirs[PIDs]; dir != "" {
		return field(read(filepath.Join(dir, "pids.events")), "max")
	}
	return 0
}

// Processes reads how many processes, not threads, are in the group. It returns 0 if that
// is unknown.
func (g *Group) Processes() int {
	if dir := g.dirs[PIDs]; dir != "" {
		return len(fields(filepath.Join(dir, "cgroup.procs")))
	}
	return 0
}

// Remove removes the group, killing what is in it.
func (g *Group) Remove() error {
	g.unwatch()
	var errs []error
	gone := map[string]bool{}
	for _, dir := range g.dirs {
		if !gone[dir] {
			gone[dir] = true
			errs = append(errs, remove(dir))
		}
	}
	return errors.Join(errs...)
}

// remove removes one directory. A killed process leaves its cgroup shortly after its
// parent was notified, so EBUSY is tried again, for at most a second in all.
func remove(dir string) error {
	var err error
	for wait := 50 * time.Microsecond; wait < 500*time.Millisecond; wait *= 2 {
		if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		kill(dir)
		<-time.After(wait)
	}
	return fmt.Errorf("remove cgroup: %w", err)
}

// kill kills the processes of one group.
func kill(dir string) {
	if write(filepath.Join(dir, "cgroup.kill"), "1") == nil { // version 2, Linux 5.14
		return
	}
	for _, pid := range fields(filepath.Join(dir, "cgroup.procs")) {
		if n, err := strconv.Atoi(pid); err == nil && n > 1 && n != os.Getpid() {
			_ = unix.Kill(n, unix.SIGKILL) // gone is as good
		}
	}
}

// write writes a value to a control file. The kernel sets no bound of memory while a signal waits, and the runtime
// sends itself some: then it is tried again.
func write(name, value string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Write(fd, []byte(value))
	}
	if e := unix.Close(fd); err == nil {
		err = e
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// read reads a control file. None is long.
func read(name string) string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	_ = unix.Close(fd) // only read
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// number reads a text that is one number.
func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // "max" is 0
	return n
}

// fields reads a file of words.
func fields(name string) []string { return strings.Fields(read(name)) }

// field reads a number from a text of "key value" lines.
func field(text, key string) int64 {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " "); ok && k == key {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}
