package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
	"haft/sandbox/local/internal/filter"
	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// Run implements [sandbox.Provider].
func (p *Provider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if spec.Channel != nil {
		defer spec.Channel.Close() // the command has its own copy
	}
	spec.Limits = spec.Limits.Or(haft.DefaultLimits())
	if err := checkSpec(&spec); err != nil {
		return sandbox.Exit{}, err
	}
	if err := p.machine.checkOwner(spec.Owner); err != nil {
		return sandbox.Exit{}, err
	}
	if spec.Observe && p.config.Kernel != nil {
		return sandbox.Exit{}, &haft.Error{Code: haft.CodeDenied,
			Message: "a sandbox with a kernel of its own is not observed: that needs the sandbox local"}
	}
	if spec.Need.Level == "" && len(spec.Need.Controls) == 0 && !spec.Observe && !p.proven.Load() {
		return p.runUnproven(ctx, &spec)
	}
	if err := spec.Need.Check(p.best); err != nil { // no trial can give more
		return sandbox.Exit{}, err
	}
	have, err := p.Isolation(ctx)
	if err != nil {
		return sandbox.Exit{}, err
	}
	if err := p.admit(spec.Need, have); err != nil {
		return sandbox.Exit{}, err
	}
	return p.run(ctx, &spec, nil)
}

// run makes a sandbox, runs the command and takes the sandbox down. It calls
// started, if that is not nil, when the command runs.
func (p *Provider) run(ctx context.Context, spec *sandbox.Spec, started func()) (sandbox.Exit, error) {
	r := &run{p: p, spec: spec, flood: make(chan struct{}, 2), initTasks: p.machine.initTasks()}
	exit, err := r.runCold(ctx, started)
	return exit, errors.Join(err, r.tearDown())
}

// checkSpec refuses a spec that is wrong.
func checkSpec(spec *sandbox.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	total := int64(0)
	for _, f := range spec.Files {
		total += int64(len(f.Data))
	}
	if total > spec.Limits.Disk || int64(len(spec.Files)) > spec.Limits.Inodes {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the files that are handed in exceed the limits"}
	}
	return nil
}

// A run is one sandbox, from its making to its removal.
type run struct {
	p    *Provider
	spec *sandbox.Spec

	uid     int
	hasUID  bool
	group   *cgroup.Group
	stdout  *outputReader
	stderr  *outputReader
	stdin   *feeder
	flood   chan struct{} // an output reader got too much
	init    *initProcess
	planFDs []int // for the slots of the plan, until the init has them
	// private is the tmpfs of the run: its directories tmp, work, shm and vartmp.
	private   *os.File
	empty     bool    // there is nothing in it to collect
	inside    message // the last readings of the init
	pid       int     // of the command, as the init counts
	dir       string  // of the files, in the reduced mode
	initTasks int     // threads that are counted with the command, but are ours
	gauge     *gauge  // of the command
	// usedCPU and usedRSS are its readings; base is processor time of the cgroup that is
	// not the call's.
	usedCPU, base time.Duration
	usedRSS       int64
	egress        *egressListener // nil if there is none
	kernel        *guestKernel    // nil if that is the host's
	observer      *observer       // nil if there is none
}

// runCold runs the command in a sandbox made from scratch.
func (r *run) runCold(ctx context.Context, started func()) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return r.notStarted(), nil
	}
	theirs, err := r.open()
	defer func() { closeFiles(theirs) }()
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer r.closePlanFDs()
	req, err := r.request()
	if err != nil {
		return sandbox.Exit{}, err
	}
	if r.init == nil {
		if err := r.spawn(r.p.machine.attributes(r.spec.Network, r.uid)); err != nil {
			return sandbox.Exit{}, err
		}
	}
	stop := context.AfterFunc(ctx, r.killer())
	err = r.start(ctx, req, theirs)
	if !stop() && ctx.Err() != nil {
		_ = r.init.wait() // tearDown reports it
		return r.cancelled(), nil
	}
	if err != nil {
		return sandbox.Exit{}, err
	}
	r.handOver(theirs)
	theirs = nil
	if r.kernel == nil {
		r.gauge = gaugeBelow(r.init.pid)
		r.observer.watchIO(r.gauge)
	}
	if started != nil {
		started()
	}
	return r.supervise(ctx, r.attached()), nil
}

// spawn starts an init for this run.
func (r *run) spawn(sys *syscall.SysProcAttr) error {
	dir, err := r.group.Dir()
	if err != nil {
		return &sandbox.SetupError{Step: "cgroup", Err: errnoIn(err)}
	}
	if dir != nil {
		defer dir.Close() // only for the clone
	}
	if r.init, err = r.p.spawn(sys, dir); err != nil {
		return &sandbox.SetupError{Step: "clone", Err: errnoIn(err)}
	}
	return nil
}

