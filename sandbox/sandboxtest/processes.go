package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
)

// prompt is how long after its deadline a program lives at most, on any machine: one that is left alone lives for
// a minute. How long it really was, at most 100 ms on a quiet machine, is among the figures of the suite.
const prompt = 5 * time.Second

// processCases attack with processes and time.
func processCases() []Case {
	return slices.Concat(bombCases(), stubbornCases(), survivorCases(), clockCases())
}

// bombCases make as many processes as they can.
func bombCases() []Case {
	return []Case{{
		Name: "fork_bomb_hits_pids_limit", Group: Processes, Needs: controls(haft.ControlPIDs),
		Story:   "A shell that starts itself without end meets the limit of processes, which the exit names.",
		Spec:    limits(func(l *haft.Limits) { l.Wall = haft.Millis(5 * time.Second) }),
		Program: sh(`f() { f | f & f; }; f`),
		Check:   hits(haft.FailPIDs),
	}, {
		Name: "python_fork_bomb_hits_pids_limit", Group: Processes, Needs: controls(haft.ControlPIDs),
		Story:   "A loop of forks meets the limit of processes.",
		Spec:    limits(func(l *haft.Limits) { l.Wall = haft.Millis(5 * time.Second) }),
		Program: py("while True: os.fork()"),
		Check:   hits(haft.FailPIDs),
	}, {
		Name: "tireless_fork_bomb_dies_with_all_its_children", Group: Processes, Any: counted(),
		Alone:   true,
		Story:   "A bomb that goes on after the limit is killed at the deadline, and every process of it.",
		Spec:    limits(func(l *haft.Limits) { l.Wall = haft.Millis(500 * time.Millisecond) }),
		Program: py(tireless),
		Check: func(o Outcome) error {
			if o.Took > 10*time.Second {
				return fmt.Errorf("it took %v to get rid of it", o.Took)
			}
			return caused(sandbox.CauseTimeout, sandbox.CauseLimit)(o)
		},
	}, {
		Name: "thread_bomb_hits_pids_limit", Group: Processes, Needs: controls(haft.ControlPIDs),
		Story: "Ten thousand threads meet the same limit.",
		Program: py(`import threading
threading.stack_size(65536)
for _ in range(10000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()`),
		Check: hits(haft.FailPIDs),
	}}
}

// tireless is a fork bomb in sessions of its own that ignores signals and refusals.
const tireless = `import signal
for s in (15, 2, 1): signal.signal(s, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass`

// stubbornCases are bombs that go on when they are refused. They are ended in every mode
// that confines, also where no cgroup counts processes and the user has others.
func stubbornCases() []Case {
	soon := func(o Outcome) error {
		if o.Took > 30*time.Second {
			return fmt.Errorf("it took %v to get rid of it", o.Took)
		}
		return hits(haft.FailPIDs)(o)
	}
	// What meets the limit of processes uses all processors meanwhile: the limits of time are far away.
	far := limits(func(l *haft.Limits) { l.CPU, l.Wall = haft.Millis(time.Minute), haft.Millis(time.Minute) })
	return []Case{{
		Name: "stubborn_fork_bomb_is_ended_by_name", Group: Processes, Needs: controls(haft.ControlSeccomp),
		Alone: true,
		Story: "A fork bomb in sessions of its own that ignores signals and refusals is ended by the limit of " +
			"processes, and leaves nothing.",
		// Where a meter adds up what processes share, they would meet the limit of memory first.
		Spec:    func(s *sandbox.Spec) { far(s); s.Limits.Memory = 8 << 30 },
		Program: py(tireless),
		Check:   soon,
	}, {
		Name: "stubborn_thread_bomb_is_ended_by_name", Group: Processes, Needs: controls(haft.ControlSeccomp),
		Alone: true,
		Story: "Threads are counted like processes: a program that starts them without end is ended by the same limit.",
		Spec:  far,
		Program: py(`import threading
threading.stack_size(65536)
while True:
    try: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError: time.sleep(0.001)`),
		Check: soon,
	}}
}

