package local

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/internal/collect"
	"haft/sandbox/local/internal/cgroup"
)

// A subject is what a run supervises: the command, and everything it starts.
type subject struct {
	// signal sends a signal to the command, kill ends everything.
	signal func(unix.Signal)
	kill   func()
	// watch begins to meter, where the run has no cgroup, or meters by other limits.
	// Metered says that the run has been metered from its start.
	startMeter func(*watch)
	metered    bool
	// messages are those of the init; gone is closed when nothing is alive.
	messages <-chan message
	gone     <-chan struct{}
}

// attached listens to the init of a cold run.
func (r *run) attached() subject {
	messages, gone := make(chan message, 4), make(chan struct{})
	s := subject{
		signal:     func(s unix.Signal) { _ = r.init.conn.Send(command{Signal: int(s)}) }, // gone is as good
		kill:       r.killer(),
		startMeter: func(w *watch) { _ = r.init.conn.Send(command{Watch: w}) }, // gone is as good
		metered:    true,
		messages:   messages,
		gone:       gone,
	}
	guest := r.attachGuest(&s, messages)
	go func() {
		for {
			var m message
			if _, err := r.init.conn.Recv(&m); err != nil {
				break // the init has ended
			}
			if guest != nil && m.Kind == msgEnded {
				s.kill() // the kernel has ended; only the guest knows how the command did
				continue
			}
			messages <- m
		}
		_ = r.init.wait() // tearDown reports it
		if guest != nil {
			<-guest
		}
		close(gone)
	}()
	return s
}

// A guard supervises one command. A channel is nil if its event is no longer expected.
type guard struct {
	r *run
	s subject
	a account

	started  time.Time
	base     time.Duration // processor time before the call began, or the command became idle
	pace     time.Duration // between two looks at the meters
	phase    phase
	begin    <-chan struct{}
	ready    <-chan struct{} // Spec.Prepared
	finish   <-chan struct{}
	done     <-chan struct{}
	wall     <-chan time.Time
	kill     <-chan time.Time
	meter    *time.Timer
	reported *sandbox.Exit // that Spec.Ended was called with
	// exitDelayed says that the exit of the command is delayed.
	exitDelayed bool
}

// A phase is what a command is doing.
type phase int

// The phases. A command without Spec.Begin is running from its start.
const (
	preparing phase = iota // it boots and imports
	idle                   // it waits for its call
	running                // its call
)

// What an idle command may do: the harness compiles a source that it gets.
const (
	idleCPU  = time.Second
	idlePace = 5 * time.Second // between two looks, at most
)

// supervise waits for the end of a running command, ends it when a limit is hit or the
// caller asks for it, and returns how it ended.
func (r *run) supervise(ctx context.Context, s subject) sandbox.Exit {
	g := &guard{
		r: r, s: s, started: time.Now(), meter: time.NewTimer(time.Hour),
		begin: r.spec.Begin, ready: r.spec.Prepared, finish: r.spec.Finish, done: ctx.Done(),
	}
	defer g.meter.Stop()
	if g.begin == nil {
		g.start()
	} else {
		g.pace = 100 * time.Millisecond
		g.meter.Reset(g.pace)
		g.startMeter()
	}
	for {
		select {
		case <-g.begin:
			g.start()
		case <-g.ready:
			g.becomeIdle()
		case <-g.wall:
			g.stop(sandbox.CauseTimeout, haft.FailTimeout)
		case <-g.done:
			g.done = nil
			if g.stop(sandbox.CauseCancelled, ""); errors.Is(context.Cause(ctx), sandbox.ErrNoGrace) {
				s.kill()
			}
		case <-g.kill:
			g.endExitDelay()
			s.kill()
		case <-r.flood:
			g.stop(sandbox.CauseLimit, haft.FailOutput)
		case <-g.meter.C:
			g.checkMeters(r.group.ReadCPU())
		case <-g.finish:
			g.finished()
		case m := <-s.messages:
			g.handle(m)
		case <-s.gone:
			g.endExitDelay()
			return g.end()
		}
	}
}

