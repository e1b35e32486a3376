package sandboxtest

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/sandbox"
)

// parkedCases are about programs that have not begun.
func parkedCases() []Case {
	confined := controls(haft.ControlSeccomp) // a plain process is not metered before it begins
	return []Case{{
		Name: "limits_hold_before_begin", Group: Processes, Needs: confined, Do: busyBeforeBegin,
		Story: "A program that has not begun, and burns processor time, meets the limit of its call.",
	}, {
		Name: "parked_program_is_one_process", Group: Processes, Needs: confined, Do: parkedProcesses,
		Story: "A program that is prepared and left a process behind is ended before it begins.",
	}, {
		Name: "parked_program_does_nothing", Group: Processes, Needs: confined, Do: parkedBusy,
		Story: "A program that is prepared and goes on burning processor time is ended before it begins.",
	}, {
		Name: "parked_program_waits_as_long_as_it_likes", Group: Honest, Do: parkedIdle,
		Story: "A program that is prepared and waits, threads and all, is not disturbed.",
	}}
}

// parked runs a program that says when it is prepared. If begins is set, it begins after
// a while.
func parked(ctx context.Context, b *Bench, source string, begins bool) (Outcome, error) {
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

func parkedProcesses(ctx context.Context, b *Bench) error {
	o, err := parked(ctx, b, "if os.fork() == 0: time.sleep(60)\ntell('ready'); line()", false)
	return errors.Join(err, hits(haft.FailPIDs)(o))
}

func parkedBusy(ctx context.Context, b *Bench) error {
	o, err := parked(ctx, b, `import threading
def burn():
    while True: pass
threading.Thread(target=burn, daemon=True).start()
tell('ready'); line()`, false)
	return errors.Join(err, hits(haft.FailCPU)(o))
}

func parkedIdle(ctx context.Context, b *Bench) error {
	o, err := parked(ctx, b, `import threading
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
tell('ready'); say(line()); os._exit(0)`, true)
	return errors.Join(err, prints("go\n")(o))
}
