package local

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
)

// A machine knows which controls this machine gives, and plans the steps that depend on them.
type machine struct {
	log      *slog.Logger
	tree     *cgroup.Tree
	landlock landlock
	// privileged says that this process may map any user id and detach mounts.
	privileged bool
	// guest says that commands have a [Kernel].
	guest bool
	// overlay says that overlays can be mounted.
	overlay bool
	// hasProc says that a process file system can be mounted.
	hasProc bool
	// namespaces says that namespaces can be had; else the mode is reduced.
	namespaces bool
	isolation  haft.Isolation
	lastCap    int
	// mayNamespace is the same as namespaces, for callers that do not hold Provider.proving.
	mayNamespace atomic.Bool
}

// assume assumes every control that is not known to be missing. The assumption is proven
// or corrected by the first set-up of a sandbox.
func (mc *machine) assume(config Config) {
	mc.lastCap = lastCap()
	mc.privileged = os.Geteuid() == 0 && mayAdminister()
	mc.namespaces, mc.hasProc, mc.overlay = true, true, true
	mc.isolation = haft.Isolation{Level: haft.LevelNamespaces, Controls: haft.Controls()}
	if config.Kernel == nil {
		shows := kernelShows
		if os.Geteuid() != 0 { // root's runs have a user id each, also without namespaces
			shows += kernelShares
		}
		mc.dropControl(haft.ControlKernel, "the host's kernel serves the sandbox"+shows)
	} else {
		mc.guest, mc.isolation.Level = true, haft.LevelKernel
		mc.dropControl(haft.ControlLandlock, "the guest kernel opens files for the command, and has to mount")
		mc.dropControl(haft.ControlPIDs, "the guest kernel counts the processes, and refuses more than the limit")
	}
	wall, err := openLandlock()
	if mc.landlock = wall; err != nil {
		mc.dropControl(haft.ControlLandlock, "the kernel has no Landlock: "+err.Error())
	}
	for _, c := range config.Forbid {
		mc.giveUp(c, "the operator forbids it")
	}
	mc.setLevel()
}

// controllers are the controls that are cgroups.
var controllers = map[haft.Control]string{
	haft.ControlMemory: cgroup.Memory, haft.ControlPIDs: cgroup.PIDs, haft.ControlCPU: cgroup.CPU,
}

// degrade gives up the control that a failed step was for. It reports whether another
// attempt makes sense.
func (mc *machine) degrade(e *sandbox.SetupError) bool {
	reason := e.Error()
	switch {
	case e.Step == "cgroup":
		for _, c := range controllers {
			mc.tree.Drop(c, reason)
		}
		return true
	case e.Step == "landlock" && mc.isolation.Has(haft.ControlLandlock):
		return mc.dropControl(haft.ControlLandlock, reason)
	case e.Step == "seccomp" && mc.isolation.Has(haft.ControlSeccomp):
		return mc.dropControl(haft.ControlSeccomp, reason)
	case !mc.namespaces:
		return false
	case e.Path == "time" || strings.HasSuffix(e.Path, "/timens_offsets"):
		return mc.dropControl(haft.ControlTimeNS, reason)
	case e.Step == "overlay" && mc.overlay:
		mc.overlay = false
		mc.log.Warn("runs share the inodes of what is mounted read-only: a lock on a file can be felt by another run",
			"err", reason)
		return true
	case e.Step == "sethostname" && mc.isolation.Has(haft.ControlUTSNS):
		// The filter of podman forbids it, and nothing else that a sandbox needs.
		return mc.dropControl(haft.ControlUTSNS, reason)
	case e.Step == "unshare" && e.Path == "cgroup":
		return mc.dropControl(haft.ControlCgroupNS, reason)
	case e.Step == "mount" && e.Path == "proc" && mc.hasProc:
		// A container masks parts of /proc, and then the kernel refuses to mount a
		// complete one (mount_too_revealing). A sandbox without /proc sees less, not more.
		mc.hasProc = false
		return mc.dropControl(haft.ControlTimeNS, reason)
	default:
		return mc.giveUp(haft.ControlMountNS, reason)
	}
}

// setLevel sets the level of isolation. Namespaces without a filter of system calls, or
// without their own root, count as reduced.
func (mc *machine) setLevel() {
	mc.mayNamespace.Store(mc.namespaces)
	for control, controller := range controllers {
		if !mc.tree.Has(controller) {
			mc.dropControl(control, mc.tree.Missing(controller))
		}
	}
	if !mc.namespaces && mc.landlock.abi < reducedABI {
		mc.dropControl(haft.ControlLandlock,
			fmt.Sprintf("without namespaces Landlock must have ABI %d (Linux 6.2), this is %d: "+
				"it does not keep files from being cut", reducedABI, mc.landlock.abi))
	}
	if !mc.namespaces && !mc.privileged {
		mc.dropControl(haft.ControlCaps,
			"only a privileged process can empty the bounding set; no_new_privs keeps it from being used")
	}
	for _, c := range levelControls() {
		if !mc.isolation.Has(c) {
			mc.isolation.Level = haft.LevelReduced
		}
	}
}

// levelControls are the controls without which the isolation is reduced.
func levelControls() []haft.Control {
	return []haft.Control{haft.ControlUserNS, haft.ControlRoot, haft.ControlSeccomp, haft.ControlCaps,
		haft.ControlNoNewPriv}
}

