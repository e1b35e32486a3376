package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
	"haft/sandbox/local/internal/forkprog"
	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// A cell is a fork.
type cell struct {
	pid  int // as the template counts
	fd   *os.File
	conn *wire.Conn
	// program is what it carries out until it is ready.
	program *forkprog.Program
}

// fork runs spec in a fork of g.
func (r *run) fork(ctx context.Context, g *generation) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return r.notStarted(), nil
	}
	id, err := g.ids.take()
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer g.ids.free(id)
	theirs, err := r.openAs(g.block + id)
	defer func() { closeFiles(theirs) }()
	if err != nil {
		return sandbox.Exit{}, err
	}
	c, err := r.order(g, id, theirs)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer c.fd.Close() // only signalled and waited on
	s := c.attached(g)
	stop := context.AfterFunc(ctx, s.kill)
	err = r.ready(ctx, g, c)
	if cancelled := !stop() && ctx.Err() != nil; cancelled || err != nil {
		s.kill()
		<-s.gone
		if cancelled {
			return r.cancelled(), nil
		}
		return sandbox.Exit{}, err
	}
	c.program = nil // with the content of files
	r.handOver(theirs)
	theirs = nil
	r.gauge = gaugeOf(c.fd)
	r.observer.watchIO(r.gauge)
	return r.supervise(ctx, s), nil
}

// order has the template fork.
func (r *run) order(g *generation, id int, theirs []*os.File) (*cell, error) {
	conn, far, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer far.Close() // the fork has it
	tasks, err := r.group.TasksFiles()
	if err != nil {
		return nil, errors.Join(&sandbox.SetupError{Step: "cgroup", Err: errnoIn(err)}, conn.Close())
	}
	defer cgroup.CloseTasksFiles(tasks)
	f, err := r.orderOf(g, id, len(tasks))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	all := append([]*os.File{theirs[0], theirs[1], theirs[2], far}, theirs[3:]...)
	for _, d := range tasks {
		all = append(all, d.File)
	}
	c, err := g.fork(f, numbers(all))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.conn = conn
	return c, nil
}

// orderOf returns what the template is to do for a run.
func (r *run) orderOf(g *generation, id, slots int) (forkprog.Fork, error) {
	own := plan.Plan{}
	if err := files(&own, "/work/", r.spec.Files); err != nil {
		return forkprog.Fork{}, err
	}
	f := g.forkOf
	f.Channel, f.Maps, f.Own, f.Slots = r.spec.Channel != nil, g.maps(id), own.Steps, slots
	if r.p.machine.isolation.Has(haft.ControlTimeNS) {
		f.Clock = string(clockOffsets())
	}
	if r.spec.Observe {
		watched := plan.Plan{}
		if err := r.p.planFilter(&watched, filterOf(r.spec)); err != nil {
			return forkprog.Fork{}, err
		}
		f.Steps = slices.Clone(f.Steps)
		i := slices.IndexFunc(f.Steps, func(s plan.Step) bool { return s.Do == plan.DoSeccomp })
		f.Steps = slices.Replace(f.Steps, i, i+1, watched.Steps...)
	}
	return f, nil
}

// fork sends an order and waits for the answer.
func (g *generation) fork(f forkprog.Fork, fds []int) (*cell, error) {
	g.forking.Lock()
	defer g.forking.Unlock()
	f.Once = !g.primed // then the template looks for what all others do without
	program, order, err := g.loop.Order(&f)
	if err != nil {
		return nil, err
	}
	if err := g.control.SendBytes(order, fds...); err != nil {
		return nil, g.fail(err)
	}
	var m templateMessage
	got, err := g.control.Recv(&m)
	if err != nil {
		return nil, g.fail(err)
	}
	if m.Kind == msgFailed && m.At != 0 {
		wire.CloseAll(got)
		err := g.failed(program, &m.message)
		if g.loop.Has(m.At) { // it takes no more orders
			err = g.fail(err)
		}
		return nil, err
	}
	if m.Kind != msgForked || len(got) != 1 {
		wire.CloseAll(got)
		return nil, g.fail(unix.EPROTO)
	}
	g.primed = true
	if err := unix.SetNonblock(got[0], true); err != nil {
		wire.CloseAll(got)
		return nil, g.fail(err)
	}
	return &cell{pid: m.PID, fd: os.NewFile(uintptr(got[0]), "pidfd"), program: program}, nil
}

