package local

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox/local/internal/filter"
)

// An observer records what the processes of one run touch. Their filter of system calls asks it about some of the calls
// that it allows, and the observer answers, from outside, that the kernel is to go on with the call.
//
//	process                       kernel                      Haft
//	  openat(dir, name, flags) ──►  filter: ask ─────────────►  reads the arguments and the memory of the process
//	                                                            records them
//	  the call goes on          ◄─────────────────────────────  continue
//
// It observes and never decides: between its look and the call, another thread of the process can change the name in
// memory, its working directory or a link. What confines the run is what confines every run. Sockets that a run may not
// have are refused with the error that every run gets.
//
// A process that waits for an answer can be killed. If the observer is gone, observed calls fail with ENOSYS.
//
// Lifecycle: openObserver → touched → close, which may be called on nil.
type observer struct {
	f     *os.File // the listener
	looks map[uint32]filter.Look
	// filter is how the filter was made.
	filter filter.Config
	began  <-chan struct{} // nil if it has begun
	// execs is how many programs are started that are not the command's doing: the command itself.
	execs int
	// hostRoot says that the run has no root of its own: names are not resolved.
	hostRoot bool
	root     int // descriptor of the root of the run, or -1
	answered int
	done     chan struct{}

	mu    sync.Mutex
	seen  map[haft.Access]bool
	bytes int
	found haft.Touched
	io    int // descriptor of the file in which the kernel counts what the command reads and writes, or -1
}

// Bounds of what one run can make an observer do. All that is beyond them is not recorded, and the list is marked as
// cut.
const (
	maxAccesses    = 4096
	maxAccessBytes = 1 << 20
	maxLooks       = 1 << 16
	// After maxLooks, there is a pause after this many answers, so that a run that makes nothing but observed calls
	// takes a part of one processor of Haft's, and not all of it: its own limit does not count that time.
	answersPerPause = 16
	answerPause     = time.Millisecond
)

// openObserver begins to answer on the listener fd of a filter, which it takes over.
func (r *run) openObserver(fd int, c filter.Config) (*observer, error) {
	looks, err := filter.Looks()
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open observer: %w", err), unix.Close(fd))
	}
	o := &observer{f: os.NewFile(uintptr(fd), "observer"), looks: looks, filter: c, began: r.spec.Begin, root: -1,
		io: -1, hostRoot: !r.p.machine.namespaces, done: make(chan struct{}), seen: map[haft.Access]bool{}}
	if r.init != nil {
		o.execs = 1
	}
	// A process that waits runs again on the processor of the one that answers (Linux 6.6). It is only faster.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS,
		unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	go o.serve()
	return o, nil
}

// touched returns what was recorded until now, or nil if o is nil.
func (o *observer) touched() *haft.Touched {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.found
	found.Accesses = append([]haft.Access{}, found.Accesses...)
	return &found
}

// watchIO opens the counters of the process of a gauge. A nil observer counts nothing.
func (o *observer) watchIO(g *gauge) {
	if o == nil || g == nil {
		return
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/io", g.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // a kernel without CONFIG_TASK_IO_ACCOUNTING
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.io = fd
}

// countIO reads the counters, if the process lives.
func (o *observer) countIO() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.io < 0 {
		return
	}
	var b [512]byte
	n, err := unix.Pread(o.io, b[:], 0)
	if err != nil {
		return
	}
	var now haft.IO
	if _, err := fmt.Sscanf(string(b[:n]), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &now.ReadBytes,
		&now.WrittenBytes, &now.Reads, &now.Writes); err == nil {
		o.found.IO = &now
	}
}

// close ends the observation of a run whose processes are gone.
func (o *observer) close() {
	if o == nil {
		return
	}
	_ = o.f.Close() // nothing is written to it
	<-o.done
	for _, fd := range []int{o.root, o.io} {
		if fd >= 0 {
			_ = unix.Close(fd) // only looked at
		}
	}
}

// A question is struct seccomp_notif: one call that waits for an answer.
type question struct {
	id    uint64
	pid   uint32 // of the thread, as Haft counts
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// An answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// serve answers until the listener is closed, or nobody is left who could ask.
func (o *observer) serve() {
	defer close(o.done)
	defer o.f.Close() // whoever asks after an error gets ENOSYS, and does not wait for ever
	raw, err := o.f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // an error is a closed listener
		for {
			events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(events, 0)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				return true
			case n == 0:
				return false // until somebody asks
			case events[0].Revents&unix.POLLIN == 0:
				return true
			}
			if !o.answerOne(fd) {
				return true
			}
		}
	})
}

