package local

import (
	"context"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/collect"
)

// grace is how long a command has between SIGTERM and SIGKILL. With the killing
// itself it stays below the 100 ms that are promised.
const grace = 50 * time.Millisecond

// A subject is what a run supervises: the command, and everything it starts.
type subject struct {
	// signal sends a signal to the command, kill ends everything.
	signal func(unix.Signal)
	kill   func()
	// watch begins to meter, where the run has no cgroup and was not metered from
	// its start.
	watch func(*watch)
	// messages are those of the init; gone is closed when nothing is alive.
	messages <-chan message
	gone     <-chan struct{}
}

// attached listens to the init of a cold run.
func (r *run) attached() subject {
	messages, gone := make(chan message, 4), make(chan struct{})
	go func() {
		for {
			var m message
			if _, err := r.init.conn.Recv(&m); err != nil {
				break // the init has ended
			}
			messages <- m
		}
		r.init.waitErr = r.init.wait()
		r.init.waited = true
		close(gone)
	}()
	return subject{
		signal:   func(s unix.Signal) { _ = r.init.conn.Send(command{Signal: int(s)}) }, // gone is as good
		kill:     r.killer(),
		messages: messages,
		gone:     gone,
	}
}

// supervise watches over a command that runs, ends it when a limit is hit or the
// caller says so, and says how it ended.
func (r *run) supervise(ctx context.Context, s subject) sandbox.Exit {
	started := time.Now()
	begin, finish, done := r.spec.Begin, r.spec.Finish, ctx.Done()
	var wall, kill <-chan time.Time
	meter := time.NewTimer(time.Hour)
	defer meter.Stop()
	var base time.Duration // processor time before the call began
	var pace time.Duration
	start := func() {
		begin = nil
		started, base, pace = time.Now(), r.group.ReadCPU(), 50*time.Millisecond
		wall = time.After(r.spec.Limits.Wall.D())
		meter.Reset(pace)
		if w := r.p.watch(r.spec.Limits); w != nil && s.watch != nil {
			s.watch(w)
		}
	}
	if begin == nil {
		start()
	}
	var a account
	stop := func(cause sandbox.Cause, limit haft.FailureKind) {
		if a.stop != "" {
			return
		}
		a.stop, a.limit = cause, limit
		wall, done, begin = nil, nil, nil
		if cause == sandbox.CauseFinished || cause == sandbox.CauseLimit {
			s.kill()
			return
		}
		s.signal(unix.SIGTERM)
		kill = time.After(grace)
	}
	ended, told := false, false
	for {
		select {
		case <-begin:
			start()
		case <-wall:
			stop(sandbox.CauseTimeout, haft.FailTimeout)
		case <-done:
			stop(sandbox.CauseCancelled, "")
		case <-kill:
			s.kill()
		case <-r.flood:
			stop(sandbox.CauseLimit, haft.FailOutput)
		case <-meter.C:
			if limit := r.over(base); limit != "" {
				stop(sandbox.CauseLimit, limit)
			}
			pace = min(pace*2, 500*time.Millisecond)
			meter.Reset(r.untilCPU(base, pace))
		case <-finish:
			finish = nil
			if stop(sandbox.CauseFinished, ""); a.stop == sandbox.CauseFinished && !r.spec.Collect && r.spec.Ended != nil {
				r.stdout.drain()
				r.stderr.drain()
				r.spec.Ended(r.exit(a, started, time.Now()))
				told = true
			}
		case m := <-s.messages:
			switch m.Kind {
			case msgEnded:
				a.status, a.known, ended = syscall.WaitStatus(m.Status), true, true
				r.note(m)
				s.kill() // the others end with the command
			case msgLimit:
				r.note(m)
				stop(sandbox.CauseLimit, haft.FailureKind(m.Limit))
			}
		case <-s.gone:
			for drained := false; !drained && !ended; {
				select {
				case m := <-s.messages:
					if m.Kind == msgEnded {
						a.status, a.known, ended = syscall.WaitStatus(m.Status), true, true
						r.note(m)
					}
				default:
					drained = true
				}
			}
			if r.init != nil {
				r.note(r.init.used) // what was killed with the init counts, too
			}
			return r.finishRun(a, started, told)
		}
	}
}

// finishRun says how a run ended, of which nothing is alive.
func (r *run) finishRun(a account, started time.Time, told bool) sandbox.Exit {
	end := time.Now()
	r.stdout.drain()
	r.stderr.drain()
	e := r.exit(a, started, end)
	if r.spec.Ended != nil && !told {
		r.spec.Ended(e)
	}
	return e
}

// over reads the meters and names the limit that is exceeded.
func (r *run) over(base time.Duration) haft.FailureKind {
	if r.group.ReadCPU()-base > r.spec.Limits.CPU.D() {
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

// untilCPU returns when to look at the processor time again: not before the limit
// can have been reached on all processors, and at most a pace from now.
func (r *run) untilCPU(base, pace time.Duration) time.Duration {
	left := (r.spec.Limits.CPU.D() - (r.group.ReadCPU() - base)) / time.Duration(runtime.NumCPU())
	return min(max(left, 10*time.Millisecond), pace)
}

// note keeps the readings of an init.
func (r *run) note(m message) {
	r.inside.CPU, r.inside.RSS, r.inside.Peak = max(r.inside.CPU, m.CPU), max(r.inside.RSS, m.RSS), max(r.inside.Peak, m.Peak)
}

// exit puts together what is known.
func (r *run) exit(a account, started, end time.Time) sandbox.Exit {
	a.cgroup = r.group.Read()
	e := sandbox.Exit{Isolation: r.isolation(), Started: started}
	e.Usage = haft.Usage{
		Wall:      haft.Millis(end.Sub(started)),
		CPU:       haft.Millis(max(a.cgroup.CPU, time.Duration(r.inside.CPU))),
		MaxRSS:    max(a.cgroup.Memory, r.inside.RSS),
		Processes: max(a.cgroup.PIDs-r.company, r.inside.Peak),
		Stdout:    r.stdout.total, Stderr: r.stderr.total,
	}
	e.DroppedStdout, e.DroppedStderr = r.stdout.total-r.stdout.kept, r.stderr.total-r.stderr.kept
	if r.private != nil && r.p.namespaces {
		d := collect.Usage(r.private)
		e.Usage.Disk, a.diskFull, a.inodesFull = d.Bytes, d.BytesFull, d.InodesFull
	}
	a.judge(&e)
	if r.spec.Collect && r.private != nil {
		e.Artifacts, e.ArtifactsCut = collect.Artifacts(r.private, "work/out", r.spec.Limits.Artifacts, r.spec.Limits.ArtBytes)
	}
	return e
}

// isolation says what this run is confined by.
func (r *run) isolation() haft.Isolation {
	i := r.p.isolation
	if r.spec.Network == sandbox.NetworkFull {
		i = without(i, haft.ControlNetNS, "the run was given the host's network")
	}
	return i
}
