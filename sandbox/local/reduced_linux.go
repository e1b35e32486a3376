package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// The reduced mode is for machines that forbid namespaces. The command sees the
// host's paths, of which Landlock opens only those that are mounted; its work
// directory is a fresh one of the host.
//
//	Haft                init (supervisor)            second process
//	  request ────────►   starts ──────────────────►
//	                      request ────────────────►   confines itself
//	                   ◄─ failed, ready            ◄─ failed, ready
//	                   ◄─ started                  ◄─ (the socket closes) exec
//
// The init stays outside the confinement, where Landlock's scope (ABI 6) keeps
// signals of the command away from it. It adopts orphans (PR_SET_CHILD_SUBREAPER), and
// kills all descendants at the end.

// reducedAttributes starts the init as a user of its own, if we may choose one.
func (mc *machine) reducedAttributes(uid int) *syscall.SysProcAttr {
	if !mc.privileged {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)},
		AmbientCaps: []uintptr{unix.CAP_SETPCAP}, // to empty the bounding set
	}
}

// reducedRequest plans a run without namespaces.
func (r *run) reducedRequest() (request, error) {
	p := r.p
	if r.spec.Network == sandbox.NetworkEgress {
		// Landlock could hold a command to one port, but not to one address.
		return request{}, &haft.Error{Code: haft.CodeDenied,
			Message: "named hosts need a network namespace, which this sandbox does not have: without one a program " +
				"could go anywhere"}
	}
	if err := r.reachWorkspace(); err != nil {
		return request{}, err
	}
	if err := r.makeDir(); err != nil {
		return request{}, &sandbox.SetupError{Step: "directory", Err: errnoIn(err)}
	}
	pl := plan.Plan{}
	pl.Umask(0o022)
	for _, d := range []string{"work", "work/out", "tmp"} {
		pl.Mkdir(filepath.Join(r.dir, d), 0o700)
	}
	if err := files(&pl, r.dir+"/work/", r.spec.Files); err != nil {
		return request{}, err
	}
	pl.Keep(r.dir)
	pl.Chdir(filepath.Join(r.dir, "work"))
	if err := r.openPlanFDs(&pl, nil); err != nil {
		return request{}, err
	}
	p.machine.limits(&pl, r.spec.Limits, initThreads)
	if p.machine.privileged {
		pl.DropCaps(p.machine.lastCap)
	} else {
		pl.NoCaps()
	}
	if !p.machine.tree.Has(cgroup.PIDs) && p.machine.sharesUID() {
		// The meter ends a run that exceeds its limit. This bounds what a fork bomb can
		// start until the meter has seen it.
		pl.MoreProcesses(uint64(r.spec.Limits.Processes + othersProcesses))
	}
	pl.NoNewPrivs()
	if err := p.planReducedLandlock(&pl, r); err != nil {
		return request{}, err
	}
	if err := p.planFilter(&pl, r.filterConfig()); err != nil {
		return request{}, err
	}
	w := p.machine.watch(r.spec.Limits)
	if w != nil {
		w.Reap = true
	}
	argv, env := r.spec.WorkAt(filepath.Join(r.dir, "work"))
	req := request{
		Plan: pl, Argv: argv, Files: 3, Watch: w, Reduced: true, Alone: p.machine.privileged && r.spec.Owner == 0,
		Env: append([]string{"TMPDIR=" + filepath.Join(r.dir, "tmp")}, env...),
	}
	if r.spec.Channel != nil {
		req.Files++
	}
	return req, nil
}

// reachWorkspace makes the workspace visible at its path of the host, to which the user of the run
// needs a way: there is no mount that leads around the permissions of the directories above.
func (r *run) reachWorkspace() error {
	spec := r.spec.WorkspaceAtHost()
	r.spec = &spec
	if !r.p.machine.privileged {
		return nil
	}
	for _, m := range spec.Mounts {
		if m.Host != m.Inside || m.File == nil || spec.Owner == 0 {
			continue
		}
		for dir := filepath.Dir(m.Host); dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
				return &haft.Error{Code: haft.CodeDenied, Message: "a workspace needs a mount namespace, which this " +
					"sandbox does not have: run haft as an ordinary user, or let others pass the directories " +
					"above the workspaces (chmod o+x)"}
			}
		}
	}
	return nil
}

