package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"haft/sandbox/internal/mountinfo"
)

// The controllers that we use. cpu stands for the metering of processor time,
// which is cpuacct in version 1 and cpu.stat in version 2.
const (
	Memory = "memory"
	PIDs   = "pids"
	CPU    = "cpu"
)

// A Tree holds our groups, for each controller that can be used.
type Tree struct {
	// V2 says that one directory serves all controllers.
	V2 bool
	// dirs holds our own directory per controller. In version 2 they are equal.
	dirs map[string]string
	// made are the directories to remove, those of dropped controllers included.
	made []string
	// missing says why a controller is not there.
	missing map[string]string
	// watched counts the groups whose meters are open.
	watched atomic.Int64
}

// Open makes the directory name for every controller, below the cgroup that this
// process is in. It never fails: Missing says what cannot be used.
func Open(name string) *Tree {
	mounts, err := mountPoints()
	var own map[string]string
	if err == nil {
		own, err = membership("/proc/self/cgroup")
	}
	t := &Tree{dirs: map[string]string{}, missing: map[string]string{}}
	if err != nil {
		t.miss(err.Error())
		return t
	}
	if root := mounts[""]; root.path != "" && t.openV2(root, own[""], name) {
		t.V2 = true
		return t
	}
	for c, kernel := range map[string]string{Memory: "memory", PIDs: "pids", CPU: "cpuacct"} {
		t.openV1(c, mounts[kernel], own[kernel], name)
	}
	return t
}

// openV1 makes our directory for one controller of version 1.
func (t *Tree) openV1(controller string, at mountPoint, own, name string) {
	if at.path == "" {
		if t.missing[controller] == "" {
			t.missing[controller] = "no cgroup hierarchy has this controller"
		}
		return
	}
	dir := filepath.Join(at.path, at.inside(own), name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		t.missing[controller] = "make a cgroup: " + errText(err)
		return
	}
	if err := unix.Access(filepath.Join(dir, "tasks"), unix.W_OK); err != nil {
		t.missing[controller] = "write to a cgroup: " + errText(err)
		return
	}
	t.dirs[controller] = dir
	t.made = append(t.made, dir)
	delete(t.missing, controller)
}

// openV2 makes our directory in the unified hierarchy, in the nearest ancestor of our own
// cgroup that can enable controllers for its children. A cgroup that has processes cannot
// (cgroups(7), "no internal processes"), and our own usually has: if no other process is
// in it, we move below it. openV2 reports whether it got any controller.
func (t *Tree) openV2(at mountPoint, own, name string) bool {
	for rel := at.inside(own); ; rel = filepath.Dir(rel) {
		if t.tryV2(filepath.Join(at.path, rel), name) {
			return true
		}
		if rel == "/" || rel == "." {
			break
		}
	}
	dir := filepath.Join(at.path, at.inside(own))
	return stepAside(dir) && t.tryV2(dir, name)
}

// aside is the cgroup that we move to from one that is ours alone. A unit's
// DelegateSubgroup (systemd 254) is the same from the start.
const aside = "server"

// stepAside moves this process below its own cgroup, so that the cgroup can enable
// controllers for its children. It does nothing and reports false if the cgroup was not
// delegated to us, or if another process is in it; the first process of a container that
// started us does not count.
func stepAside(own string) bool {
	if !slices.Contains(fields(filepath.Join(own, "cgroup.controllers")), "memory") {
		return false
	}
	processes := fields(filepath.Join(own, "cgroup.procs"))
	for _, pid := range processes {
		if pid != strconv.Itoa(os.Getpid()) && (pid != "1" || os.Getppid() != 1) {
			return false
		}
	}
	dir := filepath.Join(own, aside)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false
	}
	for _, pid := range processes {
		if write(filepath.Join(dir, "cgroup.procs"), pid) != nil {
			_ = os.Remove(dir) // it stays if one of us is in it
			return false
		}
	}
	return true
}