// survivorCases try to live longer than the run, to be more than the limit, or to have a
// higher priority than others.
func survivorCases() []Case {
	return []Case{{
		Name: "daemon_dies_with_the_call", Group: Processes, Any: controls(haft.ControlPIDNS, haft.ControlPIDs),
		Alone: true,
		Story: "A process that forks twice into a session of its own and closes everything does not outlive " +
			"the call.",
		Program: py(daemon + "time.sleep(60)"),
		Check:   all(exits(0), quickly),
	}, {
		Name: "daemon_that_keeps_the_output_open_delays_nothing", Group: Processes,
		Any: controls(haft.ControlPIDNS, haft.ControlPIDs), Alone: true,
		Story:   "A process that stays behind with stdout in its hand does not keep the call from ending.",
		Program: sh(`setsid sleep 60 & echo started`),
		Check:   all(prints("started\n"), quickly),
	}, {
		Name: "orphans_do_not_pile_up", Group: Processes, Needs: controls(haft.ControlPIDNS),
		Story: "Children whose parents are gone are reaped, so that zombies do not eat the limit of processes.",
		Program: py(`for _ in range(60):
    time.sleep(0.005)
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
    try: # those who are the first process inherit the orphans
        while os.getpid() == 1 and os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
say('alive')`),
		Check: prints("alive\n"),
	}, {
		Name: "limit_that_was_survived_is_no_end", Group: Processes, Any: counted(),
		Story: "A program that meets a limit, deals with it and ends well has ended by itself.",
		Program: py(`children = []
try:
    while True:
        pid = os.fork()
        if pid == 0: time.sleep(60)
        children.append(pid)
except OSError: pass
for pid in children: os.kill(pid, 9); os.waitpid(pid, 0)
say('fine')`),
		Check: prints("fine\n"),
	}, {
		Name: "limits_cannot_be_raised", Group: Processes, Needs: controls(haft.ControlRlimits, haft.ControlCaps),
		Story: "A program may lower its limits but never raise them.",
		Program: py(`import resource as r
for name in ('NOFILE', 'FSIZE', 'CORE', 'CPU'):
    n = getattr(r, 'RLIMIT_' + name)
    def up():
        try: r.setrlimit(n, (r.RLIM_INFINITY, r.RLIM_INFINITY))
        except ValueError: raise PermissionError(1, '')
    attempt(name, up)`),
		Check: refused(deniedCall, "NOFILE", "FSIZE", "CORE", "CPU"),
	}, {
		Name: "priority_cannot_be_raised", Group: Processes, Needs: controls(haft.ControlCaps),
		Guest: madeUp,
		Story: "No better place in the scheduler, and no protection from the memory killer.",
		Program: py(`attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt('realtime', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
def adj():
    with open('/proc/self/oom_score_adj', 'w') as f: f.write('-1000')
attempt('oom', adj)`),
		Check: refused(append([]string{"ENOENT", "EROFS"}, deniedCall...), "nice", "realtime", "oom"),
	}}
}

// daemon is the beginning of a program that goes on in the background, in its own session.
const daemon = `
r, w = os.pipe()
if os.fork(): os.read(r, 1); os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.write(w, b'x')
os.closerange(0, 64)
`

// clockCases are about deadlines.
func clockCases() []Case {
	wall := func(d time.Duration) func(*sandbox.Spec) {
		return limits(func(l *haft.Limits) { l.Wall = haft.Millis(d) })
	}
	return []Case{{
		Name: "sleeper_meets_the_wall_limit", Group: Processes, Timed: true,
		Story: "A program that sleeps and uses nothing ends at its deadline.", Spec: wall(200 * time.Millisecond),
		Program: sh(`sleep 60`), Check: onTime(200 * time.Millisecond),
	}, {
		Name: "deadline_is_announced_with_sigterm", Group: Processes, Timed: true,
		Story: "At the deadline a program has a moment to say goodbye.", Spec: wall(300 * time.Millisecond),
		Program: sh(`trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done`),
		Check:   all(onTime(300*time.Millisecond), func(o Outcome) error { return want("stdout", o.Stdout, "bye\n") }),
	}, {
		Name: "program_that_ignores_sigterm_is_killed", Group: Processes, Timed: true,
		Story: "Whatever a program traps, it is dead soon after its deadline.", Spec: wall(200 * time.Millisecond),
		Program: py("import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except " +
			"(OSError, ValueError): pass\nwhile True: time.sleep(60)"),
		Check: onTime(200 * time.Millisecond),
	}, {
		Name: "stopped_program_is_killed", Group: Processes, Timed: true,
		Story:   "A program that stops itself cannot hear SIGTERM, and dies at its deadline all the same.",
		Spec:    wall(200 * time.Millisecond),
		Program: sh(`kill -STOP $$; sleep 60`), Check: onTime(200 * time.Millisecond),
	}, {
		Name: "busy_program_meets_the_wall_limit", Group: Processes, Timed: true,
		Story:   "A busy loop whose deadline is nearer than its limit of processor time ends at the deadline.",
		Spec:    wall(300 * time.Millisecond),
		Program: sh(`while :; do :; done`), Check: onTime(300 * time.Millisecond),
	}, {
		Name: "busy_program_meets_the_cpu_limit", Group: Processes, Any: controls(haft.ControlCPU, haft.ControlRlimits),
		Story:   "A busy loop uses its processor time up, and the exit names that limit and what was used.",
		Spec:    limits(func(l *haft.Limits) { l.CPU, l.Wall = haft.Millis(time.Second), haft.Millis(time.Minute) }),
		Program: sh(`while :; do :; done`),
		Check: all(hits(haft.FailCPU), func(o Outcome) error {
			if cpu := o.Exit.Usage.CPU.D(); cpu < 900*time.Millisecond || cpu > 2*time.Second {
				return fmt.Errorf("it used %v of 1s", cpu)
			}
			return nil
		}),
	}, {
		Name: "cpu_limit_counts_all_processes_together", Group: Processes, Needs: controls(haft.ControlCPU),
		Timed: true,
		Story: "Processor time cannot be multiplied by forking.",
		Spec:  limits(func(l *haft.Limits) { l.CPU = haft.Millis(time.Second) }),
		Program: py(`for _ in range(4):
    if os.fork() == 0:
        end = time.process_time() + 0.7
        while time.process_time() < end: pass
        os._exit(0)
for _ in range(4): os.wait()
say('all had their time')`),
		Check: hits(haft.FailCPU),
	}, {
		Name: "processes_and_cgroups_are_gone_after_the_call", Group: Processes, Needs: controls(haft.ControlPIDs),
		Alone: true,
		Story: "When Run returns, the cgroups of the call are removed.", Do: cgroupsGone,
	}, {
		Name: "neighbours_are_not_slowed_by_a_bomb", Group: Processes,
		Needs: controls(haft.ControlCPU), Any: counted(), Timed: true,
		Story: "While a bomb goes off, other calls are served.", Do: besideBomb,
	}, {
		Name: "stack_overflow_is_told", Group: Processes,
		Story: "A program whose stack runs out ends by a signal or an error of its own, and the next call works.",
		Spec: limits(func(l *haft.Limits) { // a guest kernel takes seconds to make a stack grow
			l.Wall, l.CPU = haft.Millis(25*time.Second), haft.Millis(20*time.Second)
		}),
		Program: py("sys.setrecursionlimit(1 << 30)\nl = []\nfor _ in range(1 << 20): l = [l]\nrepr(l)"),
		Check: func(o Outcome) error {
			if o.Exit.Cause == sandbox.CauseExit && strings.Contains(o.Stderr, "RecursionError") {
				return nil
			}
			if o.Exit.Signal != int(syscall.SIGSEGV) {
				return fmt.Errorf("signal %d, want %d", o.Exit.Signal, syscall.SIGSEGV)
			}
			return caused(sandbox.CauseSignal)(o)
		},
	}}
}

