package filter_test

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/filter"
)

const (
	allow  = unix.SECCOMP_RET_ALLOW
	kill   = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	denied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	// invalid is what a kernel answers that does not have a request.
	invalid = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
)

// judge runs a compiled filter on one call.
func judge(t testing.TB, c filter.Config, archID uint32, nr uint32, args ...uint64) uint32 {
	t.Helper()
	return judgeWith(t, c, nil, archID, nr, args...)
}

// judgeWith is judge with further calls that the operator allows.
func judgeWith(t testing.TB, c filter.Config, also []string, archID uint32, nr uint32, args ...uint64) uint32 {
	t.Helper()
	return judgeBy(t, compiled(t, c, also...), archID, nr, args...)
}

// compiled returns the instructions of a compiled filter.
func compiled(t testing.TB, c filter.Config, also ...string) []bpf.Instruction {
	t.Helper()
	program, err := filter.Compile(c, also...)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]bpf.RawInstruction, len(program)/8)
	for i := range raw {
		b := program[i*8:]
		raw[i] = bpf.RawInstruction{Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3],
			K: binary.NativeEndian.Uint32(b[4:])}
	}
	insts, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has unknown instructions")
	}
	return insts
}

// judgeBy runs instructions on one call.
func judgeBy(t testing.TB, insts []bpf.Instruction, archID uint32, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.NativeEndian.PutUint32(data, nr)
	binary.NativeEndian.PutUint32(data[4:], archID)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[16+8*i:], a)
	}
	return run(t, insts, data)
}