// notStarted returns the exit of a run that was cancelled before it began.
func (r *run) notStarted() sandbox.Exit {
	e := sandbox.Exit{Cause: sandbox.CauseCancelled, Isolation: r.isolation(), Started: time.Now()}
	if r.spec.Ended != nil {
		r.spec.Ended(e)
	}
	return e
}

// cancelled returns the exit of a run that was cancelled before it was known to have
// started. Its processes are gone.
func (r *run) cancelled() sandbox.Exit {
	now := time.Now()
	r.egress.close()
	r.stdout.drain()
	r.stderr.drain()
	e := r.exit(account{stop: sandbox.CauseCancelled}, now, now)
	if r.spec.Ended != nil {
		r.spec.Ended(e)
	}
	return e
}

// handOver closes our copies of the descriptors of the command, so that the channel ends
// with the command, and begins to feed its input. Before that, nothing of the caller's is
// consumed, and the run can be tried again.
func (r *run) handOver(theirs []*os.File) {
	r.stdin.start()
	closeFiles(theirs)
	if r.spec.Channel != nil {
		_ = r.spec.Channel.Close() // once more at the end, to no effect
	}
}

// open makes the parts of a run that Haft keeps: a user id, a cgroup and pipes. It returns
// the descriptors of the command.
func (r *run) open() (theirs []*os.File, err error) {
	if r.spec.Owner != 0 {
		return r.openAs(r.spec.Owner)
	}
	if r.p.machine.namespaces {
		r.init, r.uid = r.p.spares.take(r.spec.Network)
	}
	if r.init == nil {
		if r.uid, err = r.p.runIDs.take(); err != nil {
			return nil, err
		}
	}
	r.hasUID = true
	if theirs, err = r.openAs(r.uid); err != nil || r.init == nil || !r.p.machine.tree.V2 {
		return theirs, err
	}
	return theirs, r.group.Add(r.init.fd)
}