// start starts the clock.
func (g *guard) start() {
	waited, idle := g.begin != nil, g.phase == idle
	g.begin, g.ready, g.phase = nil, nil, running
	cpu := g.r.group.ReadCPU()
	g.started, g.base = time.Now(), cpu
	if g.r.spec.Metered != nil {
		g.r.spec.Metered(g.r.group.MeterCPU())
	}
	g.wall = time.After(g.r.spec.Limits.Wall.D())
	if waited && !idle || g.r.kernel != nil && !waited { // a kernel has used more than most commands until now
		g.resetUsage(cpu)
	}
	if g.pace = 50 * time.Millisecond; waited || !g.s.metered {
		g.startMeter()
	}
	g.meter.Reset(g.pace)
	g.r.group.Watch() // while the command runs
}

// resetUsage excludes what was used until now from the usage of the call: cpu is the processor
// time that the cgroup has counted. It is best done while the command is idle: a short call can
// be over before this process sees its beginning.
func (g *guard) resetUsage(cpu time.Duration) {
	g.r.base = cpu
	g.r.gauge.begin()
}

// becomeIdle allows a command that has prepared itself only to wait: its imports may have
// started processes and threads.
func (g *guard) becomeIdle() {
	if g.a.stop != "" {
		return
	}
	cpu := g.r.group.ReadCPU()
	g.ready, g.phase, g.base, g.pace = nil, idle, cpu, 100*time.Millisecond
	metered := g.startMeter() // and then the init reports that it has looked
	if g.checkMeters(cpu); !metered {
		g.reportIdle()
	}
}

// reportIdle reports to the caller that an idle command is one process.
func (g *guard) reportIdle() {
	if g.phase == idle && g.a.stop == "" && g.r.spec.Idle != nil {
		g.r.spec.Idle()
	}
}

// startMeter makes the init meter by the limits of the phase, where there is no cgroup. It
// reports whether the init does.
func (g *guard) startMeter() bool {
	w := g.r.watch()
	if w == nil {
		return false
	}
	if w.Reap = !g.r.p.machine.namespaces; g.phase == idle {
		w.Idle, w.CPU = true, min(w.CPU, idleCPU)
	}
	g.s.startMeter(w)
	return true
}

// stop ends the command, for the first reason that there is.
func (g *guard) stop(cause sandbox.Cause, limit haft.FailureKind) {
	first := g.setCause(cause, limit)
	switch {
	case cause == sandbox.CauseLimit || cause == sandbox.CauseUnmetered: // also in the grace time
		g.s.kill()
	case first:
		g.s.signal(unix.SIGTERM)
		g.kill = time.After(g.r.spec.Limits.Grace.D())
	}
}

// setCause sets why the command is ended, and reports whether there was no cause before.
func (g *guard) setCause(cause sandbox.Cause, limit haft.FailureKind) bool {
	if g.a.stop != "" {
		return false
	}
	g.a.stop, g.a.limit = cause, limit
	g.wall, g.begin, g.ready = nil, nil, nil
	return true
}

// checkMeters reads the meters but that of processor time, which shows cpu, ends the command if
// it exceeds a limit, and sets when to read them again.
func (g *guard) checkMeters(cpu time.Duration) {
	most := g.r.spec.Limits.CPU.D()
	if g.phase == idle {
		most = idleCPU
	}
	limit := g.r.over(cpu-g.base, most)
	if g.phase == idle && g.r.kernel == nil && g.r.group.Processes() > g.r.initProcesses()+1 {
		limit = haft.FailPIDs
	}
	if limit != "" && g.phase == idle && g.begun() {
		return
	}
	if limit != "" {
		g.stop(sandbox.CauseLimit, limit)
	}
	if g.phase == idle {
		g.resetUsage(cpu)
		g.pace = min(g.pace*2, idlePace)
		g.meter.Reset(g.pace)
		return
	}
	g.pace = min(g.pace*2, 500*time.Millisecond)
	g.meter.Reset(untilCPU(most-(cpu-g.base), g.pace))
}

