package local

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// initName is argv[0] of the init. A user who starts Haft under this name gets a
// process that finds no socket and ends: it has no more rights than its user.
const initName = "haft-sandbox-init"

// initSocket is the descriptor of the init's end of the socket.
const initSocket = 3

// A request is the first message to an init: what to set up and to run.
type request struct {
	Plan plan.Plan `json:"plan"`
	Argv []string  `json:"argv"`
	Env  []string  `json:"env"`
	// Files is how many descriptors follow those of the plan; they become
	// 0, 1, 2 and so on of the command.
	Files int `json:"files"`
	// Inherited are descriptors that the init has already, and that become 0, 1, 2 and so on.
	Inherited []int `json:"inherited,omitempty"`
	// Stay keeps the init when the command ends, until the socket closes, and
	// reports every child: the command is a template.
	Stay bool `json:"stay,omitempty"`
	// Reduced says that there is no pid namespace: the command is started by a
	// second process that confines itself, and descendants are killed one by one.
	// Alone says that this user id has no processes but those of the run.
	Reduced bool `json:"reduced,omitempty"`
	Alone   bool `json:"alone,omitempty"`
	// Exec makes the process become the command, rather than start it.
	Exec bool `json:"exec,omitempty"`
	// Watch meters the processes from inside where there is no cgroup.
	Watch *watch `json:"watch,omitempty"`
}

// A message comes from an init or a cell.
type message struct {
	Kind    string        `json:"kind"`
	Failure *plan.Failure `json:"failure,omitempty"`
	// At and Result say the same of a program, which does not know what its operations are for.
	At     uint64 `json:"at,omitempty"`
	Result int64  `json:"result,omitempty"`
	// PID, Status and the rest belong to msgEnded, as the namespace counts.
	PID    int    `json:"pid,omitempty"`
	Status uint32 `json:"status,omitempty"`
	CPU    int64  `json:"cpu,omitempty"` // nanoseconds
	RSS    int64  `json:"rss,omitempty"`
	Peak   int    `json:"peak,omitempty"` // processes
	Limit  string `json:"limit,omitempty"`
	Idle   bool   `json:"idle,omitempty"` // the limit is one of an idle command
}

// The kinds of message. See the diagrams in doc.go.
const (
	msgFailed    = "failed"
	msgReady     = "ready"
	msgStarted   = "started"
	msgEnded     = "ended"
	msgLimit     = "limit"
	msgUnmetered = "unmetered"
	msgIdle      = "idle"
	msgForked    = "forked"
)

// A command goes from Haft to an init that runs.
type command struct {
	Signal int `json:"signal,omitempty"`
	// PID and Watch begin to meter one fork of a template.
	PID   int    `json:"pid,omitempty"`
	Watch *watch `json:"watch,omitempty"`
}

// Init turns the process into the init of a sandbox if that is what it was
// started for, and then does not return. Programs that use this package, tests
// included, call it on the first line of main or TestMain: it must come before
// anything that starts work in the background.
func Init() {
	if len(os.Args) != 1 || os.Args[0] != initName {
		return
	}
	runtime.LockOSThread()
	os.Exit(serve())
}

// serve runs an init and returns its exit code.
func serve() int {
	// Do not pass on the descriptors that Haft inherited and did not open itself.
	if err := unix.CloseRange(initSocket, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil &&
		!errors.Is(err, unix.ENOSYS) {
		return 125
	}
	if err := resetIgnored(); err != nil {
		return 125
	}
	// Catch the signals by which the Go runtime would end or stop this process, but those of ignoreFaults. It has
	// handlers of its own for the others, which do nothing. To catch one takes two switches between threads.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM,
		unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	conn := wire.New(os.NewFile(initSocket, "socket"))
	var req request
	fds, err := conn.Recv(&req)
	if err != nil || len(fds) != len(req.Plan.Slots)+req.Files {
		return 125
	}
	slots, files := fds[:len(req.Plan.Slots)], append(fds[len(req.Plan.Slots):], req.Inherited...)
	if req.Watch != nil {
		if err := startThreads(6); err != nil {
			return 125
		}
	}
	if req.Reduced {
		return serveReduced(conn, req, fds)
	}
	keep, failed := req.Plan.Do(slots)
	if failed != nil {
		return sendLast(conn, message{Kind: msgFailed, Failure: failed}, 125)
	}
	if err := conn.Send(message{Kind: msgReady}, keep...); err != nil {
		return 125
	}
	wire.CloseAll(slots)
	wire.CloseAll(keep)
	if failed := req.Plan.Finish(); failed != nil {
		return sendLast(conn, message{Kind: msgFailed, Failure: failed}, 125)
	}
	if len(req.Argv) == 0 {
		return 0 // this was only a probe
	}
	if req.Exec {
		return execCommand(conn, req, files)
	}
	req.Plan = plan.Plan{} // with the content of files
	if err := ignoreFaults(); err != nil {
		return 125
	}
	pid, errno := start(req, files)
	if errno != 0 {
		return sendLast(conn, message{Kind: msgFailed,
			Failure: &plan.Failure{Step: "exec", Path: req.Argv[0], Errno: errno}}, 126)
	}
	wire.CloseAll(files)
	if err := ignoreOthers(); err != nil {
		return 125
	}
	if err := conn.Send(message{Kind: msgStarted, PID: pid}); err != nil {
		return 125
	}
	return waitForCommand(conn, req, pid)
}

// A sigaction is struct sigaction of the kernel.
type sigaction struct{ handler, flags, restorer, mask uintptr }

// The handlers SIG_DFL and SIG_IGN.
const sigDefault, sigIgnore = 0, 1

// setAction gives a signal an action, and returns the one that it had. Now may be nil.
func setAction(s unix.Signal, now *sigaction) (was sigaction, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(now)),
		uintptr(unsafe.Pointer(&was)), unsafe.Sizeof(was.mask), 0, 0)
	if errno != 0 {
		return was, fmt.Errorf("set the action of %v: %w", s, errno)
	}
	return was, nil
}