// failed says what failed in a program.
func (g *generation) failed(program *forkprog.Program, m *message) error {
	failure, err := g.loop.Failed(program, m.At, m.Result)
	if err != nil {
		return &sandbox.SetupError{Step: "fork", Err: err}
	}
	return setupError(failure)
}

// fail marks a template that no longer answers.
func (g *generation) fail(err error) error {
	g.mu.Lock()
	g.broken = true
	g.mu.Unlock()
	return g.quote(&sandbox.SetupError{Step: "fork", Err: errnoIn(err)})
}

// ready waits until the fork has confined itself.
func (r *run) ready(ctx context.Context, g *generation, c *cell) error {
	defer c.conn.Close() // the fork sends nothing more
	if r.p.machine.tree.V2 {
		if err := r.group.Add(c.fd); err != nil {
			return &sandbox.SetupError{Step: "cgroup", Err: errnoIn(err)}
		}
		if err := c.conn.Go(); err != nil {
			return &sandbox.SetupError{Step: "fork", Err: errnoIn(err)}
		}
	}
	var m message
	got, err := c.conn.Recv(&m)
	switch {
	case err != nil:
		return &sandbox.SetupError{Step: "fork", Err: errnoIn(err)}
	case m.Kind == msgFailed && m.At != 0:
		wire.CloseAll(got)
		return g.failed(c.program, &m)
	case m.Kind != msgReady || len(got) == 0:
		wire.CloseAll(got)
		return &sandbox.SetupError{Step: "fork", Err: unix.EPROTO}
	}
	return r.takeDescriptors(ctx, got)
}

// attached waits for the end of a fork. Its status comes from the init that is
// its parent.
func (c *cell) attached(g *generation) subject {
	g.mu.Lock()
	ended := g.meet(c.pid)
	g.mu.Unlock()
	messages, gone := make(chan message, 4), make(chan struct{})
	dead := make(chan struct{})
	go func() {
		c.waitGone()
		close(dead)
	}()
	go func() {
		defer close(gone)
		defer func() { <-dead }()
		for {
			select {
			case m := <-ended:
				messages <- m
				if m.Kind == msgEnded {
					return
				}
			case <-g.gone:
				return
			}
		}
	}()
	return subject{
		signal: func(s unix.Signal) { _ = signalFD(c.fd, s) }, // gone is as good
		kill:   func() { _ = signalFD(c.fd, unix.SIGKILL) },
		startMeter: func(w *watch) {
			_ = g.host.init.conn.Send(command{PID: c.pid, Watch: w}) // gone is as good
		},
		messages: messages,
		gone:     gone,
	}
}

// waitGone waits until the pid namespace of the fork is empty: its first process
// becomes a zombie only then.
func (c *cell) waitGone() {
	raw, err := c.fd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // an error is a closed descriptor
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n != 0 && !errors.Is(err, unix.EINTR)
	})
}

// maps are the files and lines that say who the user of a fork is.
func (g *generation) maps(id int) [][2]string {
	if g.p.machine.privileged {
		line := fmt.Sprintf("%d %d 1", insideID, id)
		return [][2]string{{"uid_map", line}, {"gid_map", line}}
	}
	line := fmt.Sprintf("%d %d 1", insideID, insideID)
	return [][2]string{{"setgroups", "deny"}, {"uid_map", line}, {"gid_map", line}}
}