// openAs is open with a given user id, which the caller gives back.
func (r *run) openAs(uid int) (theirs []*os.File, err error) {
	r.uid = uid
	l := r.spec.Limits
	host := r.hostLimits()
	r.p.mayLoopback(r.spec)
	name := strconv.FormatUint(r.p.runs.Add(1), 10)
	bounds := cgroup.Limits{Memory: host.Memory, PIDs: host.Processes + r.initTasks}
	if r.spec.Loopback {
		bounds.Sockets = socketMemory
	}
	if r.group, err = r.p.machine.tree.New(name, bounds); err != nil {
		return nil, &sandbox.SetupError{Step: "cgroup", Err: errnoIn(err)}
	}
	var in, out, errs *os.File
	if r.stdin, in, err = openFeeder(r.spec.Stdin); err != nil {
		return nil, err
	}
	theirs = append(theirs, in)
	over := func() { r.flood <- struct{}{} }
	stdout, stderr := serialised(r.spec.Stdout, r.spec.Stderr)
	if r.stdout, out, err = startOutputReader(stdout, l.Stdout, over); err != nil {
		return theirs, err
	}
	theirs = append(theirs, out)
	if r.stderr, errs, err = startOutputReader(stderr, l.Stderr, over); err != nil {
		return theirs, err
	}
	theirs = append(theirs, errs)
	if r.spec.Channel != nil {
		fd, err := dup(r.spec.Channel)
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, fd)
	}
	if r.p.config.Kernel != nil {
		files, err := r.openKernel()
		if theirs = append(theirs, files...); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

// request compiles the plan, and opens the descriptors that it needs.
func (r *run) request() (request, error) {
	if !r.p.machine.namespaces {
		return r.reducedRequest()
	}
	pl := plan.Plan{}
	trees, err := r.p.root(&pl, r.spec)
	if err != nil {
		return request{}, err
	}
	r.p.machine.overlays(&pl, r.spec, "")
	private(&pl, r.spec, "", r.p.machine.hasProc && r.p.config.Kernel == nil)
	listen(&pl, r.spec)
	if err := files(&pl, "work/", r.spec.Files); err != nil {
		return request{}, err
	}
	r.p.clock(&pl)
	r.p.machine.planHostname(&pl)
	argv, env := r.spec.Argv, r.spec.Env
	if r.p.config.Kernel != nil {
		if argv, err = r.planKernel(&pl); err != nil {
			return request{}, err
		}
		env = []string{}
	}
	pl.Pivot()
	pl.Attr("/", attrReadOnly, false)
	if err := r.openPlanFDs(&pl, trees); err != nil {
		return request{}, err
	}
	// No process inside may trace the init. The command is dumpable again after its exec.
	pl.Prctl("dumpable", unix.PR_SET_DUMPABLE, 0)
	if err := r.p.confine(&pl, r.spec, initThreads); err != nil {
		return request{}, err
	}
	req := request{Plan: pl, Argv: argv, Env: env, Files: r.files(), Watch: r.p.machine.watch(r.hostLimits())}
	return req, nil
}

// openPlanFDs opens the descriptors for the slots of the plan: first the trees, whose
// slots are there, then the tasks files of the cgroups, whose slots it adds.
func (r *run) openPlanFDs(pl *plan.Plan, trees []tree) error {
	for _, t := range trees {
		fd, err := detach(t)
		if err != nil {
			return &sandbox.SetupError{Step: "mount", Path: "/" + t.inside, Err: errnoIn(err)}
		}
		r.planFDs = append(r.planFDs, fd)
	}
	files, err := r.group.TasksFiles()
	if err != nil {
		return &sandbox.SetupError{Step: "cgroup", Err: errnoIn(err)}
	}
	defer cgroup.CloseTasksFiles(files)
	for _, d := range files {
		pl.Join(d.Controller)
		fd, err := unix.FcntlInt(d.File.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		r.planFDs = append(r.planFDs, fd)
	}
	return nil
}

// closePlanFDs closes the descriptors of the plan, which the init has by now.
func (r *run) closePlanFDs() {
	wire.CloseAll(r.planFDs)
	r.planFDs = nil
}

// confine plans the last steps, after which the thread has no more privilege.
func (p *Provider) confine(pl *plan.Plan, spec *sandbox.Spec, company int) error {
	if p.machine.isolation.Has(haft.ControlCgroupNS) {
		pl.Unshare("cgroup", unix.CLONE_NEWCGROUP)
	}
	if p.config.Kernel != nil {
		pl.Setsid()
		p.machine.kernelLimits(pl)
		pl.DropCaps(p.machine.lastCap)
		pl.NoNewPrivs()
		return nil // the kernel filters the system calls of its own processes
	}
	pl.Chdir("/work")
	pl.Setsid()
	p.machine.limits(pl, spec.Limits, company)
	pl.DropCaps(p.machine.lastCap)
	pl.NoNewPrivs()
	var writable []string
	for _, m := range spec.Mounts {
		if m.Writable {
			writable = append(writable, m.Inside)
		}
	}
	if p.machine.isolation.Has(haft.ControlLandlock) {
		p.machine.landlock.plan(pl, spec, writable)
	}
	return p.planFilter(pl, filterOf(spec))
}

// filterOf says which filter of system calls a sandbox with namespaces has.
func filterOf(spec *sandbox.Spec) filter.Config {
	return filter.Config{Internet: spec.Network == sandbox.NetworkFull,
		Egress: spec.Network == sandbox.NetworkEgress || spec.Loopback, Observe: spec.Observe}
}

// filterConfig says which filter of system calls a run has.
func (r *run) filterConfig() filter.Config {
	if r.p.machine.namespaces {
		return filterOf(r.spec)
	}
	return filter.Config{Internet: r.spec.Network == sandbox.NetworkFull, Reduced: true, Observe: r.spec.Observe}
}

// planFilter plans the filter of system calls, where there is one.
func (p *Provider) planFilter(pl *plan.Plan, c filter.Config) error {
	if !p.machine.isolation.Has(haft.ControlSeccomp) {
		if c.Observe {
			return &haft.Error{Code: haft.CodeDenied,
				Message: "a run is observed by a filter of system calls, which this sandbox does not have"}
		}
		return nil
	}
	f, err := p.filter(c)
	if err != nil {
		return err
	}
	if c.Observe {
		pl.Observe(f)
	} else {
		pl.Seccomp(f)
	}
	return nil
}

// planHostname plans the name of the machine, where it may be set.
func (mc *machine) planHostname(pl *plan.Plan) {
	if mc.isolation.Has(haft.ControlUTSNS) {
		pl.Hostname("haft")
	}
}

// clock plans a time namespace for the children of the thread, with clocks that do not
// reveal when the machine was started.
func (p *Provider) clock(pl *plan.Plan) {
	if p.machine.isolation.Has(haft.ControlTimeNS) && p.machine.hasProc {
		pl.Unshare("time", unix.CLONE_NEWTIME)
		if !p.proven.Load() {
			pl.Vfork("time")
		}
		proc := "proc/"
		if p.config.Kernel != nil {
			proc = "../proc/"
		}
		pl.File(proc+plan.ThreadID+"/timens_offsets", 0, clockOffsets())
	}
}

// start sends the request and waits until the command runs.
func (r *run) start(ctx context.Context, req request, theirs []*os.File) error {
	if err := r.init.conn.Send(req, slices.Concat(r.planFDs, numbers(theirs))...); err != nil {
		return &sandbox.SetupError{Step: "init", Err: errnoIn(err)}
	}
	for {
		var m message
		got, err := r.init.conn.Recv(&m)
		if err != nil {
			return &sandbox.SetupError{Step: "init", Err: errnoIn(err)}
		}
		switch {
		case m.Kind == msgFailed && m.Failure != nil:
			return setupError(m.Failure)
		case m.Kind == msgReady:
			if err := r.takeDescriptors(ctx, got); err != nil {
				return err
			}
			continue
		case m.Kind == msgStarted && r.kernel != nil:
			return r.startGuest()
		case m.Kind == msgStarted:
			r.pid = m.PID
			return nil
		}
		wire.CloseAll(got)
		return &sandbox.SetupError{Step: "init", Err: unix.EPROTO}
	}
}

// takeDescriptors takes the descriptors that a sandbox sends when it is set up: its
// private directories, the listener of its egress, and that of its filter.
func (r *run) takeDescriptors(ctx context.Context, got []int) error {
	egress, want := r.spec.ServeEgress != nil, 1
	for _, more := range []bool{egress, r.spec.Observe} {
		if more {
			want++
		}
	}
	if len(got) > want || len(got) != want && want > 1 {
		wire.CloseAll(got)
		return &sandbox.SetupError{Step: "init", Err: unix.EPROTO}
	}
	if len(got) > 0 { // a template has none
		r.private = os.NewFile(uintptr(got[0]), "private")
	}
	if r.spec.Observe {
		var err error
		if r.observer, err = r.openObserver(got[want-1], r.filterConfig()); err != nil {
			wire.CloseAll(got[1 : want-1])
			return err
		}
	}
	if !egress {
		return nil
	}
	var err error
	r.egress, err = openEgress(ctx, got[1], r.spec.ServeEgress)
	return err
}

// setupError turns a failure that came over the socket into an error.
func setupError(f *plan.Failure) error {
	return &sandbox.SetupError{Step: f.Step, Path: f.Path, Err: f.Errno}
}

// tearDown releases the resources of the run. The run's processes are gone.
func (r *run) tearDown() error {
	var errs []error
	r.egress.close()
	if r.init != nil {
		errs = append(errs, r.init.end())
	}
	r.observer.close()
	if r.stdin != nil {
		r.stdin.close()
	}
	for _, p := range []*outputReader{r.stdout, r.stderr} {
		if p != nil {
			p.close()
		}
	}
	if r.private != nil {
		errs = append(errs, r.private.Close())
	}
	r.gauge.close()
	errs = append(errs, r.kernel.close())
	if r.group != nil {
		errs = append(errs, r.group.Remove())
	}
	if r.dir != "" {
		errs = append(errs, removeTree(r.dir))
	}
	if r.hasUID {
		r.p.runIDs.free(r.uid)
		r.p.spares.later(r.p)
	}
	return errors.Join(errs...)
}

// detach clones a part of the host's mounts, with its attributes. A clone of a
// shared mount, as all are under systemd, is the peer of what it was cloned from:
// what a sandbox mounts on it would appear on the host. So it leaves the group.
func detach(t tree) (int, error) {
	if t.given {
		fd, err := unix.FcntlInt(t.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("duplicate descriptor: %w", err)
		}
		return fd, nil
	}
	at, name, flags := unix.AT_FDCWD, t.host, uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if t.file != nil { // what is open, whatever its path leads to by now
		at, name, flags = int(t.file.Fd()), "", flags|unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(at, name, flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	attr := &unix.MountAttr{Attr_set: t.attr, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return -1, errors.Join(fmt.Errorf("mount_setattr: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// dup returns a copy of f that is not closed with it.
func dup(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", err)
	}
	fd := -1
	var derr error
	if err := raw.Control(func(old uintptr) { fd, derr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", err)
	}
	if derr != nil {
		return nil, fmt.Errorf("duplicate descriptor: %w", derr)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// numbers returns the descriptors of files.
func numbers(files []*os.File) []int {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return fds
}

// closeFiles closes our copies of files.
func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written through it
	}
}
