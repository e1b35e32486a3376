package filter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Config says how a filter differs from the usual one. It can be a key of a map.
type Config struct {
	// Internet allows sockets of the families AF_INET and AF_INET6.
	Internet bool
	// Egress allows TCP over IPv4, and nothing else of the internet.
	Egress bool
	// Template is for the process that cells are forked from.
	Template bool
	// Reduced is for a sandbox without namespaces, which shares processes, sockets,
	// files' attributes and IPC objects with the host: it gets a list of its own.
	Reduced bool
	// Scoped says that Landlock keeps signals inside (ABI 6). Without it, a reduced
	// sandbox may send no signals.
	Scoped bool
	// Uncounted says that no cgroup counts memory, but a meter that looks at
	// processes: memory that no process maps is refused.
	Uncounted bool
	// Observe asks the listener of the filter about the calls of [Looks] that are allowed, and about datagram and raw
	// sockets of the internet that are refused: see [Config.Refusal].
	Observe bool
}

// The verdicts.
const (
	allow  = uint32(unix.SECCOMP_RET_ALLOW)
	killer = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	denied = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	absent = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
	// unsupported is what a file system without an operation answers.
	unsupported = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EOPNOTSUPP)
)

// A rule judges one system call.
type rule struct {
	verdict uint32
	// If arg is not nil, it decides.
	arg *argument
}

// argument judges by the low half of one argument. The arguments that we look at
// are ints, of which the kernel takes no more than that half.
type argument struct {
	index uint32
	bits  uint32            // if not 0: any of these bits is refused
	clear uint32            // bits that are not looked at
	cases map[uint32]uint32 // verdict by value
	other uint32            // the verdict of all other values
	// then are values for which another argument decides.
	then map[uint32]*argument
}

// Compile returns a filter as an array of struct sock_filter, for the
// architecture of this program. Also are names of further calls that the operator
// allows. They override every list except that of the calls that kill.
//
// The program is a binary search over the numbers of the calls. A list, one
// comparison after the other, is slower to run and much slower to load, since the
// kernel tries it on every number to find the calls that need no look at all
// (seccomp_cache_prepare, Linux 5.11).
func Compile(c Config, also ...string) ([]byte, error) {
	info, err := arch.GetInfo(runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	for _, name := range also {
		if _, ok := info.SyscallNames[name]; !ok {
			return nil, fmt.Errorf("seccomp: %s has no system call %q", info.Name, name)
		}
		if slices.Contains(killed, name) {
			return nil, fmt.Errorf("seccomp: system call %q cannot be allowed", name)
		}
		if c.Observe && slices.Contains(unseen, name) {
			return nil, fmt.Errorf("seccomp: a run in which system call %q is allowed cannot be observed", name)
		}
	}
	program := append(killForeignABIs(info), search(spans(rules(c, also, info)))...)
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.NativeEndian, raw); err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	return out.Bytes(), nil
}

// killForeignABIs kills callers of foreign ABIs: i386 has numbers of its own, with which a
// filter for x86-64 would judge the wrong calls, and x32 sets a bit in the number
// (CVE-2009-0835 was a hole of this kind). It leaves the number of the call in
// the accumulator.
func killForeignABIs(info *arch.Info) []bpf.Instruction {
	kill := bpf.RetConstant{Val: killer}
	g := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: 0, Size: 4},
	}
	if info.ID == arch.X86_64.ID {
		g = append(g, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1}, kill)
	}
	return g
}

// rules returns the rule of each call that has one. The others get EPERM.
func rules(c Config, also []string, info *arch.Info) map[uint32]rule {
	rs := map[uint32]rule{}
	set := func(r rule, names ...string) {
		for _, name := range names {
			if nr, ok := info.SyscallNames[name]; ok {
				rs[uint32(nr)] = r
			}
		}
	}
	set(rule{verdict: absent}, missing...)
	for _, g := range granted(c) {
		set(rule{verdict: allow}, g.names...)
	}
	if c.Reduced {
		for name, verdict := range shared {
			set(rule{verdict: verdict}, name)
		}
	}
	if c.Template {
		set(rule{verdict: allow}, template.names...)
	} else {
		for name, j := range judged(c) {
			set(rule{arg: &j.argument}, name)
		}
	}
	if c.Uncounted {
		for name, verdict := range uncounted {
			set(rule{verdict: verdict}, name)
		}
	}
	set(rule{verdict: allow}, also...)
	if c.Observe {
		for name := range looks() {
			if nr, ok := info.SyscallNames[name]; ok && rs[uint32(nr)] == (rule{verdict: allow}) {
				rs[uint32(nr)] = rule{verdict: notify}
			}
		}
		if nr, ok := info.SyscallNames["socket"]; ok && rs[uint32(nr)].arg != nil {
			rs[uint32(nr)] = rule{arg: rs[uint32(nr)].arg.askAboutDatagrams()}
		}
	}
	set(rule{verdict: killer}, killed...)
	return rs
}

