package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"haft/sandbox"
	"haft/sandbox/local/internal/filter"
	"haft/sandbox/local/internal/forkprog"
	"haft/sandbox/local/internal/plan"
	"haft/sandbox/local/internal/wire"
)

// A generation is one template process and its forks.
//
// Lifecycle: startGeneration → hold, fork, release → retire; the last release
// after retire ends it.
type generation struct {
	p       *Provider
	block   int // the first user id of the host
	ids     *idPool
	host    *run
	control *wire.Conn
	output  lockedBuffer // on standard output and error
	born    time.Time

	loop   *forkprog.Loop
	forkOf forkprog.Fork // what is the same for all

	forking sync.Mutex // held from the order of a fork to its answer
	primed  bool       // the first fork was made

	mu      sync.Mutex
	forks   int
	held    int
	retired bool
	broken  bool
	ended   map[int]chan message // by pid
	gone    chan struct{}        // closed when the init is gone
}

// templateID is the user of the template in its own namespace, where that has a
// block of ids.
const templateID = 1

// kernelPerFork is about how much memory the kernel needs for the namespaces and page
// tables of one fork. It charges them to the template, because they are made before the
// fork can join its own cgroup. 500 forks used 512 MiB in a measurement.
const kernelPerFork = 2 << 20

// startGeneration starts a template process and boots it.
func (p *Provider) startGeneration(ctx context.Context, spec sandbox.Spec, boot string) (*generation, error) {
	g := &generation{p: p, born: time.Now(), ended: map[int]chan message{}, gone: make(chan struct{})}
	var err error
	if g.block, err = p.templateIDs.take(); err != nil {
		return nil, err
	}
	g.ids = newIDs(&p.machine, templateID+1, 1, idsPerTemplate-templateID-1, 0)
	spec.Stdin, spec.Stdout, spec.Stderr, spec.Channel, spec.ServeEgress = nil, &g.output, &g.output, nil, nil
	spec.Limits.Stdout, spec.Limits.Stderr = 8<<10, 8<<10
	spec.Limits.Memory += idsPerTemplate * kernelPerFork
	g.host = &run{p: p, spec: &spec, flood: make(chan struct{}, 2), initTasks: p.machine.initTasks()}
	if err := g.boot(ctx, boot); err != nil {
		if g.control != nil {
			err = errors.Join(err, g.control.Close())
		}
		err = errors.Join(err, g.host.tearDown())
		p.templateIDs.free(g.block)
		return nil, g.quote(err)
	}
	go g.listen()
	return g, nil
}

// boot starts the init and the interpreter, and waits until it is warm.
func (g *generation) boot(ctx context.Context, boot string) error {
	r := g.host
	theirs, err := r.openAs(g.block)
	defer func() { closeFiles(theirs) }()
	if err != nil {
		return err
	}
	control, far, err := wire.Pair()
	if err != nil {
		return err
	}
	g.control = control
	theirs = append(theirs, far)
	defer r.closePlanFDs()
	req, err := g.request()
	if err != nil {
		return err
	}
	if err := r.spawn(g.p.machine.namespacesOfTemplate(r.spec.Network, g.block)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, r.init.kill)
	defer stop()
	if err := r.start(ctx, req, theirs); err != nil {
		return err
	}
	closeFiles(theirs)
	theirs = nil
	if err := g.load(boot); err != nil {
		return fmt.Errorf("boot template: %w", err)
	}
	return nil
}

// load sends the interpreter what it is to boot, and the loop of its forks.
func (g *generation) load(boot string) error {
	err := g.control.Send(templateConfig{Boot: boot, Code: forkprog.Code(),
		Loop: forkprog.LoopSize, Order: forkprog.OrderSize})
	if err != nil {
		return err
	}
	m, err := g.answer()
	if err != nil {
		return err
	}
	var program []byte
	if g.loop, program, err = forkprog.NewLoop(m.Areas); err != nil {
		return err
	}
	if err := g.control.Send(templateProgram{Program: program, Socket: g.loop.Socket()}); err != nil {
		return err
	}
	if _, err := g.answer(); err != nil {
		return err
	}
	return g.planForks()
}

// answer receives that the template has done what it was told.
func (g *generation) answer() (m templateMessage, err error) {
	if _, err := g.control.Recv(&m); err != nil {
		return m, err
	}
	if m.Kind != msgReady {
		return m, errors.New(m.Error)
	}
	return m, nil
}

// request plans the template itself. It has its own root, runs no program of a tenant, and
// may make namespaces below its own. It is not under Landlock, which forbids mounting.
func (g *generation) request() (request, error) {
	r, p := g.host, g.p
	pl := plan.Plan{}
	trees, err := p.root(&pl, r.spec)
	if err != nil {
		return request{}, err
	}
	pl.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "subset=pid,hidepid=invisible")
	p.machine.planHostname(&pl)
	pl.Pivot()
	pl.Attr("/", attrReadOnly, false)
	pl.Prctl("dumpable", unix.PR_SET_DUMPABLE, 0)
	if err := r.openPlanFDs(&pl, trees); err != nil {
		return request{}, err
	}
	pl.Setsid()
	pl.Rlimit("core", unix.RLIMIT_CORE, 0, 0)
	pl.OpenFiles(ownLimit(unix.RLIMIT_NOFILE)) // it sends descriptors, see there
	pl.NoNewPrivs()
	if err := p.planFilter(&pl, filter.Config{Template: true}); err != nil {
		return request{}, err
	}
	return request{
		Plan: pl, Argv: append(slices.Clone(r.spec.Argv), "-c", forkSource), Env: r.spec.Env, Files: 4, Stay: true,
	}, nil
}