// onTime wants a timeout, and the end within [prompt] of it, not before it.
func onTime(wall time.Duration) func(Outcome) error {
	return func(o Outcome) error {
		if err := caused(sandbox.CauseTimeout)(o); err != nil {
			return err
		}
		if u := o.Exit.Usage.Wall.D(); u < wall-5*time.Millisecond || u > wall+prompt {
			return fmt.Errorf("it ran %v, want between %v and %v", u, wall, wall+prompt)
		}
		if o.Took > wall+2*prompt { // with the making of the sandbox
			return fmt.Errorf("Run took %v for a limit of %v", o.Took, wall)
		}
		return nil
	}
}

// quickly wants Run not to have waited for processes that were left behind.
func quickly(o Outcome) error {
	if o.Took > prompt {
		return fmt.Errorf("Run took %v", o.Took)
	}
	return nil
}

// cgroupsGone looks at the cgroups of a running program from outside, and again
// when it is over.
func cgroupsGone(ctx context.Context, b *Bench) error {
	live, err := b.Start(ctx, py("tell('ready'); line()"), nil)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	theirs, err := ownGroups(live.token)
	if err != nil {
		return err
	}
	if len(theirs) == 0 {
		return errors.New("a cgroup is promised, but the program is in none of its own")
	}
	if err := live.Say("end"); err != nil {
		return err
	}
	o := live.Wait()
	if err := errors.Join(exits(0)(o), left(live.token)); err != nil {
		return err
	}
	return removed(theirs)
}

// ownGroups returns the cgroups that the processes of a run have to themselves.
func ownGroups(token string) ([]string, error) {
	pids, err := marked(token)
	if err != nil {
		return nil, fmt.Errorf("find its processes: %w", err)
	}
	if len(pids) == 0 {
		return nil, errors.New("its processes cannot be found")
	}
	ours, err := cgroupsOf(syscall.Getpid())
	if err != nil {
		return nil, err
	}
	theirs, err := cgroupsOf(pids[len(pids)-1])
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(theirs, func(d string) bool { return slices.Contains(ours, d) }), nil
}

// besideBomb calls a program while another one is a fork bomb.
func besideBomb(ctx context.Context, b *Bench) error {
	live, err := b.Start(ctx, py(`tell('ready')
while True:
    try: os.fork()
    except OSError: pass`), limits(func(l *haft.Limits) { l.Wall = haft.Millis(2 * time.Second) }))
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	var slow error
	for range 3 {
		o := b.Run(ctx, sh("echo fine"), nil)
		if err := prints("fine\n")(o); err != nil {
			slow = err
		} else if o.Took > prompt {
			slow = fmt.Errorf("a call took %v beside a bomb", o.Took)
		}
	}
	return errors.Join(slow, live.Wait().Err, left(live.token))
}