// A judgement is how a call is judged by its arguments, and why.
type judgement struct {
	argument
	why string
}

// judged are the calls that are judged by an argument.
func judged(c Config) map[string]judgement {
	family := func(e unix.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(e) }
	// The message of ENETUNREACH is the clearest for a model that reads it.
	internet := family(unix.ENETUNREACH)
	if c.Internet {
		internet = allow
	}
	local := allow
	if c.Reduced {
		local = denied // Landlock does not judge whom a socket connects to
	}
	// The process itself has the number 0. With another number a program could limit,
	// slow down or stop its supervisor, and without a pid namespace everybody of its user.
	itself := func(index uint32) argument {
		return argument{index: index, other: denied, cases: map[uint32]uint32{0: allow}}
	}
	own := itself(1)
	filters := argument{index: 2, other: allow, cases: map[uint32]uint32{
		unix.SO_ATTACH_FILTER: denied, unix.SO_ATTACH_BPF: denied, unix.SO_LOCK_FILTER: denied,
		unix.SO_ATTACH_REUSEPORT_CBPF: denied, unix.SO_ATTACH_REUSEPORT_EBPF: denied}}
	calls := map[string]judgement{
		"mmap": {argument{index: 3, bits: unix.MAP_HUGETLB, other: allow},
			"maps memory, but no large pages, which the operator reserved and nobody counts"},
		"memfd_create": {argument{index: 1, bits: unix.MFD_HUGETLB, other: allow},
			"makes a file in memory, which the memory cgroup counts, but not of large pages"},
		"clone": {argument{index: 0, bits: namespaceFlags, other: allow},
			// CLONE_NEWTIME (0x80) is part of the exit signal in clone(2), and so no flag there.
			"starts threads and processes, but makes no namespace"},
		"ioctl": {devices(c),
			"asks devices that it could open, but puts nothing into a terminal that somebody handed in " +
				"(TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, TIOCSCTTY; CVE-2017-5226); without namespaces only TCGETS, " +
				"TCSETS, TCSETSW, TCSETSF, TIOCGWINSZ, TIOCGPGRP, TIOCINQ, TIOCOUTQ, FIONBIO, FIOCLEX, FIONCLEX, " +
				"FICLONE and FICLONERANGE, which change no attribute of a file"},
		"fcntl": {descriptors(c),
			"works on its descriptors, without F_SETLEASE and F_NOTIFY, which tell what others do with a file; " +
				"without namespaces without F_SETOWN, F_SETOWN_EX and F_SETSIG, which send signals to others"},
		"personality": {argument{index: 0, other: denied, cases: map[uint32]uint32{0: allow, 0xffffffff: allow}},
			"only PER_LINUX, and asking"},
		"prctl": {requests(c),
			"only for what changes or asks about nothing but the caller: " + requestNames()},
		"prlimit64":         {itself(0), "lowers the caller's own limits: process 0 only"},
		"sched_setaffinity": {itself(0), "chooses the caller's own processors: process 0 only"},
		"setpriority": {argument{index: 0, other: denied, then: map[uint32]*argument{unix.PRIO_PROCESS: &own}},
			"lowers the caller's own priority: process 0 only"},
		"setsockopt": {argument{index: 1, other: allow, then: map[uint32]*argument{unix.SOL_SOCKET: &filters}},
			"sets options, but attaches no BPF program: its compiled form is kernel memory that nobody counts"},
		"socketpair": {pairs(c, family(unix.EAFNOSUPPORT)),
			"makes connected Unix sockets; without namespaces streams only, " +
				"since a datagram can be sent to any path"},
		"socket": {sockets(c, local, internet, family), "makes sockets of the families that the mode has"},
	}
	if !c.Reduced {
		calls["shmget"] = judgement{argument{index: 2, bits: shmHugeTLB, other: allow},
			"makes System V memory, but not of large pages"}
	}
	return calls
}

// shmHugeTLB is SHM_HUGETLB, which package unix lacks.
const shmHugeTLB = 0o4000

// Requests of ioctl that package unix lacks (include/uapi/asm-generic/ioctls.h).
const (
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
)

// devices judges the requests of ioctl. Those of file systems change attributes through
// any descriptor (FS_IOC_SETFLAGS), so a sandbox that shares the host's files gets few.
func devices(c Config) argument {
	if !c.Reduced {
		return argument{index: 1, other: allow, cases: map[uint32]uint32{
			unix.TIOCSTI: denied, unix.TIOCLINUX: denied, unix.TIOCSETD: denied, unix.TIOCCONS: denied,
			unix.TIOCSCTTY: denied}}
	}
	a := argument{index: 1, other: uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOTTY), cases: map[uint32]uint32{}}
	for _, request := range []uint32{
		unix.TCGETS, unix.TCSETS, unix.TCSETSW, unix.TCSETSF, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCINQ,
		unix.TIOCOUTQ,
		fionbio, fioclex, fionclex, unix.FICLONE, unix.FICLONERANGE,
	} {
		a.cases[request] = allow
	}
	return a
}