// templateConfig is the first message to a template.
type templateConfig struct {
	Boot string `json:"boot"`
	Code []byte `json:"code"`
	// Loop and Order are the sizes of the areas.
	Loop  int `json:"loop"`
	Order int `json:"order"`
}

// templateProgram is the second.
type templateProgram struct {
	Program []byte `json:"program"`
	Socket  uint64 `json:"socket"`
}

// A templateMessage comes from a template.
type templateMessage struct {
	message
	Areas forkprog.Areas `json:"areas"`
	Error string         `json:"error,omitempty"`
}

// planForks plans what is the same for all forks.
func (g *generation) planForks() error {
	p, spec := g.p, *g.host.spec
	spec.Limits.Memory -= idsPerTemplate * kernelPerFork
	pl := plan.Plan{}
	for _, c := range p.machine.tree.Joined() {
		pl.Join(c)
	}
	pl.Identity(insideID, insideID, p.machine.privileged)
	// A change of user makes a process unreadable to itself.
	pl.Prctl("dumpable", unix.PR_SET_DUMPABLE, 1)
	pl.Umask(0o022)
	p.machine.overlays(&pl, &spec, "/")
	private(&pl, &spec, "/", p.machine.hasProc)
	listen(&pl, &spec)
	pl.Own()
	if err := p.confine(&pl, &spec, 0); err != nil {
		return err
	}
	g.forkOf = forkprog.Fork{
		Steps: pl.Steps, Last: pl.Last, Wait: p.machine.tree.V2,
		Flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_PARENT | unix.CLONE_PIDFD,
	}
	if spec.Network != sandbox.NetworkFull {
		g.forkOf.Flags |= unix.CLONE_NEWNET
	}
	return nil
}

// quote adds the output of the template to err, for the operator.
func (g *generation) quote(err error) error {
	if text := g.output.String(); text != "" {
		return fmt.Errorf("%w (the template said: %q)", err, text)
	}
	return err
}

// hold reserves the generation for one run, unless it can make no more.
func (g *generation) hold() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken || g.retired {
		return false
	}
	g.held++
	g.forks++
	return true
}

// isBroken reports whether the process is gone, or no longer answers.
func (g *generation) isBroken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// old reports whether it is time for the next.
func (g *generation) old() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forks > forksPerTemplate || time.Since(g.born) > templateAge
}

// release undoes hold.
func (g *generation) release() {
	g.mu.Lock()
	g.held--
	last := g.retired && g.held == 0
	g.mu.Unlock()
	if last {
		g.end()
	}
}

// retire ends the process as soon as no sandbox needs its namespaces.
func (g *generation) retire() {
	g.mu.Lock()
	idle := !g.retired && g.held == 0
	g.retired = true
	g.mu.Unlock()
	if idle {
		g.end()
	}
}

// end ends the process and gives everything back.
func (g *generation) end() {
	g.host.init.kill()
	<-g.gone
	err := errors.Join(g.control.Close(), g.host.tearDown())
	g.p.templateIDs.free(g.block)
	if err != nil {
		g.p.log.Warn("a template left something behind", "err", err)
	}
}

// listen receives the messages of the init: ends of forks, and the end of the template.
func (g *generation) listen() {
	init := g.host.init
	for {
		var m message
		if _, err := init.conn.Recv(&m); err != nil {
			break
		}
		switch m.Kind {
		case msgEnded, msgLimit, msgIdle, msgUnmetered:
			g.forward(m)
		}
	}
	init.kill()
	_ = init.wait() // tearDown reports it
	g.mu.Lock()
	g.broken = true
	g.mu.Unlock()
	close(g.gone)
}

// forward passes a message on to its run. One that is not the end and has no run comes from a meter that was looking
// when its process ended: it must not wait for the next process of this number.
func (g *generation) forward(m message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// An init that cannot read one of its processes may read none of the next: they get another template.
	g.broken = g.broken || m.PID == g.host.pid || m.Kind == msgUnmetered
	if m.PID == g.host.pid {
		return
	}
	if m.Kind == msgEnded {
		g.meet(m.PID) <- m
	} else if c := g.ended[m.PID]; c != nil {
		c <- m
	}
}

// meet returns the channel for the messages about a fork. It is called by the run of the fork, and at the end of its
// process, in any order. The second of them drops the channel, so that the next process of this number has its own.
// Preconditions: g.mu is held.
func (g *generation) meet(pid int) chan message {
	c, second := g.ended[pid]
	if second {
		delete(g.ended, pid)
		return c
	}
	c = make(chan message, 4) // idle, a limit while idle, a limit or that nothing limits it, and the end
	g.ended[pid] = c
	return c
}

// A lockedBuffer is written by two output readers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String returns what was written, as one line.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}
