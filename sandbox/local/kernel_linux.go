package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/filter"
	"haft/sandbox/local/internal/forkprog"
	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// A guestKernel is the kernel of one run. A nil one is the host's.
//
//	Haft                      init           kernel          init of the guest
//	  request ────────────────► starts ───────► starts ────────► waits
//	  request{plan, argv, env} ────────────────────────────────► carries out the steps
//	                                                          ◄─ failed, ready, started, limit, idle
//	  signal{SIGTERM} ─────────────────────────────────────────► passes it to the command
//	                                                          ◄─ ended{status}
//	  SIGKILL ────────────────► all is over
type guestKernel struct {
	*Kernel
	conn *wire.Conn // with the init of the guest
	far  *os.File   // the guest's end of it, until the kernel has that
	log  *os.File
}

// guestStart is how long a kernel may take to start its guest: a hundred times as long as on an idle machine.
const guestStart = 30 * time.Second

// kernelRoot plans the root of the kernel's own processes around that of the guest: the program, a small tmpfs for
// its files, and a complete process file system, on which gVisor builds a root of its own. Later steps are in the
// directory that the guest will see as its root, where none of this is.
func (mc *machine) kernelRoot(pl *plan.Plan, k *Kernel) tree {
	made := map[string]bool{".": true}
	for _, dir := range []string{KernelDir, GuestRoot, "/proc", "/tmp"} {
		mkdirs(pl, made, strings.TrimPrefix(dir, "/"))
	}
	pl.Symlink(GuestRoot[1:]+"/dev", "dev")
	pl.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	pl.Mount("haft", KernelDir[1:], "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=64,mode=0700")
	t := mc.bind(pl, made, tree{host: k.Program, inside: KernelDir[1:] + "/program", attr: attrReadOnly}, false)
	pl.Chdir(GuestRoot[1:])
	return t
}

// openKernel makes the connections with a kernel and its guest, and returns those descriptors that the kernel
// gets.
func (r *run) openKernel() (theirs []*os.File, err error) {
	k := &guestKernel{Kernel: r.p.config.Kernel}
	r.kernel = k
	var log *os.File
	if k.log, log, err = pipe(); err != nil {
		return nil, err
	}
	if k.conn, k.far, err = wire.Pair(); err != nil {
		return []*os.File{log}, err
	}
	program, err := r.p.spawner.open()
	if err != nil {
		return []*os.File{log, k.far}, err
	}
	return []*os.File{log, k.far, program}, nil
}

// open opens the program of the inits.
func (s *spawner) open() (*os.File, error) {
	if s.program == nil {
		return os.Open(self)
	}
	return dup(s.program)
}

// files is how many descriptors the command gets from the init of the run.
func (r *run) files() int {
	n := 3
	if r.spec.Channel != nil {
		n++
	}
	if r.kernel != nil {
		n += 3 // see openKernel
	}
	return n
}

// planKernel plans the configuration of the kernel, leaves the root of the guest, and returns the arguments of the
// kernel's program.
func (r *run) planKernel(pl *plan.Plan) ([]string, error) {
	pl.Chdir("..")
	if len(r.spec.Argv) == 0 {
		return nil, nil // only a probe
	}
	n := r.files()
	guest := Guest{Argv: []string{initName}, Env: initEnv(), Log: n - 3, Files: []int{n - 2}, Program: n - 1}
	if r.spec.Channel != nil {
		guest.Files = append(guest.Files, 3)
	}
	argv, config, err := r.kernel.Command(r.spec, guest)
	if err != nil {
		return nil, err
	}
	pl.File(KernelDir[1:]+"/config.json", 0o400, config)
	return append([]string{KernelDir + "/program"}, argv...), nil
}

// kernelLimits plans the rlimits of the kernel's processes, which open more than one file for each of the guest's.
func (mc *machine) kernelLimits(pl *plan.Plan) {
	const files = 16 << 10
	pl.Rlimit("core", unix.RLIMIT_CORE, 0, 0)
	pl.OpenFiles(min(files, ownLimit(unix.RLIMIT_NOFILE)))
}

