package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ThreadID in the path of a file stands for the number of the calling thread,
// which need not be that of the process.
const ThreadID = "{tid}"

// A Failure is the step that did not succeed. It crosses the socket as data.
type Failure struct {
	Step  string     `json:"step"`
	Path  string     `json:"path,omitempty"`
	Errno unix.Errno `json:"errno"`
}

// Error returns "step path: errno".
func (f *Failure) Error() string { return fmt.Sprintf("%s %s: %v", f.Step, f.Path, f.Errno) }

// Do carries out the plan on the calling thread, which must be locked. It
// returns the descriptors that the parent wants, and nil or the step that
// failed.
func (p *Plan) Do(slots []int) (keep []int, failed *Failure) {
	if len(slots) != len(p.Slots) {
		return nil, &Failure{"slots", fmt.Sprintf("%d of %d", len(slots), len(p.Slots)), unix.EBADF}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		fd, errno := s.do(slots)
		if errno != 0 && int(errno) != s.Allow {
			return keep, &Failure{s.Name, s.Path, errno}
		}
		if s.Do == DoKeep || s.Do == DoListen || s.Listen {
			keep = append(keep, fd)
		}
	}
	return keep, nil
}

// Finish carries out the last steps.
func (p *Plan) Finish() *Failure {
	for i := range p.Last {
		if _, errno := p.Last[i].do(nil); errno != 0 {
			return &Failure{p.Last[i].Name, p.Last[i].Path, errno}
		}
	}
	return nil
}

// do carries out one step. The number is the descriptor for the parent, where there is one.
func (s *Step) do(slots []int) (int, unix.Errno) {
	switch s.Do {
	case DoSyscall:
		return 0, s.syscall()
	case DoFile:
		return 0, s.file()
	case DoAttach:
		return 0, errnoOf(s.attach(slots[s.Slot]))
	case DoBind:
		return 0, errnoOf(s.bind(slots))
	case DoJoin:
		_, err := unix.Write(slots[s.Slot], []byte("0"))
		return 0, errnoOf(err)
	case DoKeep:
		fd, err := unix.Open(s.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return fd, errnoOf(err)
	case DoListen:
		return s.listen()
	case DoLoopback:
		return 0, raiseLoopback()
	case DoLandlock:
		return 0, s.landlock(slots)
	case DoSeccomp:
		return s.seccomp()
	case DoCount:
		return 0, s.count()
	}
	return 0, unix.ENOTSUP
}

// syscall makes the system call of s.
func (s *Step) syscall() unix.Errno {
	var a [6]uintptr
	var pins runtime.Pinner
	defer pins.Unpin()
	for i, arg := range s.Args {
		b := arg.Buf
		if arg.Text != "" {
			b = append([]byte(arg.Text), 0)
		}
		if len(b) == 0 {
			a[i] = uintptr(arg.Int)
			continue
		}
		pins.Pin(&b[0])
		a[i] = uintptr(unsafe.Pointer(&b[0]))
	}
	_, _, errno := unix.RawSyscall6(s.Nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

// file writes a new file.
func (s *Step) file() unix.Errno {
	path := strings.ReplaceAll(s.Path, ThreadID, strconv.Itoa(unix.Gettid()))
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, s.Mode)
	if err != nil {
		return errnoOf(err)
	}
	for b := s.Data; len(b) > 0 && err == nil; {
		var n int
		n, err = unix.Write(fd, b)
		b = b[max(n, 0):]
	}
	return errnoOf(cmpErr(err, unix.Close(fd)))
}

// landlock restricts the calling thread and what it will start.
func (s *Step) landlock(slots []int) unix.Errno {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&s.Data[0])), uintptr(len(s.Data)), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd)) // a failure here leaves nothing undone
	for _, r := range s.Rules {
		if errno := r.add(fd, slots); errno != 0 {
			s.Path = r.Path
			return errno
		}
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	return errno
}

// add adds the rule to a set.
func (r Rule) add(set uintptr, slots []int) unix.Errno {
	if r.Port != 0 {
		rule := make([]byte, 16) // struct landlock_net_port_attr
		putUint64(rule, r.Access)
		putUint64(rule[8:], uint64(r.Port))
		return addRule(set, ruleNetPort, rule)
	}
	if r.Slot != 0 {
		return addPath(set, slots[r.Slot-1], r.Access)
	}
	at, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	errno := addPath(set, at, r.Access)
	if err := unix.Close(at); errno == 0 && err != nil {
		errno = errnoOf(err)
	}
	return errno
}

// addPath adds a rule for what is open.
func addPath(set uintptr, at int, access uint64) unix.Errno {
	rule := make([]byte, 12) // struct landlock_path_beneath_attr is packed
	putUint64(rule, access)
	putUint32(rule[8:], uint32(at))
	return addRule(set, unix.LANDLOCK_RULE_PATH_BENEATH, rule)
}

// ruleNetPort is LANDLOCK_RULE_NET_PORT, Linux 6.7.
const ruleNetPort = 2

// addRule is landlock_add_rule(2).
func addRule(set, kind uintptr, rule []byte) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, kind, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0)
	return errno
}

// raiseLoopback makes 127.0.0.0/8 there.
func raiseLoopback() unix.Errno {
	lo, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	up, err := unix.NewIfreq("lo")
	if err == nil {
		up.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(lo, unix.SIOCSIFFLAGS, up)
	}
	return errnoOf(cmpErr(err, unix.Close(lo)))
}

// listen raises the loopback and listens there.
func (s *Step) listen() (int, unix.Errno) {
	if errno := raiseLoopback(); errno != 0 {
		return -1, errno
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(s.Port), Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, s.Queue)
	}
	if err != nil {
		_ = unix.Close(fd) // nobody has it
		return -1, errnoOf(err)
	}
	return fd, 0
}

// seccomp loads a filter. It stays on the calling thread and what that starts;
// the other threads of a Go program need calls that a tool does not.
func (s *Step) seccomp() (int, unix.Errno) {
	prog := unix.SockFprog{
		Len:    uint16(len(s.Data) / 8),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&s.Data[0])),
	}
	load := func(flags uintptr) (int, unix.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
			uintptr(unsafe.Pointer(&prog)))
		return int(fd), errno
	}
	defer runtime.KeepAlive(s)
	if !s.Listen {
		_, errno := load(0)
		return 0, errno
	}
	// A call that is being looked at is interrupted by a fatal signal only (Linux 5.19), and not by one that the
	// program handles.
	fd, errno := load(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL {
		fd, errno = load(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	return fd, errno
}

// errnoOf returns the errno in err, or 0.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return unix.EIO
}

// cmpErr returns the first error.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func putUint64(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }
func putUint32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