// makeDir makes the directory of the run's files.
func (r *run) makeDir() error {
	if err := os.Mkdir(r.p.instance.scratch, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	dir := filepath.Join(r.p.instance.scratch, strconv.FormatUint(r.p.runs.Add(1), 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	r.dir = dir
	if r.p.machine.privileged {
		return os.Lchown(dir, r.uid, r.uid)
	}
	return nil
}

// planReducedLandlock plans Landlock over the host's own tree. The mounts that come with
// a descriptor get the last slots of the plan: access is granted to the open file, even if
// its path leads elsewhere by now.
func (p *Provider) planReducedLandlock(pl *plan.Plan, r *run) error {
	if !p.machine.isolation.Has(haft.ControlLandlock) {
		// Without a root of its own, Landlock is all that keeps a command from the files
		// of the host. There is no weaker mode: the run is refused.
		return &sandbox.SetupError{Step: "landlock", Path: "files", Err: unix.EOPNOTSUPP}
	}
	read, write := p.machine.landlock.rights()
	rules := []plan.Rule{{Path: r.dir, Access: read | write}}
	for _, name := range devices {
		rules = append(rules, plan.Rule{Path: "/dev/" + name, Access: unix.LANDLOCK_ACCESS_FS_READ_FILE |
			unix.LANDLOCK_ACCESS_FS_WRITE_FILE | write&(llTruncate|llIoctl)})
	}
	for _, m := range visibleMounts(r.spec) {
		if m.Host != m.Inside {
			return &haft.Error{Code: haft.CodeDenied,
				Message: "a mount at another path needs namespaces, which this sandbox does not have"}
		}
		t := tree{host: m.Host, file: m.File, given: true}
		info, err := t.find()
		if err != nil {
			return &sandbox.SetupError{Step: "mount", Path: m.Inside, Err: errnoIn(err)}
		}
		rule := plan.Rule{Path: m.Host}
		if m.File != nil {
			fd, err := detach(t)
			if err != nil {
				return &sandbox.SetupError{Step: "mount", Path: m.Inside, Err: errnoIn(err)}
			}
			r.planFDs, rule.Slot = append(r.planFDs, fd), pl.Given(m.Host)+1
		}
		rule.Access = read
		if m.Writable {
			rule.Access |= write
		}
		if !info.IsDir() {
			rule.Access &= unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
				unix.LANDLOCK_ACCESS_FS_WRITE_FILE | llTruncate | llIoctl
		}
		rules = append(rules, rule)
	}
	pl.Landlock(p.machine.landlock.attr(r.spec.Network == sandbox.NetworkFull), rules)
	return nil
}

// removeTree removes a directory of a run that is over, and what is in it, even
// where the command took its permissions away.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	if f, err := os.Open(filepath.Dir(dir)); err == nil {
		makeWritable(int(f.Fd()), filepath.Base(dir), 0)
		_ = f.Close() // only read
	}
	return os.RemoveAll(dir)
}

// makeWritable makes a directory and those below it writable. Links are not followed.
func makeWritable(at int, name string, depth int) {
	how := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if unix.Fchmodat(at, name, 0o700, unix.AT_SYMLINK_NOFOLLOW) != nil || depth > 200 {
		return
	}
	fd, err := unix.Openat(at, name, how, 0)
	if err != nil {
		return // not a directory, or gone; the removal reports it
	}
	d := os.NewFile(uintptr(fd), "dir")
	defer d.Close() // only read
	entries, err := d.ReadDir(-1)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			makeWritable(fd, e.Name(), depth+1)
		}
	}
}

// killer returns a function that ends everything in the sandbox.
func (r *run) killer() func() {
	if r.p.machine.namespaces {
		return r.init.kill
	}
	return func() {
		// The init kills its descendants and ends. If it does not, it is killed, and the
		// parent-death signal kills the command. Processes that the command has started
		// would survive that, so the init has enough time to end a fork bomb.
		_ = r.init.conn.Send(command{Signal: int(unix.SIGKILL)}) // gone is as good
		time.AfterFunc(killTime, r.init.kill)
	}
}

