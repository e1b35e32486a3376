package plan

import (
	"golang.org/x/sys/unix"
)

// A Plan is a list of steps and the names of the descriptors that they use.
type Plan struct {
	Steps []Step `json:"steps"`
	// Slots names the descriptors that come with the plan, in order.
	Slots []string `json:"slots,omitempty"`
	// Last are steps for after the message to the parent that everything is ready. They need
	// no privilege, and must be such that the filter of system calls allows them.
	Last []Step `json:"last,omitempty"`
}

// A Step is one system call, or one of the few things that need several.
type Step struct {
	// Name and Path go into the SetupError.
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	// Do says what kind of step it is.
	Do Kind `json:"do"`
	// Nr and Args are the system call of DoSyscall.
	Nr   uintptr `json:"nr,omitempty"`
	Args []Arg   `json:"args,omitempty"`
	// Allow is an errno that is no failure: EEXIST for a directory that may be
	// there already.
	Allow int `json:"allow,omitempty"`
	// Data is the content of DoFile, the program of DoSeccomp, the rule set of
	// DoLandlock.
	Data []byte `json:"data,omitempty"`
	// Mode is the permission of DoFile.
	Mode uint32 `json:"mode,omitempty"`
	// Slot is the descriptor of DoAttach, DoBind and DoJoin.
	Slot int `json:"slot,omitempty"`
	// Host is the path of DoBind, and Attr its attributes.
	Host string `json:"host,omitempty"`
	Attr uint64 `json:"attr,omitempty"`
	// Strict lets the target of DoAttach and DoBind have no symbolic link in it.
	Strict bool `json:"strict,omitempty"`
	// Rules are those of DoLandlock.
	Rules []Rule `json:"rules,omitempty"`
	// Port and Queue are those of DoListen.
	Port  uint16 `json:"port,omitempty"`
	Queue int    `json:"queue,omitempty"`
	// Listen makes DoSeccomp give the parent the listener of the filter.
	Listen bool `json:"listen,omitempty"`
	// Count is that of DoCount.
	Count uint64 `json:"count,omitempty"`
}

// Kind is what a step does.
type Kind string

// The kinds of step.
const (
	DoSyscall  Kind = "syscall"
	DoFile     Kind = "file"     // write Data to the new file Path
	DoAttach   Kind = "attach"   // move the detached mount in Slot to Path
	DoBind     Kind = "bind"     // bind Host, which must be the file in Slot, to Path
	DoJoin     Kind = "join"     // move this thread into the cgroup whose tasks file is in Slot
	DoKeep     Kind = "keep"     // open the directory Path, to be sent to the parent
	DoListen   Kind = "listen"   // raise the loopback and listen on Port of 127.0.0.1, to be sent to the parent
	DoLoopback Kind = "loopback" // raise the loopback
	DoLandlock Kind = "landlock" // restrict this thread to Rules
	DoSeccomp  Kind = "seccomp"  // load the program Data
	DoCount    Kind = "count"    // limit processes to Count more than the user has
	DoOwn      Kind = "own"      // in a template's plan: the steps of the run itself
)

// An Arg is an argument of a system call: a string or a buffer, of which the
// address is passed, or else a number.
type Arg struct {
	Int  uint64 `json:"i,omitempty"`
	Text string `json:"s,omitempty"`
	Buf  []byte `json:"b,omitempty"`
}

// A Rule gives access to everything beneath a path, or to one TCP port.
type Rule struct {
	Path string `json:"path,omitempty"`
	// Slot, if not 0, is 1 and the index of the descriptor of what Path was: the rule is
	// for that, and Path is for messages.
	Slot   int    `json:"slot,omitempty"`
	Port   uint16 `json:"port,omitempty"`
	Access uint64 `json:"access"`
}