// answerOne looks at one call and lets it go on, or refuses it if it is for a socket. It reports false if the listener
// is broken.
func (o *observer) answerOne(fd uintptr) bool {
	var q question // the kernel wants it zeroed
	switch _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV,
		uintptr(unsafe.Pointer(&q))); errno {
	case 0:
	case unix.ENOENT, unix.EINTR: // whoever asked is gone
		return true
	default:
		o.cut()
		return false
	}
	if o.answered++; o.answered <= maxLooks {
		o.look(fd, &q)
	} else if o.cut(); o.answered%answersPerPause == 0 {
		<-time.After(answerPause)
	}
	a := answer{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if q.nr == unix.SYS_SOCKET {
		_, errno := o.filter.Refusal(q.args)
		a = answer{id: q.id, errno: -int32(errno)}
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	return errno == 0 || errno == unix.ENOENT || errno == unix.EINTR
}

// cut marks the list as incomplete.
func (o *observer) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.found.Cut = true
}

// look records what q touches.
func (o *observer) look(fd uintptr, q *question) {
	l, ok := o.looks[uint32(q.nr)]
	if !ok && q.nr != unix.SYS_SOCKET {
		o.cut()
		return
	}
	if o.execs > 0 && len(l.Paths) > 0 && l.Paths[0].Kind == haft.AccessProgram {
		o.execs--
		return
	}
	if o.began != nil {
		select {
		case <-o.began:
			o.began = nil
		default:
			return // it prepares itself
		}
	}
	if q.nr == unix.SYS_SOCKET {
		name, _ := o.filter.Refusal(q.args)
		o.record(haft.Access{Kind: haft.AccessSocket, Name: name})
		return
	}
	if !o.openRoot(fd, q) {
		return
	}
	found, err := o.read(q, l)
	if !valid(fd, q.id) {
		return // it is gone, and another process may have had its number
	}
	if errors.Is(err, errNoDirectory) {
		return // the call will fail
	}
	if err != nil {
		// A call with such an address need not fail: the kernel reads for it what it does not read for others, such as
		// memory that is mapped only to be written.
		o.cut()
		return
	}
	for _, a := range found {
		o.record(a)
	}
}

// openRoot opens the root of the run once, which no process of the run can change. It reports false if that failed,
// as it does if the thread that asked is gone.
func (o *observer) openRoot(fd uintptr, q *question) bool {
	if o.hostRoot || o.root >= 0 {
		return true
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", q.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		if valid(fd, q.id) {
			o.cut() // no name can be resolved
		}
		return false
	}
	if !valid(fd, q.id) {
		_ = unix.Close(root) // only looked at
		return false
	}
	o.root = root
	return true
}

// valid reports whether the thread that asked still waits, so that everything that was read of it until now was its
// own.
func valid(fd uintptr, id uint64) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