// serveReduced runs an init without a pid namespace, and returns its exit code.
func serveReduced(conn *wire.Conn, req request, fds []int) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return sendLast(conn, message{Kind: msgFailed, Failure: failure("subreaper", "", err)}, 125)
	}
	near, far, err := wire.Pair()
	if err != nil {
		return 125
	}
	attr := &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2, far.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{initName}, attr)
	if err != nil {
		return sendLast(conn, message{Kind: msgFailed, Failure: failure("clone", "", err)}, 125)
	}
	_ = far.Close() // the second process has it
	second := req
	second.Reduced, second.Exec, second.Watch = false, true, nil
	if err := near.Send(second, fds...); err != nil {
		return sendLast(conn, message{Kind: msgFailed, Failure: failure("init", "", err)}, 125)
	}
	wire.CloseAll(fds)
	for {
		var m message
		got, err := near.Recv(&m)
		if err != nil { // exec has closed it
			break
		}
		if err := conn.Send(m, got...); err != nil || m.Kind == msgFailed {
			return 125
		}
		wire.CloseAll(got)
	}
	if len(req.Argv) == 0 {
		return 0
	}
	if err := conn.Send(message{Kind: msgStarted, PID: pid}); err != nil {
		killAll(req, pid)
		return 125
	}
	return waitForCommand(conn, req, pid)
}

// execCommand turns the process into the command.
func execCommand(conn *wire.Conn, req request, files []int) int {
	for i, f := range files {
		if i == initSocket { // in the way of the command's descriptor 3
			fd, err := unix.FcntlInt(initSocket, unix.F_DUPFD_CLOEXEC, 10)
			if err != nil {
				return 125
			}
			conn = wire.New(os.NewFile(uintptr(fd), "socket"))
		}
		if err := unix.Dup3(f, i, 0); err != nil {
			return sendLast(conn, message{Kind: msgFailed, Failure: failure("dup", "", err)}, 125)
		}
	}
	err := syscall.Exec(req.Argv[0], req.Argv, req.Env)
	return sendLast(conn, message{Kind: msgFailed, Failure: failure("exec", req.Argv[0], err)}, 126)
}

// failure makes a failure of an error.
func failure(step, path string, err error) *plan.Failure {
	errno := unix.EIO
	if e, ok := errors.AsType[unix.Errno](err); ok {
		errno = e
	}
	return &plan.Failure{Step: step, Path: path, Errno: errno}
}

// killTime is how long Haft waits for an init that kills the rest of its run. Then Haft
// kills the init, which is a last resort: processes that it leaves behind are not found.
const killTime = time.Minute

// killAll kills the rest of a run without a pid namespace. With one, the end of the init
// does it. The init adopts orphans: once it has no child, no process of the run is left. A
// list of processes does not prove that, since a process that is adopted while the list is
// made is not on it.
//
// All processes are stopped before any is killed. A killed process no longer counts for the
// limit, and a fork bomb would replace it before the next list is made; a stopped process
// still counts.
func killAll(req request, command int) {
	for req.Reduced {
		if req.Alone {
			_ = unix.Kill(-1, unix.SIGKILL) // all of this user id but ourselves; ESRCH is none
		}
		stopped, err := stopAll()
		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGKILL) // gone is as good
		}
		if err != nil {
			_ = unix.Kill(-command, unix.SIGKILL) // found without /proc
		}
		if reapEnded() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// stopAll stops all descendants, until a list of them has no new one, and returns them. It fails if some cannot be
// read: their children are found when they are gone.
func stopAll() (stopped map[int]bool, err error) {
	stopped = map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		var pids []int
		pids, err = childrenOf(os.Getpid(), nil)
		for _, pid := range pids {
			if !stopped[pid] {
				fresh, stopped[pid] = true, true
				_ = unix.Kill(pid, unix.SIGSTOP) // gone is as good
			}
		}
	}
	return stopped, err
}

// reapEnded reaps the children that have ended, and reports whether none is left.
func reapEnded() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return true
		}
		if err == nil && pid == 0 {
			return false // some are still dying
		}
	}
}