// num, text and buf make arguments.
func num[T ~int | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](n T) Arg { return Arg{Int: uint64(n)} }
func text(s string) Arg                                                   { return Arg{Text: s} }
func buf(b []byte) Arg                                                    { return Arg{Buf: b} }

// add appends a system call.
func (p *Plan) add(name, path string, nr uintptr, args ...Arg) {
	p.Steps = append(p.Steps, Step{Name: name, Path: path, Do: DoSyscall, Nr: nr, Args: args})
}

// slot adds a descriptor and returns its index.
func (p *Plan) slot(name string) int {
	p.Slots = append(p.Slots, name)
	return len(p.Slots) - 1
}

// Mount appends a mount(2). Options may be empty.
func (p *Plan) Mount(source, target, fstype string, flags uintptr, options string) {
	p.add("mount", target, unix.SYS_MOUNT, text(source), text(target), text(fstype), num(flags), text(options))
}

// Overlay appends an overlay over path that shows what path shows, read-only, with
// inodes of its own. The directory empty must be one; an overlay without an upper
// layer wants two.
func (p *Plan) Overlay(path, empty string) {
	p.Mount("overlay", path, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+path+":"+empty)
	p.Steps[len(p.Steps)-1].Name = "overlay"
}

// Mkdir appends the making of a directory that may exist.
func (p *Plan) Mkdir(path string, mode uint32) {
	p.add("mkdir", path, unix.SYS_MKDIRAT, num(atCWD), text(path), num(mode))
	p.Steps[len(p.Steps)-1].Allow = int(unix.EEXIST)
}

// Chmod appends a chmod, which unlike mkdir ignores the umask.
func (p *Plan) Chmod(path string, mode uint32) {
	p.add("chmod", path, unix.SYS_FCHMODAT, num(atCWD), text(path), num(mode))
}

// Symlink appends the making of a symbolic link.
func (p *Plan) Symlink(target, path string) {
	p.add("symlink", path, unix.SYS_SYMLINKAT, text(target), num(atCWD), text(path))
}

// File appends the making of a file.
func (p *Plan) File(path string, mode uint32, data []byte) {
	p.Steps = append(p.Steps, Step{Name: "file", Path: path, Do: DoFile, Data: data, Mode: mode})
}

// Attach appends the mounting of a tree that the parent has detached from its
// own mounts, and returns the number of its slot. The parent can open what the
// confined process may not traverse, such as an interpreter below a private
// home directory.
func (p *Plan) Attach(host, path string) int {
	n := p.slot("mount:" + host)
	p.Steps = append(p.Steps, Step{Name: "attach", Path: path, Do: DoAttach, Slot: n})
	return n
}

// Strict has the target of the last step, an Attach, be reached without links.
func (p *Plan) Strict() { p.Steps[len(p.Steps)-1].Strict = true }

// Bind appends the mounting of the path host, with attributes. The path has no link in
// it, nor has its target. If slot is not negative, it has a descriptor of what the path
// must be: if it leads to anything else when it is opened, the step fails with ESTALE.
//
// It is for a process that has mounts of its own, in which a descriptor of its parent's
// mounts cannot be bound.
func (p *Plan) Bind(host, path string, attr uint64, slot int) {
	p.Steps = append(p.Steps, Step{Name: "bind", Path: path, Do: DoBind, Slot: slot, Host: host, Attr: attr,
		Strict: true})
}

// Given adds a descriptor of something of the host, and returns the number of its slot.
func (p *Plan) Given(host string) int { return p.slot("given:" + host) }

// Join appends the joining of a cgroup and returns the number of its slot.
func (p *Plan) Join(controller string) int {
	n := p.slot("cgroup:" + controller)
	p.Steps = append(p.Steps, Step{Name: "cgroup", Path: controller, Do: DoJoin, Slot: n})
	return n
}

// Keep appends the opening of a directory that the parent wants to hold.
func (p *Plan) Keep(path string) {
	p.Steps = append(p.Steps, Step{Name: "keep", Path: path, Do: DoKeep})
}