// startGuest has the init of the guest start the command, and waits for that.
func (r *run) startGuest() error {
	pl := plan.Plan{}
	pl.Umask(0o022)
	pl.Chdir("/work")
	pl.Prctl("dumpable", unix.PR_SET_DUMPABLE, 0)
	r.p.machine.limits(&pl, r.spec.Limits, initThreads)
	n := uint64(r.spec.Limits.Processes + initThreads)
	pl.Rlimit("nproc", unix.RLIMIT_NPROC, n, n)
	pl.NoNewPrivs()
	err := r.p.planFilter(&pl, filter.Config{Internet: r.spec.Network == sandbox.NetworkFull,
		Egress: r.spec.Network == sandbox.NetworkEgress})
	if err != nil {
		return err
	}
	req := request{Plan: pl, Argv: r.spec.Argv, Env: r.spec.Env, Inherited: []int{0, 1, 2},
		Watch: guestWatch(r.watch())}
	if r.spec.Channel != nil {
		req.Inherited = append(req.Inherited, initSocket+1)
	}
	_ = r.kernel.far.Close() // the kernel has its own, and its end is seen
	timer := time.AfterFunc(guestStart, r.killer())
	defer timer.Stop()
	if err := r.kernel.conn.Send(req); err != nil {
		return r.kernel.setupError(err)
	}
	for {
		var m message
		if _, err := r.kernel.conn.Recv(&m); err != nil {
			return r.kernel.setupError(err)
		}
		switch {
		case m.Kind == msgFailed && m.Failure != nil:
			return setupError(m.Failure)
		case m.Kind == msgStarted:
			r.pid = m.PID
			return nil
		}
	}
}

// watch returns the limits that have to be metered. A host with cgroups sees all that a guest uses, but not the
// number of its processes.
func (r *run) watch() *watch {
	w := r.p.machine.watch(r.hostLimits())
	if r.kernel == nil {
		return w
	}
	if w == nil {
		w = &watch{}
	}
	w.Processes, w.Shared = r.spec.Limits.Processes, false
	return w
}

// guestWatch is the part of w that the init of the guest meters. A bomb leaves it time for a few looks only: all
// processes of a guest have the same priority.
func guestWatch(w *watch) *watch { return &watch{Processes: w.Processes, Idle: w.Idle, Looks: 3} }

// processes is how many processes and threads a run had at once, at most. The cgroup counts those of a kernel, and
// not those of its guest.
func (r *run) processes(counted int) int {
	if r.kernel != nil {
		return max(r.inside.Peak, 1)
	}
	return max(counted-r.initTasks, r.inside.Peak)
}

// setupError says why there is no guest. It is called when the kernel has ended.
func (k *guestKernel) setupError(err error) error {
	log := make([]byte, 0, 4096)
	if raw, failed := k.log.SyscallConn(); failed == nil {
		failed = raw.Control(func(fd uintptr) { log = readAvailable(int(fd), log) })
		err = errors.Join(err, failed)
	}
	if reason := k.Reason(log); reason != "" {
		err = errors.New(reason)
	}
	return &sandbox.SetupError{Step: "kernel", Err: errnoIn(err)}
}

// readAvailable appends what is in a pipe, up to a bound.
func readAvailable(fd int, to []byte) []byte {
	var b [4096]byte
	for len(to) < 64<<10 {
		n, err := unix.Read(fd, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		to = append(to, b[:n]...)
	}
	return to
}

// close closes the connections with the kernel, which is gone.
func (k *guestKernel) close() error {
	if k == nil {
		return nil
	}
	err := k.log.Close()
	if k.conn != nil {
		err = errors.Join(err, k.conn.Close())
	}
	if err != nil {
		return fmt.Errorf("close kernel: %w", err)
	}
	return nil
}

// attachGuest makes s listen to the init of the guest, too, and signal the command through it. The channel is
// closed when the guest is gone, and nil if there is none.
func (r *run) attachGuest(s *subject, messages chan<- message) <-chan struct{} {
	k := r.kernel
	if k == nil {
		return nil
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			var m message
			if _, err := k.conn.Recv(&m); err != nil {
				return // the guest has ended
			}
			m.CPU, m.RSS = 0, 0 // the host counts them, with what the kernel uses
			messages <- m
		}
	}()
	s.signal = func(sig unix.Signal) { _ = k.conn.Send(command{Signal: int(sig)}) } // gone is as good
	host := s.startMeter
	s.startMeter = func(w *watch) {
		if w.Memory > 0 || w.CPU > 0 {
			host(&watch{Memory: w.Memory, CPU: w.CPU})
		}
		_ = k.conn.Send(command{Watch: guestWatch(w)}) // gone is as good
	}
	return gone
}

// hostLimits are the limits of the run, and what its kernel needs.
func (r *run) hostLimits() haft.Limits {
	l := r.spec.Limits
	if k := r.p.config.Kernel; k != nil {
		l.Memory, l.Processes = l.Memory+k.Memory, l.Processes+k.Tasks
	}
	return l
}

// noTemplates refuses templates where there is a kernel: a fork would be a process of the same kernel.
func (p *Provider) noTemplates() error {
	if p.config.Kernel == nil && len(forkprog.Code()) > 0 {
		return nil
	}
	if p.config.Kernel == nil {
		return &haft.Error{Code: haft.CodeDenied, Message: "there are no templates for this kind of processor"}
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "a sandbox with a kernel of its own has no templates"}
}