// descriptors judges the commands of fcntl. The owner of a descriptor is signalled
// (F_SETOWN), and can be any process.
func descriptors(c Config) argument {
	a := argument{index: 1, other: allow, cases: map[uint32]uint32{unix.F_SETLEASE: denied, unix.F_NOTIFY: denied}}
	if c.Reduced {
		a.cases[unix.F_SETOWN], a.cases[unix.F_SETOWN_EX], a.cases[unix.F_SETSIG] = denied, denied, denied
	}
	return a
}

// pairs judges socketpair. A datagram socket of a pair still sends to any path or
// abstract name (sendto), and Landlock does not judge paths of sockets.
func pairs(c Config, no uint32) argument {
	a := argument{index: 0, other: no, cases: map[uint32]uint32{unix.AF_UNIX: allow}}
	if c.Reduced {
		a.cases = nil
		a.then = map[uint32]*argument{unix.AF_UNIX: {index: 1, clear: unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC,
			other: denied,
			cases: map[uint32]uint32{unix.SOCK_STREAM: allow, unix.SOCK_SEQPACKET: allow}}}
	}
	return a
}

// sockets judges the families of sockets, and with egress their types.
func sockets(c Config, local, internet uint32, errno func(unix.Errno) uint32) argument {
	a := argument{index: 0, other: errno(unix.EAFNOSUPPORT), cases: map[uint32]uint32{
		unix.AF_UNIX: local, unix.AF_INET: internet, unix.AF_INET6: internet}}
	if !c.Egress {
		return a
	}
	// IPv6 is as if the kernel had none, so that programs take IPv4. TCP only:
	// neither its relatives (SCTP, MPTCP) nor UDP have anywhere to go.
	tcp := &argument{index: 2, other: errno(unix.EPROTONOSUPPORT),
		cases: map[uint32]uint32{0: allow, unix.IPPROTO_TCP: allow}}
	a.cases = map[uint32]uint32{unix.AF_UNIX: local}
	a.then = map[uint32]*argument{unix.AF_INET: {
		index: 1, clear: unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC, other: errno(unix.ENETUNREACH),
		then: map[uint32]*argument{unix.SOCK_STREAM: tcp},
	}}
	return a
}

// namespaceFlags are the flags of clone that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// A span is a run of numbers, from first to the next span's first, with one rule.
type span struct {
	first uint32
	rule  rule
}

// spans turns rules into spans that cover every number.
func spans(rs map[uint32]rule) []span {
	list := []span{{0, rule{verdict: denied}}}
	add := func(first uint32, r rule) {
		last := &list[len(list)-1]
		switch {
		case last.rule == r:
		case last.first == first:
			last.rule = r
		default:
			list = append(list, span{first, r})
		}
	}
	for _, nr := range slices.Sorted(maps.Keys(rs)) {
		add(nr, rs[nr])
		if _, ok := rs[nr+1]; !ok {
			add(nr+1, rule{verdict: denied})
		}
	}
	return list
}

// search returns the program that finds the span of the accumulator. Every path
// through it ends with a verdict, so no jump has to lead out of a part.
func search(list []span) []bpf.Instruction {
	if len(list) == 1 {
		return list[0].rule.program()
	}
	half := len(list) / 2
	low, high := search(list[:half]), search(list[half:])
	var head []bpf.Instruction
	if at := list[half].first; len(low) <= 255 {
		head = []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: at, SkipTrue: uint8(len(low))}}
	} else { // conditional jumps are short
		head = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: at, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(low))},
		}
	}
	return slices.Concat(head, low, high)
}

// program returns the verdict as instructions.
func (r rule) program() []bpf.Instruction {
	if r.arg == nil {
		return []bpf.Instruction{bpf.RetConstant{Val: r.verdict}}
	}
	return r.arg.program()
}

// program returns the judgement of an argument as instructions. Every path
// through them ends with a verdict.
func (a *argument) program() []bpf.Instruction {
	low := 16 + 8*a.index // struct seccomp_data; every architecture that we know is little-endian
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: low, Size: 4}}
	if a.bits != 0 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: a.bits, SkipFalse: 1}, bpf.RetConstant{Val: denied})
	}
	if a.clear != 0 {
		p = append(p, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^a.clear})
	}
	for _, v := range slices.Sorted(maps.Keys(a.then)) {
		inner := a.then[v].program() // short, and so the jump over it
		p = append(append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: uint8(len(inner))}), inner...)
	}
	for _, v := range slices.Sorted(maps.Keys(a.cases)) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, bpf.RetConstant{Val: a.cases[v]})
	}
	return append(p, bpf.RetConstant{Val: a.other})
}