// Listen appends a listener that the parent wants to have, on the loopback of the
// network namespace that the process is in, which needs CAP_NET_ADMIN there. A
// socket belongs to the namespace that it was made in, whoever accepts from it.
func (p *Plan) Listen(port uint16, queue int) {
	p.Steps = append(p.Steps, Step{Name: "listen", Path: "loopback", Do: DoListen, Port: port, Queue: queue})
}

// Loopback appends the raising of the loopback of the network namespace that the process is in, which
// needs CAP_NET_ADMIN there.
func (p *Plan) Loopback() {
	p.Steps = append(p.Steps, Step{Name: "loopback", Path: "loopback", Do: DoLoopback})
}

// Attr appends a mount_setattr(2), Linux 5.12.
func (p *Plan) Attr(path string, set uint64, recursive bool) {
	flags := 0
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	attr := make([]byte, 32) // struct mount_attr
	putUint64(attr, set)
	p.add("mount_setattr", path, unix.SYS_MOUNT_SETATTR,
		num(atCWD), text(path), num(flags), buf(attr), num(len(attr)))
}

// Vfork appends a trial of vfork, as starting a program needs it, into the namespace
// named path. Before Linux 6.2 a process whose children are to live in another time
// namespace may not share its memory with them, not even until exec: EINVAL. There
// is nowhere to write the pidfd, so that no child is ever made: EFAULT.
func (p *Plan) Vfork(path string) {
	args := make([]byte, 64) // struct clone_args
	putUint64(args, unix.CLONE_VM|unix.CLONE_VFORK|unix.CLONE_PIDFD)
	putUint64(args[8:], ^uint64(7))
	putUint64(args[32:], uint64(unix.SIGCHLD))
	p.add("vfork", path, unix.SYS_CLONE3, buf(args), num(len(args)))
	p.Steps[len(p.Steps)-1].Allow = int(unix.EFAULT)
}

// Chdir appends a chdir(2).
func (p *Plan) Chdir(path string) { p.add("chdir", path, unix.SYS_CHDIR, text(path)) }

// Pivot makes the current directory, which must be a mount, the root, and
// forgets the old one. pivot_root(".", ".") stacks the old root on the new one,
// so that it needs no directory of its own; see pivot_root(2), NOTES.
func (p *Plan) Pivot() {
	p.add("pivot_root", "", unix.SYS_PIVOT_ROOT, text("."), text("."))
	p.add("umount", "old root", unix.SYS_UMOUNT2, text("."), num(unix.MNT_DETACH))
	p.Chdir("/")
}

// Hostname names the machine.
func (p *Plan) Hostname(name string) {
	p.add("sethostname", "", unix.SYS_SETHOSTNAME, text(name), num(len(name)))
	p.add("setdomainname", "", unix.SYS_SETDOMAINNAME, text("local"), num(len("local")))
}

// Unshare appends an unshare(2).
func (p *Plan) Unshare(name string, flags int) {
	p.add("unshare", name, unix.SYS_UNSHARE, num(flags))
}

// Rlimit sets a soft and a hard limit.
func (p *Plan) Rlimit(name string, resource int, soft, hard uint64) {
	lim := make([]byte, 16)
	putUint64(lim, soft)
	putUint64(lim[8:], hard)
	p.add("rlimit", name, unix.SYS_PRLIMIT64, num(0), num(resource), buf(lim), num(0))
}

// OpenFiles makes the number of open files, for this process and those that it starts,
// the last step. The kernel counts descriptors that are being sent by user id, and
// refuses a sender whose limit of open files is lower than that count (ETOOMANYREFS):
// with the limit of the command, an init could not hand over its directories while
// another command of the same user has many descriptors on their way.
func (p *Plan) OpenFiles(n uint64) {
	p.Rlimit("nofile", unix.RLIMIT_NOFILE, n, n)
	at := len(p.Steps) - 1
	p.Last, p.Steps = append(p.Last, p.Steps[at]), p.Steps[:at]
}