// tryV2 tries to make our directory in parent with the controllers enabled.
func (t *Tree) tryV2(parent, name string) bool {
	has := fields(filepath.Join(parent, "cgroup.controllers"))
	if !slices.Contains(has, "memory") || !slices.Contains(has, "pids") {
		return t.miss("the unified hierarchy lacks the controllers")
	}
	dir := filepath.Join(parent, name)
	for _, d := range []string{parent, dir} {
		if d == dir {
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return t.miss("make a cgroup: " + errText(err))
			}
		}
		if on := fields(filepath.Join(d, "cgroup.subtree_control")); slices.Contains(on, "memory") &&
			slices.Contains(on, "pids") {
			continue
		}
		if err := write(filepath.Join(d, "cgroup.subtree_control"), "+memory +pids"); err != nil {
			_ = os.Remove(dir) // made above or not there at all
			return t.miss("hand down the controllers: " + errText(err))
		}
	}
	t.made = append(t.made, dir)
	for _, c := range []string{Memory, PIDs, CPU} { // cpu.stat is always there
		t.dirs[c] = dir
		delete(t.missing, c)
	}
	return true
}

// miss says why no controller can be used. It returns false.
func (t *Tree) miss(reason string) bool {
	for _, c := range []string{Memory, PIDs, CPU} {
		t.missing[c] = reason
	}
	return false
}

// Has reports whether a controller can be used.
func (t *Tree) Has(controller string) bool { return t.dirs[controller] != "" }

// BoundsSockets reports whether the memory of TCP sockets is bounded by the limits of a group.
func (t *Tree) BoundsSockets() bool {
	dir := t.dirs[Memory]
	if dir == "" || t.V2 {
		// Version 2 counts them, unless the kernel was told not to.
		return dir != "" && !slices.ContainsFunc(fields("/proc/cmdline"), func(option string) bool {
			list, ok := strings.CutPrefix(option, "cgroup.memory=")
			return ok && slices.Contains(strings.Split(list, ","), "nosocket")
		})
	}
	return unix.Access(filepath.Join(dir, socketLimit), unix.W_OK) == nil
}

// Joined lists the controllers of version 1, whose groups a process joins one by
// one, in an order that does not change.
func (t *Tree) Joined() []string {
	if t.V2 {
		return nil
	}
	return slices.Sorted(maps.Keys(t.dirs))
}

// Missing says why a controller cannot be used.
func (t *Tree) Missing(controller string) string { return t.missing[controller] }

// Dirs lists the directories that were made, so that a later instance can remove them.
func (t *Tree) Dirs() []string { return slices.Sorted(slices.Values(t.made)) }

// Drop pretends that a controller is not there.
func (t *Tree) Drop(controller, reason string) {
	delete(t.dirs, controller)
	t.missing[controller] = reason
}

// Close removes our directories. Groups must be gone.
func (t *Tree) Close() error { return Sweep(t.Dirs()) }

// Sweep removes directories that Dirs listed for an earlier instance, and the groups in
// them. It kills the processes in them.
func Sweep(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		if !strings.Contains(filepath.Base(dir), "haft-") || !isCgroup(filepath.Dir(dir)) {
			continue
		}
		groups, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		errs = append(errs, err)
		for _, g := range groups {
			if g.IsDir() {
				errs = append(errs, remove(filepath.Join(dir, g.Name())))
			}
		}
		errs = append(errs, remove(dir))
	}
	return errors.Join(errs...)
}

// isCgroup reports whether a directory is in a cgroup file system.
func isCgroup(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	return st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC
}

// A mountPoint is where a hierarchy can be seen.
type mountPoint struct{ path, root string }

// inside turns a path of /proc/self/cgroup into one below the mount point. A
// mount that shows only a part of the hierarchy has that part as its root.
func (m mountPoint) inside(own string) string {
	if rest, ok := strings.CutPrefix(own, m.root); ok {
		return filepath.Join("/", rest)
	}
	return "/"
}

// mountPoints finds the hierarchies by controller; "" is version 2.
func mountPoints() (map[string]mountPoint, error) {
	mounts, err := mountinfo.Read()
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	found := map[string]mountPoint{}
	for _, m := range mounts {
		switch at := (mountPoint{path: m.At, root: m.Root}); m.Kind {
		case "cgroup2":
			found[""] = at
		case "cgroup":
			for option := range strings.SplitSeq(m.Options, ",") {
				found[option] = at
			}
		}
	}
	return found, nil
}

// membership reads /proc/self/cgroup into paths by controller.
func membership(name string) (map[string]string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	own := map[string]string{}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		for _, c := range strings.Split(part[1], ",") {
			own[c] = part[2]
		}
	}
	return own, nil
}

// errText returns the errno's words only: the path is ours.
func errText(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