// mayAdminister reports whether this process has CAP_SYS_ADMIN, which the root of a
// container lacks. Without it namespaces are made the way of an ordinary user.
func mayAdminister() bool {
	var sets [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// dropControl removes a control that is not there. It reports true.
func (mc *machine) dropControl(c haft.Control, reason string) bool {
	if c == haft.ControlMemory && !mc.guest {
		reason += uncountedMemory
	}
	mc.isolation = without(mc.isolation, c, reason)
	return true
}

// kernelShows is what a result states of a sandbox without a kernel of its own, with namespaces too: sysinfo, some
// files of /proc/self and locks on inodes that all sandboxes have are of the whole machine.
const kernelShows = "; load, memory and uptime of the machine, host paths of mounts and the range of user ids can be " +
	"asked for, and tools that run at the same time can signal each other by locks on devices and on the interpreter"

// kernelShares is what it states besides if all runs have the user id of Haft.
const kernelShares = "; limits that the kernel has for a user (memory of pipes, epoll watches, descriptors in " +
	"flight) are shared with everything that Haft's user runs"

// uncountedMemory is what a result states of a sandbox without a cgroup of memory.
const uncountedMemory = "; memory of processes and of their page tables is counted by looking at them, other memory " +
	"of the kernel (pipes, sockets, lists of mappings) is not"

// reducedNames is what a result states of a sandbox without a root of its own. No
// filter can judge the paths of these calls, and Landlock does not.
const reducedNames = "; names, sizes, owners and times of the host's files can be asked for (stat, access, " +
	"readlink, chdir), their contents not"

// giveUp removes a control, and the controls that depend on it.
func (mc *machine) giveUp(c haft.Control, reason string) bool {
	together := []haft.Control{
		haft.ControlUserNS, haft.ControlMountNS, haft.ControlPIDNS, haft.ControlNetNS, haft.ControlIPCNS,
		haft.ControlUTSNS, haft.ControlRoot, haft.ControlDisk, haft.ControlCgroupNS, haft.ControlTimeNS,
	}
	if controller, ok := controllers[c]; ok {
		mc.tree.Drop(controller, reason)
	}
	if alone := haft.ControlCgroupNS == c || haft.ControlTimeNS == c; slices.Contains(together, c) && !alone {
		mc.namespaces = false
		// Without namespaces, another user id keeps a tool from our files. Root may change
		// to it without CAP_SYS_ADMIN.
		mc.privileged = os.Geteuid() == 0
		mc.dropControl(haft.ControlRoot, reason+reducedNames)
		for _, t := range together {
			mc.dropControl(t, reason)
		}
	}
	return mc.dropControl(c, reason)
}

// without returns i less one control.
func without(i haft.Isolation, c haft.Control, reason string) haft.Isolation {
	if !i.Has(c) {
		return i
	}
	i.Controls = slices.DeleteFunc(slices.Clone(i.Controls), func(x haft.Control) bool { return x == c })
	i.Missing = append(slices.Clone(i.Missing), haft.Gap{Control: c, Reason: reason})
	return i
}

// sharesUID reports whether a run has neither a user id nor a user namespace of its own:
// the kernel counts its processes with all others of Haft's user.
func (mc *machine) sharesUID() bool { return !mc.namespaces && !mc.privileged }

// initTasks is how many threads of an init the cgroup counts with its command: in version
// 1 only the thread that started the command moved there, in version 2 all of them.
func (mc *machine) initTasks() int {
	if mc.tree.V2 {
		return initThreads
	}
	return 1
}

// attributes returns the attributes of the clone that makes an init.
func (mc *machine) attributes(network sandbox.Network, uid int) *syscall.SysProcAttr {
	if !mc.namespaces {
		return mc.reducedAttributes(uid)
	}
	return mc.namespacesOf(network, uid)
}

// watch returns the limits that the init must meter because there is no cgroup.
func (mc *machine) watch(l haft.Limits) *watch {
	w := &watch{}
	if !mc.tree.Has(cgroup.Memory) {
		w.Memory = l.Memory
	}
	if !mc.tree.Has(cgroup.CPU) {
		w.CPU = l.CPU.D()
	}
	if !mc.tree.Has(cgroup.PIDs) {
		w.Processes, w.Shared = l.Processes, mc.sharesUID()
	}
	if *w == (watch{}) {
		return nil
	}
	return w
}

// namespacesOf returns the attributes of the clone into new namespaces.
func (mc *machine) namespacesOf(network sandbox.Network, uid int) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		// An ordinary user may map only itself, and not drop its groups.
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: insideID, HostID: uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: insideID, HostID: mc.gidOf(uid), Size: 1}},
		GidMappingsEnableSetgroups: mc.privileged,
		Credential:                 &syscall.Credential{Uid: insideID, Gid: insideID, NoSetGroups: !mc.privileged},
		// A user that is not 0 loses its capabilities at exec, but for these.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_TIME, unix.CAP_SYS_PTRACE,
			unix.CAP_NET_ADMIN},
	}
	if network != sandbox.NetworkFull {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	return sys
}

// namespacesOfTemplate returns the attributes of the clone for a template, which
// may give its forks ids of a block, and make time namespaces.
func (mc *machine) namespacesOfTemplate(network sandbox.Network, block int) *syscall.SysProcAttr {
	sys := mc.namespacesOf(network, block)
	sys.AmbientCaps = append(sys.AmbientCaps, unix.CAP_SETUID, unix.CAP_SETGID)
	if mc.privileged {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: block, Size: idsPerTemplate}}
		sys.UidMappings, sys.GidMappings = all, all
		sys.Credential = &syscall.Credential{Uid: templateID, Gid: templateID}
	}
	return sys
}

// gidOf returns the group of the host that goes with a user.
func (mc *machine) gidOf(uid int) int {
	if mc.privileged {
		return uid
	}
	return os.Getegid()
}
