package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/sandbox"
)

// idleCases are about programs that have not begun.
func idleCases() []Case {
	confined := controls(haft.ControlSeccomp) // a plain process is not metered before it begins
	return []Case{{
		Name: "limits_hold_before_begin", Group: Processes, Needs: confined, Do: busyBeforeBegin,
		Story: "A program that has not begun, and burns processor time, meets the limit of its call.",
	}, {
		Name: "idle_program_is_one_process", Group: Processes, Needs: confined, Do: idleProcesses,
		Story: "A program that is prepared and left a process behind is ended before it begins.",
	}, {
		Name: "idle_program_does_nothing", Group: Processes, Needs: confined, Do: idleBusy,
		Story: "A program that is prepared and goes on burning processor time is ended before it begins.",
	}, {
		Name: "cpu_limit_counts_children_that_nobody_waits_for", Group: Processes, Needs: confined,
		Story: "Processor time cannot be had for nothing by short children of a parent that ignores their end.",
		Spec:  limits(func(l *haft.Limits) { l.CPU, l.Wall = haft.Millis(time.Second), haft.Millis(time.Minute) }),
		Program: py(`import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    os.write(1, b'.')
    pid = os.fork()
    if pid == 0:
        end = time.process_time() + 0.008
        while time.process_time() < end: pass
        os._exit(0)
    try: os.waitpid(pid, 0) # which says no more than that it is gone
    except ChildProcessError: pass`),
		Check: all(hits(haft.FailCPU), func(o Outcome) error {
			// Counted, not timed: on a busy machine the same takes long.
			if had := 8 * time.Millisecond * time.Duration(len(o.Stdout)); had > 8*time.Second {
				return fmt.Errorf("it had %v of processor time, with a limit of 1 s", had)
			}
			return nil
		}),
	}, {
		Name: "short_children_are_not_charged_twice", Group: Honest, Needs: confined,
		Story: "A program that runs many short commands, waits for them and stays within its limit of processor " +
			"time is left alone.",
		Spec: limits(func(l *haft.Limits) { l.CPU, l.Wall = haft.Millis(3*time.Second), haft.Millis(20*time.Second) }),
		Program: py(`used, n = 0, 0
while used < 1.2:
    pid = os.fork()
    if pid == 0:
        end = time.process_time() + 0.008
        while time.process_time() < end: pass
        os._exit(0)
    used += os.wait4(pid, 0)[2].ru_utime
say('done')`),
		Check: prints("done\n"),
	}, {
		Name: "usage_is_that_of_the_call", Group: Honest, Needs: confined, Do: usageOfCall,
		Story: "When the caller finishes a program, Ended has its processor time since Begin and its memory, and " +
			"neither is 0.",
	}, {
		Name: "usage_is_measured_or_unknown", Group: Honest, Do: usageKnownOrNot,
		Story: "Processor time and memory of a call, prepared ahead or not, are those that it used or unknown: " +
			"never 0, and never those of the preparation.",
	}, {
		Name: "idle_program_waits_as_long_as_it_likes", Group: Honest, Do: idleForLong,
		Story: "A program that is prepared and waits, threads and all, is not disturbed.",
	}}
}

// runIdle runs a program that reports when it is prepared. If begins is set, it begins
// after a while.
func runIdle(ctx context.Context, b *Bench, source string, begins bool) (Outcome, error) {
	begin, prepared := make(chan struct{}), make(chan struct{})
	live, err := b.Start(ctx, py(source), func(s *sandbox.Spec) {
		s.Begin, s.Prepared, s.Limits.CPU = begin, prepared, haft.Millis(4*time.Second)
	})
	if err != nil {
		return Outcome{}, err
	}
	if _, err := live.Line(ctx); err != nil {
		return Outcome{}, err
	}
	close(prepared)
	if begins {
		select {
		case <-live.done:
			return live.Wait(), errors.New("it ended while it waited to begin")
		case <-time.After(1500 * time.Millisecond): // several looks
		}
		close(begin)
		if err := live.Say("go"); err != nil {
			return Outcome{}, err
		}
	}
	o := live.Wait()
	return o, left(live.token)
}

func busyBeforeBegin(ctx context.Context, b *Bench) error {
	begin := make(chan struct{})
	o := b.Run(ctx, py("while True: pass"), func(s *sandbox.Spec) {
		s.Begin, s.Limits.CPU = begin, haft.Millis(500*time.Millisecond)
	})
	return hits(haft.FailCPU)(o)
}

func idleProcesses(ctx context.Context, b *Bench) error {
	o, err := runIdle(ctx, b, "if os.fork() == 0: time.sleep(60)\ntell('ready'); line()", false)
	return errors.Join(err, hits(haft.FailPIDs)(o))
}

func idleBusy(ctx context.Context, b *Bench) error {
	o, err := runIdle(ctx, b, `import threading
def burn():
    while True: pass
threading.Thread(target=burn, daemon=True).start()
tell('ready'); line()`, false)
	return errors.Join(err, hits(haft.FailCPU)(o))
}

func idleForLong(ctx context.Context, b *Bench) error {
	o, err := runIdle(ctx, b, `import threading
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
tell('ready'); say(line()); os._exit(0)`, true)
	return errors.Join(err, prints("go\n")(o))
}
