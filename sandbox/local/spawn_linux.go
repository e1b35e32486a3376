package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/wire"
)

// A spawner starts inits from one thread that lives as long as the provider.
//
// # Why a thread of its own?
//
// PR_SET_PDEATHSIG means the death of the thread that forked, not of the process
// (prctl(2)), and the Go runtime may end a thread at any time. When this one
// ends, so does every sandbox.
type spawner struct {
	orders chan order
	done   chan struct{}
	// program is the init's, or nil if that is this program.
	program *os.File
}

// An order asks for one init.
type order struct {
	attr  *syscall.ProcAttr
	reply chan spawned
}

// spawned is the result of an order.
type spawned struct {
	pid int
	err error
}

// startSpawner starts the thread.
func startSpawner(program *os.File) *spawner {
	s := &spawner{orders: make(chan order), done: make(chan struct{}), program: program}
	path := self
	if program != nil {
		path = fmt.Sprintf("/proc/self/fd/%d", program.Fd())
	}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(s.done)
		var c cloner
		for o := range s.orders {
			pid, err := c.forkExec(path, o.attr)
			if path != self && errors.Is(err, unix.EACCES) {
				// This machine forbids to execute a memfd (vm.memfd_noexec).
				path = self
				pid, err = c.forkExec(path, o.attr)
			}
			o.reply <- spawned{pid, err}
		}
	}()
	return s
}

// stop ends the thread, and with it every sandbox that is left.
func (s *spawner) stop() {
	close(s.orders)
	<-s.done
	if s.program != nil {
		_ = s.program.Close() // only read
	}
}

// An initProcess is a running init.
type initProcess struct {
	pid     int
	fd      *os.File // pidfd
	conn    *wire.Conn
	waited  sync.Once
	waitErr error
	used    message // processor time and memory of all that was waited for
}

// spawn starts an init. The descriptor dir is a cgroup of version 2, or nil.
func (p *Provider) spawn(sys *syscall.SysProcAttr, dir *os.File) (*initProcess, error) {
	conn, far, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer far.Close() // the init has it
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start init: %w", err), conn.Close())
	}
	defer null.Close() // the init has it
	pidfd := -1
	sys.PidFD = &pidfd
	if p.machine.namespaces {
		// Without a pid namespace the init must outlive Haft for a moment: it sees the end
		// of its socket, and kills what the command has started.
		sys.Pdeathsig = unix.SIGKILL
	}
	sys.Setsid = true
	if dir != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	}
	o := order{reply: make(chan spawned, 1), attr: &syscall.ProcAttr{
		Env:   initEnv(),
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), far.Fd()},
		Sys:   sys,
	}}
	p.spawner.orders <- o
	got := <-o.reply
	if got.err != nil {
		return nil, errors.Join(got.err, conn.Close())
	}
	if err := unix.SetNonblock(pidfd, true); err != nil {
		_ = unix.Kill(got.pid, unix.SIGKILL) // it is our child, not yet waited for
		return nil, errors.Join(fmt.Errorf("start init: %w", err), conn.Close(), unix.Close(pidfd))
	}
	return &initProcess{pid: got.pid, fd: os.NewFile(uintptr(pidfd), "pidfd"), conn: conn}, nil
}

// initEnv is the environment of an init. Its runtime needs no more than two threads at work. Most inits end before they
// would have to collect garbage, but not one that meters processes where there is no cgroup: each look at 60
// processes makes 350 KiB of it.
func initEnv() []string {
	return []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=64MiB", "GOTRACEBACK=none"}
}

// kill ends the init, and with it all of its pid namespace.
func (i *initProcess) kill() { _ = signalFD(i.fd, unix.SIGKILL) } // gone is as good

// wait waits for the end of the init, once. A pidfd can be polled, so that no thread
// is held up.
func (i *initProcess) wait() error {
	i.waited.Do(func() { i.waitErr = i.waitOnce() })
	return i.waitErr
}

// waitOnce is wait, which may not be called again.
func (i *initProcess) waitOnce() error {
	raw, err := i.fd.SyscallConn()
	if err != nil {
		return err
	}
	var werr error
	err = raw.Read(func(fd uintptr) bool {
		var info unix.Siginfo
		var use unix.Rusage
		werr = unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WEXITED, &use)
		i.used = message{CPU: cpuOf(&use), RSS: use.Maxrss << 10}
		return werr != unix.EAGAIN && werr != unix.EINTR
	})
	if err == nil {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("wait for init: %w", err)
	}
	return nil
}

// end ends the init, waits for it and closes its descriptors.
func (i *initProcess) end() error {
	i.kill()
	return errors.Join(i.wait(), i.fd.Close(), i.conn.Close())
}

// signalFD sends a signal through a pidfd, which cannot reach another process.
func signalFD(f *os.File, sig unix.Signal) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return serr
}