// MoreProcesses sets RLIMIT_NPROC to n more than all processes and threads that the user
// has now. It is for a user who has others: the kernel counts by user id, across
// sessions and containers, so that /proc need not show all of them.
func (p *Plan) MoreProcesses(n uint64) {
	p.Steps = append(p.Steps, Step{Name: "rlimit", Path: "nproc", Do: DoCount, Count: n})
}

// Prctl appends a prctl(2).
func (p *Plan) Prctl(name string, option int, arg uint64) {
	p.add("prctl", name, unix.SYS_PRCTL, num(option), num(arg), num(0), num(0), num(0))
}

// Setsid leaves the session of the parent, and with it any terminal.
func (p *Plan) Setsid() {
	p.add("setsid", "", unix.SYS_SETSID)
	p.Steps[len(p.Steps)-1].Allow = int(unix.EPERM) // a leader already
}

// Umask sets the file mode creation mask.
func (p *Plan) Umask(mask int) { p.add("umask", "", unix.SYS_UMASK, num(mask)) }

// Identity takes a user and a group and no others. Groups are dropped only where
// that is allowed: not in a user namespace that an ordinary user made.
func (p *Plan) Identity(uid, gid int, groups bool) {
	if groups {
		p.add("setgroups", "", unix.SYS_SETGROUPS, num(0), num(0))
	}
	p.add("setresgid", "", unix.SYS_SETRESGID, num(gid), num(gid), num(gid))
	p.add("setresuid", "", unix.SYS_SETRESUID, num(uid), num(uid), num(uid))
}

// DropCaps gives up every capability, and the ways to get one back: the bounding
// set, the ambient set, and the old rule that uid 0 has them all.
func (p *Plan) DropCaps(last int) {
	for c := range last + 1 {
		p.Prctl("bounding set", unix.PR_CAPBSET_DROP, uint64(c))
	}
	p.Prctl("securebits", unix.PR_SET_SECUREBITS, secureBits)
	p.Prctl("ambient set", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	p.NoCaps()
}

// NoCaps gives up every capability that the thread has.
func (p *Plan) NoCaps() {
	head := make([]byte, 8)
	putUint32(head, unix.LINUX_CAPABILITY_VERSION_3)
	p.add("capset", "", unix.SYS_CAPSET, buf(head), buf(make([]byte, 24)))
}

// NoNewPrivs makes set-user-id bits and file capabilities mean nothing.
func (p *Plan) NoNewPrivs() { p.Prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1) }

// Landlock appends a restriction. Attr is a struct landlock_ruleset_attr.
func (p *Plan) Landlock(attr []byte, rules []Rule) {
	p.Steps = append(p.Steps, Step{Name: "landlock", Do: DoLandlock, Data: attr, Rules: rules})
}

// Seccomp appends the loading of a filter. Program is an array of sock_filter.
func (p *Plan) Seccomp(program []byte) {
	p.Steps = append(p.Steps, Step{Name: "seccomp", Do: DoSeccomp, Data: program})
}

// Observe appends the loading of a filter that asks its listener, which the parent gets. From then on until the parent
// has it, no step may make a call that the filter asks about.
func (p *Plan) Observe(program []byte) {
	p.Steps = append(p.Steps, Step{Name: "observe", Do: DoSeccomp, Data: program, Listen: true})
}

// Own marks the place where a fork carries out the steps of its own run.
func (p *Plan) Own() { p.Steps = append(p.Steps, Step{Name: "own", Do: DoOwn}) }

// SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP and SECBIT_NO_CAP_AMBIENT_RAISE, each
// with its lock bit; and the lock of SECBIT_KEEP_CAPS.
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// atCWD is AT_FDCWD as the kernel wants it in a register.
const atCWD = ^uint64(0) - 99