// begun reports whether the call has begun, perhaps before something was measured of a command that
// is taken for idle: then it may work. It starts the clock if that is not done yet.
func (g *guard) begun() bool {
	if g.phase == idle {
		select {
		case <-g.begin:
			g.start()
		default:
		}
	}
	return g.phase == running
}

// initProcesses is how many processes in the cgroup of the run are ours.
func (r *run) initProcesses() int {
	if r.init == nil || !r.p.machine.namespaces && !r.p.machine.tree.V2 {
		return 0 // in the reduced mode only the command joins, but for version 2
	}
	return 1
}

// exitDelay is how long a command that can do nothing any more may live after Ended.
// Exiting takes as much processor time as recording the result, and the kernel often
// schedules both on the same processor. It is for a machine with little load: no more
// exits are delayed at once than there are processors.
const exitDelay = 2 * time.Millisecond

// finished ends the command because the caller has its result, and calls Ended without
// waiting for the end, unless there are files to collect first.
func (g *guard) finished() {
	g.finish = nil
	select {
	case <-g.begin: // which came first
		g.start()
	default:
	}
	if !g.setCause(sandbox.CauseFinished, "") {
		g.s.kill() // the caller has the answer of a handler, and needs no more of the grace time
		return
	}
	r := g.r
	if r.spec.Ended == nil || r.spec.Collect && (r.private == nil ||
		collect.Any(r.private, "work", r.spec.GivenFiles())) {
		g.s.kill()
		return
	}
	r.empty = true
	// The output of a program that lives may have no end, and its writer may block, so
	// that only a program without output is left alive meanwhile.
	quiet := g.harmless() && r.stdout.stopIfEmpty() && r.stderr.stopIfEmpty()
	if !quiet {
		r.measure(!r.p.machine.tree.Has(cgroup.CPU)) // what is dying has no memory any more
		g.s.kill()
		r.egress.close()
		r.stdout.drain()
		r.stderr.drain()
	}
	e := r.exit(g.a, g.started, time.Now())
	switch {
	case quiet && e.Usage.Processes == 1 && g.delayExit():
		g.kill = time.After(exitDelay)
	case quiet:
		g.s.kill()
	}
	r.spec.Ended(e)
	g.reported = &e
}

// harmless reports whether the command has no effect outside once its output is no longer
// read. It is false for a cold run, whose caller waits for its end anyway, so that a delay
// would gain nothing.
func (g *guard) harmless() bool {
	writable := slices.ContainsFunc(g.r.spec.Mounts, func(m sandbox.Mount) bool { return m.Writable })
	return g.r.init == nil && g.r.spec.Network == sandbox.NetworkNone && !writable
}

// delayExit reports whether the exit of the command is delayed: not if too many are.
func (g *guard) delayExit() bool {
	if n := g.r.p.exiting.Add(1); int(n) > runtime.GOMAXPROCS(0) {
		g.r.p.exiting.Add(-1)
		return false
	}
	g.exitDelayed = true
	return true
}

// endExitDelay ends the delay.
func (g *guard) endExitDelay() {
	if g.exitDelayed {
		g.r.p.exiting.Add(-1)
		g.exitDelayed = false
	}
}

// handle handles a message of the init.
func (g *guard) handle(m message) {
	g.r.keepReadings(m)
	switch m.Kind {
	case msgEnded:
		g.a.status, g.a.known = syscall.WaitStatus(m.Status), true
		g.s.kill() // the others end with the command
	case msgIdle:
		g.reportIdle()
	case msgLimit:
		if !m.Idle || !g.begun() {
			g.stop(sandbox.CauseLimit, haft.FailureKind(m.Limit))
		}
	case msgUnmetered:
		g.stop(sandbox.CauseUnmetered, "")
	}
}