// resetIgnored gives the signals that whoever started Haft ignores their default action, which the command inherits:
// glibc's posix_spawn, with which make starts programs, leaves some ignored.
func resetIgnored() error {
	for s := unix.Signal(1); s <= 64; s++ {
		was, err := setAction(s, nil)
		if err == nil && was.handler == sigIgnore {
			_, err = setAction(s, &sigaction{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ignoreFaults ignores the signals for faults, which the command may send. The Go runtime takes them for faults of
// this process and ends it, unless they are caught and come from kill(2): those of sigqueue(3) do not. A real fault
// ends the process all the same. The runtime gives processes that it starts the default actions.
func ignoreFaults() error {
	for _, s := range []unix.Signal{
		unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
	} {
		if _, err := setAction(s, &sigaction{handler: sigIgnore}); err != nil {
			return err
		}
	}
	return nil
}

// ignoreOthers ignores the signals that have no handler: those that the Go runtime leaves to a C library. The kernel
// protects process 1 of a namespace from a signal without a handler only while the main thread does not block it, and
// that blocks all of them while it handles another one. It is called after the command has started, which would
// inherit it: the runtime does not give it the default action of these. Nor can they have its handler, which ends the
// process by a signal that the runtime does not know.
func ignoreOthers() error {
	for s := unix.Signal(1); s <= 64; s++ {
		if s == unix.SIGKILL || s == unix.SIGSTOP || s == unix.SIGCHLD {
			continue // the last one, ignored, would reap the command
		}
		was, err := setAction(s, nil)
		if err == nil && was.handler == sigDefault {
			_, err = setAction(s, &sigaction{handler: sigIgnore})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts the command on the calling thread, whose confinement it inherits.
func start(req request, files []int) (int, unix.Errno) {
	attr := &syscall.ProcAttr{Env: req.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, uintptr(f))
	}
	pid, err := syscall.ForkExec(req.Argv[0], req.Argv, attr)
	if err == nil {
		return pid, 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return 0, errno
	}
	return 0, unix.EINVAL
}

// waitForCommand waits for the end of the command, or of Haft, and reaps orphans
// meanwhile. When it returns, the kernel ends all other processes of the pid namespace.
func waitForCommand(conn *wire.Conn, req request, pid int) int {
	send := func(m message) { _ = conn.Send(m) } // Haft may be gone
	meters := newMeters(send)
	if req.Watch != nil {
		meters.start(0, req.Watch)
	}
	go func() {
		for {
			var c command
			if _, err := conn.Recv(&c); err != nil || c.Signal == int(unix.SIGKILL) {
				killAll(req, pid)
				os.Exit(0) // Haft is gone, or ends the run
			}
			if c.Watch != nil {
				meters.start(c.PID, c.Watch)
				continue
			}
			// The command leads a group of its own. A shell runs its trap only when the
			// program that it waits for has ended. All of them may be gone.
			_ = unix.Kill(-pid, unix.Signal(c.Signal))
		}
	}()
	for {
		var status unix.WaitStatus
		var use unix.Rusage
		child, err := unix.Wait4(-1, &status, 0, &use)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD) && req.Stay:
			select {} // until the socket closes
		case err != nil:
			return 125
		case req.Stay || child == pid:
			end := message{Kind: msgEnded, PID: child, Status: uint32(status), CPU: cpuOf(&use), RSS: use.Maxrss << 10}
			meters.stop(&end, req.Stay)
			if code := sendLast(conn, end, 0); code != 0 || !req.Stay {
				killAll(req, pid)
				return code
			}
		}
	}
}

// sendLast sends the last message of an init, and returns its exit code.
func sendLast(conn *wire.Conn, m message, code int) int {
	if err := conn.Send(m); err != nil {
		return 125
	}
	return code
}

// cpuOf returns the processor time in nanoseconds.
func cpuOf(u *unix.Rusage) int64 { return u.Utime.Nano() + u.Stime.Nano() }