// record adds an access to the list.
func (o *observer) record(a haft.Access) {
	a.Name = printable(a.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[a] {
		return
	}
	if len(o.found.Accesses) == maxAccesses || o.bytes+len(a.Name) > maxAccessBytes {
		o.found.Cut = true
		return
	}
	o.seen[a] = true
	o.bytes += len(a.Name)
	o.found.Accesses = append(o.found.Accesses, a)
}

// printable returns a name that the run has chosen as text that can be shown.
func printable(s string) string {
	if strings.IndexFunc(s, func(c rune) bool { return c == unicode.ReplacementChar || !unicode.IsPrint(c) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// read returns what q touches, from the registers and the memory of its thread.
func (o *observer) read(q *question, l filter.Look) ([]haft.Access, error) {
	if l.Address > 0 {
		to, err := readAddress(int(q.pid), q.args[l.Address], q.args[l.Address+1])
		return []haft.Access{{Kind: haft.AccessConnect, Name: to}}, err
	}
	how, err := readHow(q, l)
	if err != nil {
		return nil, err
	}
	var found []haft.Access
	var full []string // by path, before links are followed
	for _, p := range l.Paths {
		name, err := readText(int(q.pid), q.args[p.Name])
		if err != nil {
			return nil, err
		}
		if p.Beside > 0 && !path.IsAbs(name) {
			name = path.Dir(full[p.Beside-1]) + "/" + name
		} else if !path.IsAbs(name) || how.Resolve&unix.RESOLVE_IN_ROOT != 0 {
			base, err := baseOf(q, p)
			if err != nil {
				return nil, err
			}
			name = base + "/" + name // with its dots, which count after links are followed
		}
		full = append(full, name)
		a := haft.Access{Kind: p.Kind, Name: o.resolve(name, p.Itself || how.Flags&unix.O_NOFOLLOW != 0)}
		if how.Flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC) != 0 && how.Flags&unix.O_PATH == 0 {
			a.Kind = haft.AccessWrite
		}
		found = append(found, a)
	}
	return found, nil
}

// readHow returns how a call opens a file; it is zero for other calls.
func readHow(q *question, l filter.Look) (how unix.OpenHow, err error) {
	switch {
	case l.Flags > 0:
		how.Flags = q.args[l.Flags]
	case l.How > 0:
		b := unsafe.Slice((*byte)(unsafe.Pointer(&how)), unsafe.Sizeof(how))
		var n int
		if n, err = readMemory(int(q.pid), q.args[l.How], b); err == nil && n < len(b) {
			err = unix.EFAULT
		}
	}
	return how, err
}

// errNoDirectory says that a path begins at a descriptor that is not open.
var errNoDirectory = errors.New("there is no such descriptor")

// baseOf returns what a relative path begins at.
func baseOf(q *question, p filter.Path) (string, error) {
	at := "cwd"
	if p.Dir >= 0 && int32(q.args[p.Dir]) != unix.AT_FDCWD {
		at = "fd/" + strconv.Itoa(int(int32(q.args[p.Dir])))
	}
	base, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", q.pid, at))
	if errors.Is(err, os.ErrNotExist) {
		return "", errNoDirectory
	}
	return base, err
}

// resolve follows the links of a path inside the root of the run, as far as there is something. It opens nothing for
// reading, leaves no mount of the run and follows no link of a process file system.
func (o *observer) resolve(name string, itself bool) string {
	if o.root < 0 { // or there may be file systems on which a look hangs
		return path.Clean(name)
	}
	if !itself {
		if found, ok := o.find(name); ok {
			return found
		}
	}
	dir, base := path.Split(strings.TrimRight(name, "/"))
	if found, ok := o.find(dir); ok && base != ".." && base != "." {
		return path.Join(found, base)
	}
	if strings.Contains(name+"/", "/../") {
		o.cut() // it may lead anywhere: /proc/self/cwd/.. is not the directory /proc/self
	}
	return path.Clean(name)
}

// find returns what the kernel calls a path inside the root of the run.
func (o *observer) find(name string) (string, bool) {
	if name = strings.TrimLeft(name, "/"); name == "" {
		return "/", true
	}
	fd, err := unix.Openat2(o.root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", false
	}
	defer unix.Close(fd) // only looked at
	found, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return found, err == nil && path.IsAbs(found)
}

// readText reads a string of another process. It is empty if its address is 0.
func readText(pid int, at uint64) (string, error) {
	if at == 0 {
		return "", nil
	}
	b := make([]byte, unix.PathMax)
	n, err := readMemory(pid, at, b)
	if err != nil {
		return "", err
	}
	if end := bytes.IndexByte(b[:n], 0); end >= 0 {
		return string(b[:end]), nil
	}
	return "", unix.EFAULT // longer than any path, or cut by the end of the memory
}

// readMemory reads memory of another process, up to the first page that is not there.
func readMemory(pid int, at uint64, b []byte) (int, error) {
	page := uint64(os.Getpagesize())
	var parts []unix.RemoteIovec
	for left := uint64(len(b)); left > 0; {
		n := min(left, page-at%page)
		parts = append(parts, unix.RemoteIovec{Base: uintptr(at), Len: int(n)})
		at, left = at+n, left-n
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	return unix.ProcessVMReadv(pid, local, parts, 0)
}

// readAddress reads a struct sockaddr of another process.
func readAddress(pid int, at, size uint64) (string, error) {
	b := make([]byte, min(size, unix.SizeofSockaddrUnix))
	if len(b) < 2 || at == 0 {
		return "", unix.EFAULT
	}
	n, err := readMemory(pid, at, b)
	if err != nil || n < len(b) {
		return "", errors.Join(err, unix.EFAULT)
	}
	port := func() uint16 { return uint16(b[2])<<8 | uint16(b[3]) }
	switch family := uint16(b[0]) | uint16(b[1])<<8; {
	case family == unix.AF_INET && len(b) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port()).String(), nil
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port()).String(), nil
	case family == unix.AF_UNIX && len(b) > 2 && b[2] == 0:
		return "unix:@" + string(b[3:]), nil
	case family == unix.AF_UNIX:
		name, _, _ := strings.Cut(string(b[2:]), "\x00")
		return "unix:" + name, nil
	default:
		return "family " + strconv.Itoa(int(family)), nil
	}
}
