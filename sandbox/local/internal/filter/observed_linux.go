package filter

import (
	"maps"
	"runtime"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"haft"
)

// notify asks the listener of the filter. Every verdict that refuses or kills takes precedence over it.
const notify = uint32(unix.SECCOMP_RET_USER_NOTIF)

// A Path says which arguments of a system call are a path, and what the call does with it.
type Path struct {
	// Dir is the index of the descriptor that a relative path begins at; -1 means the working directory.
	Dir int
	// Name is the index of the address of the path.
	Name int
	Kind haft.AccessKind
	// Itself says that a link at the end of the path is not followed.
	Itself bool
	// Beside is one more than the index of the path that this one is relative to; 0 means none.
	Beside int
}

// A Look says what there is to see in the arguments of an observed system call.
type Look struct {
	Paths []Path
	// Flags is the index of the flags of open, and How that of the address of a struct open_how; 0 means none.
	Flags, How int
	// Address is the index of the address of a struct sockaddr, whose length follows; 0 means none.
	Address int
}

// at and in make paths: of the working directory, or of a descriptor.
func at(kind haft.AccessKind, name int) Path { return Path{Dir: -1, Name: name, Kind: kind} }
func in(kind haft.AccessKind, dir int) Path  { return Path{Dir: dir, Name: dir + 1, Kind: kind} }

// itself returns p for a call that does not follow a link at its end.
func itself(p Path) Path { p.Itself = true; return p }

// beside returns p relative to the path with an index.
func beside(p Path, index int) Path { p.Beside = index + 1; return p }

// looks are the observed calls: those that open, make, change or remove a file by its path, start a program or
// connect. Asking about a file (stat, access, readlink) is not observed.
func looks() map[string]Look {
	const read, write, program = haft.AccessRead, haft.AccessWrite, haft.AccessProgram
	one := func(p ...Path) Look { return Look{Paths: p} }
	all := map[string]Look{
		"open":         {Paths: []Path{at(read, 0)}, Flags: 1},
		"openat":       {Paths: []Path{in(read, 0)}, Flags: 2},
		"openat2":      {Paths: []Path{in(read, 0)}, How: 2},
		"execve":       one(at(program, 0)),
		"execveat":     one(in(program, 0)),
		"connect":      {Address: 1},
		"rename":       one(itself(at(write, 0)), itself(at(write, 1))),
		"renameat":     one(itself(in(write, 0)), itself(in(write, 2))),
		"renameat2":    one(itself(in(write, 0)), itself(in(write, 2))),
		"link":         one(at(read, 0), itself(at(write, 1))),
		"linkat":       one(in(read, 0), itself(in(write, 2))),
		"symlink":      one(itself(at(write, 1)), beside(at(read, 0), 0)),
		"symlinkat":    one(itself(in(write, 1)), beside(at(read, 0), 0)),
		"rmdir":        one(itself(at(write, 0))),
		"unlink":       one(itself(at(write, 0))),
		"unlinkat":     one(itself(in(write, 0))),
		"mkdirat":      one(in(write, 0)),
		"mknodat":      one(in(write, 0)),
		"fchmodat":     one(in(write, 0)),
		"fchmodat2":    one(in(write, 0)),
		"fchownat":     one(in(write, 0)),
		"futimesat":    one(in(write, 0)),
		"utimensat":    one(in(write, 0)),
		"lchown":       one(itself(at(write, 0))),
		"lsetxattr":    one(itself(at(write, 0))),
		"lremovexattr": one(itself(at(write, 0))),
	}
	for _, name := range []string{"creat", "truncate", "mkdir", "mknod", "chmod", "chown", "utime", "utimes",
		"setxattr", "removexattr"} {
		all[name] = one(at(write, 0))
	}
	return all
}

// unseen are calls that open or connect in ways that no look sees. The usual filter has none of them.
var unseen = []string{"io_uring_setup", "io_uring_enter", "open_by_handle_at", "chroot", "pivot_root", "mount",
	"open_tree", "seccomp", "ptrace", "process_vm_writev"}

// types are the types of sockets that the listener is asked about, and what an observation calls them. A lookup of a
// name uses one for datagrams.
var types = map[uint32]string{unix.SOCK_DGRAM: "socket:udp", unix.SOCK_RAW: "socket:raw"}

// typeFlags are the flags in the type of a socket.
const typeFlags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC

// askAboutDatagrams returns a judgement of socket that asks the listener about those sockets of the internet that a
// refuses and that types has.
func (a *argument) askAboutDatagrams() *argument {
	b := *a
	b.cases, b.then = maps.Clone(a.cases), maps.Clone(a.then)
	if b.then == nil {
		b.then = map[uint32]*argument{}
	}
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		inner := &argument{index: 1, clear: typeFlags, other: b.other}
		if verdict, ok := b.cases[family]; ok {
			inner.other = verdict
		}
		if then := b.then[family]; then != nil {
			*inner = *then
		}
		if inner.other == allow {
			continue
		}
		inner.cases = map[uint32]uint32{}
		for t := range types {
			inner.cases[t] = notify
		}
		delete(b.cases, family)
		b.then[family] = inner
	}
	return &b
}

// Refusal returns how the listener of a filter answers a question about a call of socket: with the error that a run has
// that is not observed. It never lets the call go on. The arguments are values, which no thread can exchange. The name
// is that of the socket in an observation.
func (c Config) Refusal(args [6]uint64) (name string, errno unix.Errno) {
	c.Observe = false
	j := judged(c)["socket"]
	name, errno = types[uint32(args[1])&^typeFlags], unix.EPERM
	if v := j.judge(args); v&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO {
		errno = unix.Errno(v & unix.SECCOMP_RET_DATA)
	}
	return name, errno
}

// judge returns the verdict that the program of an argument has.
func (a *argument) judge(args [6]uint64) uint32 {
	value := uint32(args[a.index])
	if value&a.bits != 0 {
		return denied
	}
	value &^= a.clear
	if then := a.then[value]; then != nil {
		return then.judge(args)
	}
	if verdict, ok := a.cases[value]; ok {
		return verdict
	}
	return a.other
}

// Looks returns the observed calls by their numbers.
func Looks() (map[uint32]Look, error) {
	info, err := arch.GetInfo(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	out := map[uint32]Look{}
	for name, l := range looks() {
		if nr, ok := info.SyscallNames[name]; ok {
			out[uint32(nr)] = l
		}
	}
	return out, nil
}
