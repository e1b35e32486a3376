package local

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
	"haft/sandbox/local/internal/plan"
)

// limits plans the rlimits of each process. None is raised above the hard limit of this
// process, because only a privileged process may do that. Company is how many threads of
// the init the kernel counts with the command.
func (mc *machine) limits(pl *plan.Plan, l haft.Limits, company int) {
	set := func(name string, resource int, soft, hard uint64) {
		own := ownLimit(resource)
		pl.Rlimit(name, resource, min(soft, own), min(hard, own))
	}
	both := func(name string, resource int, v uint64) { set(name, resource, v, v) }
	pl.OpenFiles(min(uint64(l.OpenFiles), ownLimit(unix.RLIMIT_NOFILE)))
	both("core", unix.RLIMIT_CORE, 0)
	both("fsize", unix.RLIMIT_FSIZE, uint64(l.FileSize))
	both("stack", unix.RLIMIT_STACK, 8<<20)
	both("memlock", unix.RLIMIT_MEMLOCK, 64<<10)
	if !mc.guest { // gVisor refuses to set them
		both("msgqueue", unix.RLIMIT_MSGQUEUE, 0)
		// Timers and queued signals. The kernel also counts them for the creator of the user namespace.
		both("sigpending", unix.RLIMIT_SIGPENDING, 128)
	}
	// A backstop: the limit of the run is for all processes together. The soft
	// limit sends SIGXCPU, the hard one SIGKILL.
	cpu := uint64(math.Ceil(l.CPU.D().Seconds())) + 1
	if mc.guest { // whose clock counts the time that a process waits for a processor
		cpu *= 64
	}
	set("cpu", unix.RLIMIT_CPU, cpu, cpu+1)
	if !mc.tree.Has(cgroup.Memory) {
		// RLIMIT_AS would count memory that is only reserved, and stop V8 at its start.
		// RLIMIT_DATA counts private writable memory (Linux 4.7). It is higher than the
		// limit of the run, so that the meter sees the excess and reports the limit.
		both("data", unix.RLIMIT_DATA, uint64(l.Memory+max(l.Memory/2, 256<<20)))
	}
	if !mc.tree.Has(cgroup.PIDs) && !mc.sharesUID() {
		// The kernel counts per user and user namespace (Linux 5.14). Every run has
		// its own user namespace, or at least its own user id.
		both("nproc", unix.RLIMIT_NPROC, uint64(l.Processes+company))
	}
}

// othersProcesses is how many processes and threads Haft's user may start outside a run
// before the kernel refuses new ones to the run. The init of a run has some 10 threads. A
// fork bomb can also start as many until the meter ends it: with 1,024 on two processors,
// the init got too little processor time to do so within 10 s.
const othersProcesses = 256

// ownLimit is what this process may raise a limit to.
func ownLimit(resource int) uint64 {
	var own unix.Rlimit
	if unix.Getrlimit(resource, &own) != nil {
		return math.MaxUint64
	}
	return own.Max
}

// initThreads is how many threads the init may have, where the kernel counts them with
// the command.
const initThreads = 16

// lastCap is the highest capability that this kernel knows.
func lastCap() int {
	for c := 63; c > 0; c-- {
		if err := unix.Prctl(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil {
			return c
		}
	}
	return unix.CAP_LAST_CAP
}

// Rights of Landlock, by what they need.
const (
	llRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	llNever    = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	llRefer    = 1 << 13 // ABI 2: rename and link between directories
	llTruncate = 1 << 14 // ABI 3
	llIoctl    = 1 << 15 // ABI 5: requests on devices
	llTCP      = 1<<0 | 1<<1
	llScopes   = 1<<0 | 1<<1 // ABI 6: abstract sockets and signals stay inside
)

// A landlock is what this kernel's Landlock can do.
type landlock struct{ abi int }

// openLandlock asks the kernel for its version. 0 means none.
func openLandlock() (landlock, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return landlock{}, errno
	}
	return landlock{int(abi)}, nil
}

// reducedABI is the least version that can stand for a root of its own: older ones do
// not govern O_TRUNC and truncate, so that files which may only be read can be emptied.
const reducedABI = 3

// scopes reports whether it keeps signals inside.
func (l landlock) scopes() bool { return l.abi >= 6 }

// rights returns what is handled: everything that this version knows.
func (l landlock) rights() (read, write uint64) {
	read, write = llRead, llWrite
	if l.abi >= 2 {
		write |= llRefer
	}
	if l.abi >= 3 {
		write |= llTruncate
	}
	if l.abi >= 5 {
		write |= llIoctl
	}
	return read, write
}

// attr returns the struct landlock_ruleset_attr. The kernel derives the version from its
// size.
func (l landlock) attr(anyPort bool) []byte {
	read, write := l.rights()
	b := binary.NativeEndian.AppendUint64(nil, read|write|llNever)
	if l.abi >= 4 {
		tcp := uint64(llTCP)
		if anyPort {
			tcp = 0
		}
		b = binary.NativeEndian.AppendUint64(b, tcp)
	}
	if l.scopes() {
		b = binary.NativeEndian.AppendUint64(b, llScopes)
	}
	return b
}

// plan plans Landlock for a sandbox with a root of its own. A rule for "/" covers
// what was mounted there and nothing else: a file of the host that is reached
// around the root has another root above it, and no rule.
//
// With egress, its port is the only one. The network namespace ensures that only the
// egress listener can be reached at that port. With a loopback of its own a command may use all
// ports, of which there are too many for rules: there the network namespace alone bounds TCP.
func (l landlock) plan(pl *plan.Plan, spec *sandbox.Spec, writable []string) {
	if l.abi == 0 {
		return
	}
	read, write := l.rights()
	rules := []plan.Rule{{Path: "/", Access: read}}
	for _, dir := range append([]string{"/tmp", "/work", "/var/tmp", "/dev/shm"}, writable...) {
		rules = append(rules, plan.Rule{Path: dir, Access: read | write})
	}
	rules = append(rules,
		plan.Rule{Path: "/dev", Access: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | write&(llTruncate|llIoctl)})
	anyPort := spec.Network == sandbox.NetworkFull || spec.Loopback
	if spec.Network == sandbox.NetworkEgress && !anyPort && l.abi >= 4 {
		rules = append(rules, plan.Rule{Port: sandbox.EgressPort, Access: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP})
	}
	pl.Landlock(l.attr(anyPort), rules)
}

// errnoIn returns the errno in err, or err.
func errnoIn(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	if errors.Is(err, os.ErrNotExist) {
		return unix.ENOENT
	}
	return err
}

// clockOffsets returns the content of timens_offsets with which the monotonic and the
// boot clock begin now.
func clockOffsets() []byte {
	var s []byte
	for _, c := range []struct {
		name string
		id   int32
	}{{"monotonic", unix.CLOCK_MONOTONIC}, {"boottime", unix.CLOCK_BOOTTIME}} {
		var ts unix.Timespec
		if unix.ClockGettime(c.id, &ts) != nil {
			continue
		}
		s = append(s, c.name+" -"...)
		s = strconv.AppendInt(s, max(ts.Sec-1, 0), 10)
		s = append(s, " 0\n"...)
	}
	return s
}