// end returns how a run ended. All of its processes are gone.
func (g *guard) end() sandbox.Exit {
	for more := true; more; {
		select {
		case m := <-g.s.messages:
			g.handle(m)
		default:
			more = false
		}
	}
	if g.r.init != nil {
		g.r.keepReadings(g.r.init.used) // what was killed with the init counts, too
	}
	return g.finishRun()
}

// finishRun collects the output and returns how a run ended: as was reported, if it was. All
// of its processes are gone.
func (g *guard) finishRun() sandbox.Exit {
	end, r := time.Now(), g.r
	r.egress.close()
	r.stdout.drain()
	r.stderr.drain()
	if g.reported != nil {
		return *g.reported
	}
	e := r.exit(g.a, g.started, end)
	if r.spec.Ended != nil {
		r.spec.Ended(e)
	}
	return e
}

// over names the limit that is exceeded, of a command that used processor time and may use most.
func (r *run) over(used, most time.Duration) haft.FailureKind {
	if used > most {
		return haft.FailCPU
	}
	if r.group.Refused() > refusedForks {
		return haft.FailPIDs
	}
	return ""
}

// refusedForks is after how many refusals a run is taken for a fork bomb. Fewer
// are judged at its end.
const refusedForks = 16

// untilCPU returns when to look at the processor time again, of which there is some left: not before
// the limit can have been reached on all processors, and at most a pace from now.
func untilCPU(left, pace time.Duration) time.Duration {
	return min(max(left/time.Duration(runtime.NumCPU()), 10*time.Millisecond), pace)
}

// keepReadings keeps the highest readings of an init.
func (r *run) keepReadings(m message) {
	r.inside.CPU, r.inside.RSS, r.inside.Peak = max(r.inside.CPU, m.CPU), max(r.inside.RSS, m.RSS),
		max(r.inside.Peak, m.Peak)
}

// measure reads the gauge of the command, if that lives.
func (r *run) measure(times bool) {
	r.observer.countIO()
	cpu, rss := r.gauge.read(times)
	r.usedCPU, r.usedRSS = max(r.usedCPU, cpu), max(r.usedRSS, rss)
}

// exit returns all that is known about the end of the run.
func (r *run) exit(a account, started, end time.Time) sandbox.Exit {
	used := r.group.Read()
	if a.stop == "" {
		a.oom, a.refused = r.group.OOM(), r.group.Refused()
	}
	e := sandbox.Exit{Isolation: r.isolation(), Started: started}
	// If the cgroup has counted nothing, there is none, or the command is still in its first
	// time slice, which is counted at its end.
	counted := used.CPU - r.base
	r.measure(counted <= 0)
	e.Touched = r.observer.touched()
	e.Usage = haft.Usage{
		Wall:      haft.Millis(end.Sub(started)),
		CPU:       haft.Millis(max(counted, r.usedCPU, r.gauge.since(time.Duration(r.inside.CPU)))),
		MaxRSS:    max(used.Memory, r.inside.RSS, r.usedRSS),
		Processes: r.processes(used.PIDs),
		Stdout:    r.stdout.total, Stderr: r.stderr.total,
	}
	e.DroppedStdout, e.DroppedStderr = r.stdout.total-r.stdout.kept, r.stderr.total-r.stderr.kept
	if r.private != nil && r.p.machine.namespaces {
		d := collect.Usage(r.private)
		e.Usage.Disk, a.diskFull, a.inodesFull = d.Bytes, d.BytesFull, d.InodesFull
	}
	a.judge(&e)
	if r.spec.Collect && r.private != nil && !r.empty {
		e.Artifacts, e.ArtifactsCut = collect.Artifacts(r.private, "work", r.spec.GivenFiles(),
			r.spec.Limits.Artifacts, r.spec.Limits.ArtBytes)
	}
	return e
}

// isolation says what this run is confined by.
func (r *run) isolation() haft.Isolation {
	i := r.p.machine.isolation
	if r.spec.Network == sandbox.NetworkFull {
		i = without(i, haft.ControlNetNS, "the run was given the host's network")
	}
	return i
}