// run interprets a program as the kernel does. bpf.NewVM reads big-endian
// packets, and seccomp has the machine's own order.
func run(t testing.TB, program []bpf.Instruction, data []byte) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		switch i := program[pc].(type) {
		case bpf.LoadAbsolute:
			a = binary.NativeEndian.Uint32(data[i.Off:])
		case bpf.ALUOpConstant:
			if i.Op != bpf.ALUOpAnd {
				t.Fatalf("instruction %d is %v", pc, i)
			}
			a &= i.Val
		case bpf.Jump:
			pc += int(i.Skip)
		case bpf.RetConstant:
			return i.Val
		case bpf.JumpIf:
			hit := map[bpf.JumpTest]bool{
				bpf.JumpEqual: a == i.Val, bpf.JumpNotEqual: a != i.Val, bpf.JumpGreaterThan: a > i.Val,
				bpf.JumpGreaterOrEqual: a >= i.Val, bpf.JumpLessThan: a < i.Val, bpf.JumpLessOrEqual: a <= i.Val,
				bpf.JumpBitsSet: a&i.Val != 0, bpf.JumpBitsNotSet: a&i.Val == 0,
			}[i.Cond]
			if hit {
				pc += int(i.SkipTrue)
			} else {
				pc += int(i.SkipFalse)
			}
		default:
			t.Fatalf("instruction %d is %T", pc, i)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

func TestCompile_judges_calls(t *testing.T) {
	out := filter.Config{Egress: true}
	judgeAll(t, []verdict{
		{name: "ordinary", call: "read", want: allow},
		{name: "unknown", call: "setns", want: denied},
		{name: "mount", call: "mount", want: denied},
		{name: "unshare", call: "unshare", want: denied},
		{name: "ptrace", call: "ptrace", want: denied},
		{name: "bpf", call: "bpf", want: denied},
		{name: "keyctl", call: "keyctl", want: denied},
		{name: "handle", call: "open_by_handle_at", want: denied},
		{name: "io_uring", call: "io_uring_setup", want: absent},
		{name: "userfaultfd", call: "userfaultfd", want: absent},
		{name: "clone3 is answered so that libraries use clone", call: "clone3", want: absent},
		{name: "thread", call: "clone", args: []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, want: allow},
		{name: "namespace", call: "clone", args: []uint64{unix.CLONE_NEWUSER | 17}, want: denied},
		{name: "namespace with a dirty upper half", call: "clone", args: []uint64{1<<40 | unix.CLONE_NEWNET},
			want: denied},
		{name: "module", call: "init_module", want: kill},
		{name: "reboot", call: "reboot", want: kill},
		{name: "terminal injection", call: "ioctl", args: []uint64{0, unix.TIOCSTI}, want: denied},
		{name: "terminal injection with a dirty upper half", call: "ioctl", args: []uint64{0, 1<<63 | unix.TIOCSTI},
			want: denied},
		{name: "terminal size", call: "ioctl", args: []uint64{0, unix.TIOCGWINSZ}, want: allow},
		{name: "dnotify", call: "fcntl", args: []uint64{3, unix.F_NOTIFY}, want: denied},
		{name: "record lock", call: "fcntl", args: []uint64{3, unix.F_SETLK}, want: allow},
		{name: "inotify, counted for the maker of the namespace", call: "inotify_init1", want: absent},
		{name: "mapping", call: "mmap", args: []uint64{0, 4096, 3, 0x22}, want: allow},
		{name: "mapping of large pages", call: "mmap", args: []uint64{0, 4096, 3, 0x40022}, want: denied},
		{name: "timer counted by user", config: filter.Config{Reduced: true}, call: "timer_create", want: absent},
		{name: "unix socket that could reach the host", config: filter.Config{Reduced: true}, call: "socket",
			args: []uint64{unix.AF_UNIX}, want: denied},
		{name: "unix socket", call: "socket", args: []uint64{unix.AF_UNIX}, want: allow},
		{name: "internet socket", call: "socket", args: []uint64{unix.AF_INET},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.ENETUNREACH)},
		{name: "internet socket with a network", config: filter.Config{Internet: true}, call: "socket",
			args: []uint64{unix.AF_INET6}, want: allow},
		{name: "packet socket with a network", config: filter.Config{Internet: true}, call: "socket",
			args: []uint64{unix.AF_PACKET}, want: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{name: "tcp by egress", config: out, call: "socket", args: []uint64{unix.AF_INET, unix.SOCK_STREAM},
			want: allow},
		{name: "tcp by egress, named", config: out, call: "socket",
			args: []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP},
			want: allow},
		{name: "tcp by egress, with dirty upper halves", config: out, call: "socket",
			args: []uint64{7<<32 | unix.AF_INET, 7<<32 | unix.SOCK_STREAM, 7<<32 | unix.IPPROTO_TCP}, want: allow},
		{name: "a relative of tcp by egress", config: out, call: "socket",
			args: []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)},
		{name: "udp by egress", config: out, call: "socket",
			args: []uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.ENETUNREACH)},
		{name: "raw by egress", config: out, call: "socket",
			args: []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.ENETUNREACH)},
		{name: "ipv6 by egress", config: out, call: "socket", args: []uint64{unix.AF_INET6, unix.SOCK_STREAM},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{name: "netlink by egress", config: out, call: "socket", args: []uint64{unix.AF_NETLINK, unix.SOCK_RAW},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{name: "unix datagrams by egress", config: out, call: "socket",
			args: []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, want: allow},
		{name: "netlink", call: "socket", args: []uint64{unix.AF_NETLINK},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{name: "a family that is the number of an allowed call", call: "socket", args: []uint64{39},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{name: "personality", call: "personality", args: []uint64{0x0400000}, want: denied},
		{name: "asking for the personality", call: "personality", args: []uint64{0xffffffff}, want: allow},
		{name: "operator's addition", also: []string{"bpf"}, call: "bpf", want: allow},
		{name: "template", config: filter.Config{Template: true}, call: "unshare", want: allow},
		{name: "template still cannot", config: filter.Config{Template: true}, call: "bpf", want: denied},
	})
}

// A supervisor, and without namespaces everybody else, is out of reach.
func TestCompile_protects_others(t *testing.T) {
	reduced := filter.Config{Reduced: true}
	judgeAll(t, []verdict{
		{name: "own limits", call: "prlimit64", want: allow},
		{name: "limits of the supervisor", call: "prlimit64", args: []uint64{1}, want: denied},
		{name: "own processors", call: "sched_setaffinity", want: allow},
		{name: "processors of others", call: "sched_setaffinity", args: []uint64{7}, want: denied},
		{name: "own priority", call: "setpriority", args: []uint64{unix.PRIO_PROCESS, 0, 19}, want: allow},
		{name: "priority of the supervisor", call: "setpriority", args: []uint64{unix.PRIO_PROCESS, 1, 19},
			want: denied},
		{name: "priority of a group", call: "setpriority", args: []uint64{unix.PRIO_PGRP, 0, 19}, want: denied},
		{name: "priority of a user", call: "setpriority", args: []uint64{unix.PRIO_USER, 0, 19}, want: denied},
		{name: "packet filter", call: "setsockopt", args: []uint64{4, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER},
			want: denied},
		{name: "eBPF filter", call: "setsockopt", args: []uint64{4, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, want: denied},
		{name: "socket option", call: "setsockopt", args: []uint64{4, unix.SOL_SOCKET, unix.SO_KEEPALIVE}, want: allow},
		{name: "option of that number on another level", call: "setsockopt",
			args: []uint64{4, unix.IPPROTO_TCP, unix.SO_ATTACH_FILTER}, want: allow},
		{name: "filter of its own", call: "prctl", args: []uint64{unix.PR_SET_SECCOMP}, want: denied},
		{name: "hiding from the meter", call: "prctl", args: []uint64{unix.PR_SET_DUMPABLE}, want: denied},
		{name: "name of a thread", call: "prctl", args: []uint64{unix.PR_SET_NAME}, want: allow},
		{name: "table of futexes", call: "prctl", args: []uint64{78, 1, 1 << 24}, want: invalid},
		{name: "merged pages", call: "prctl", args: []uint64{unix.PR_SET_MEMORY_MERGE, 1}, want: invalid},
		{name: "request of a later kernel", call: "prctl", args: []uint64{1000}, want: invalid},
		{name: "request of a later kernel", config: reduced, call: "prctl", args: []uint64{1000}, want: invalid},
		{name: "outliving its parent", config: reduced, call: "prctl", args: []uint64{unix.PR_SET_PDEATHSIG},
			want: denied},
		{name: "adopting orphans", config: reduced, call: "prctl", args: []uint64{unix.PR_SET_CHILD_SUBREAPER},
			want: denied},
		{name: "pair of streams", config: reduced, call: "socketpair",
			args: []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, want: allow},
		{name: "pair of datagrams", config: reduced, call: "socketpair",
			args: []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, want: denied},
		{name: "connecting", config: reduced, call: "connect", want: denied},
		{name: "connecting with a network", config: filter.Config{Reduced: true, Internet: true}, call: "connect",
			want: allow},
		{name: "memory of others", config: reduced, call: "shmat", want: denied},
		{name: "messages of others", config: reduced, call: "msgrcv", want: denied},
		{name: "semaphores of others", config: reduced, call: "semop", want: denied},
		{name: "modes by descriptor", config: reduced, call: "fchmod", want: denied},
		{name: "attributes by descriptor", config: reduced, call: "fsetxattr", want: denied},
		{name: "attributes by ioctl", config: reduced, call: "ioctl", args: []uint64{3, unix.FS_IOC_SETFLAGS},
			want: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)},
		{name: "size of a terminal", config: reduced, call: "ioctl", args: []uint64{3, unix.TIOCGWINSZ}, want: allow},
		{name: "times", config: reduced, call: "utimensat", want: denied},
		{name: "signals through a descriptor", config: reduced, call: "fcntl", args: []uint64{3, unix.F_SETOWN},
			want: denied},
		{name: "signals that nothing keeps inside", config: reduced, call: "kill", want: denied},
		{name: "signals that Landlock keeps inside", config: filter.Config{Reduced: true, Scoped: true}, call: "kill",
			want: allow},
		{name: "other ids", config: reduced, call: "setresuid", want: denied},
		{name: "memory that no meter sees", config: filter.Config{Uncounted: true}, call: "memfd_create", want: absent},
		{name: "memory that a cgroup counts", call: "memfd_create", want: allow},
	})
}

// A verdict is what a filter must say to a call.
type verdict struct {
	name   string
	config filter.Config
	also   []string
	call   string
	args   []uint64
	want   uint32
}

// judgeAll holds filters to verdicts.
func judgeAll(t *testing.T, tests []verdict) {
	t.Helper()
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nr, ok := info.SyscallNames[tt.call]
			if !ok {
				t.Fatalf("no call %q", tt.call)
			}
			if got := judgeWith(t, tt.config, tt.also, uint32(info.ID), uint32(nr), tt.args...); got != tt.want {
				t.Errorf("%s(%v) = %#x, want %#x", tt.call, tt.args, got, tt.want)
			}
		})
	}
}

func TestCompile_kills_foreign_ABIs(t *testing.T) {
	if got := judge(t, filter.Config{}, uint32(arch.I386.ID), 3); got != kill {
		t.Errorf("a call of i386 = %#x, want %#x", got, kill)
	}
	if info, _ := arch.GetInfo(""); info.ID == arch.X86_64.ID {
		if got := judge(t, filter.Config{}, uint32(info.ID), 0x40000000); got != kill {
			t.Errorf("a call of x32 = %#x, want %#x", got, kill)
		}
	}
}

func TestCompile_refuses(t *testing.T) {
	for _, name := range []string{"no_such_call", "reboot"} {
		if _, err := filter.Compile(filter.Config{}, name); err == nil {
			t.Errorf("Compile(%q) has no error", name)
		}
	}
}
