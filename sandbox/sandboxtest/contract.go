package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

// contractCases are about what the caller does: beginning, finishing, cancelling, and
// asking for what is impossible.
func contractCases() []Case {
	rows := []struct {
		name, story string
		do          func(context.Context, *Bench) error
		timed       bool
		settled     bool
	}{
		{"clock_stands_still_until_begin",
			"The wall clock of a prepared program starts when Begin is closed, not before.", beginLater, true, false},
		{"finish_ends_a_busy_program_at_once",
			"Closing Finish ends even a program that ignores signals, with cause finished.", finishBusy, true, false},
		{"finish_keeps_what_was_said_and_no_more",
			"What was written before Finish arrives; after Ended nothing does, though the program writes on.",
			finishTalking, true, false},
		{"finish_ends_what_nobody_reads", "Closing Finish ends a program whose output is stuck at the caller, " +
			"without waiting for him.", finishStuck, true, false},
		{"finish_is_not_needed", "A program that ends before Finish has ended by itself.", finishUnused, false, false},
		{"ended_comes_before_return_with_everything",
			"Ended is called once, with the same exit that Run returns, artifacts included.", endedOnce, false, false},
		{"cancel_stops_the_program", "When the context ends, or Limits.Wall has passed, the program gets SIGTERM " +
			"first. It has Limits.Grace to clean up, and the cause is cancelled or timeout all the same.",
			stopped, true, false},
		{"cancel_kills_what_ignores_it", "A program that ignores SIGTERM is killed after Limits.Grace, which counts " +
			"as used; at once if it uses too much processor time, or with ErrNoGrace.", stubborn, true, false},
		{"cancelled_before_start_does_not_run", "A context that has ended already starts nothing.", cancelledBefore,
			false, false},
		{"missing_command_is_an_error", "A command that does not exist is an error and not an exit code.",
			missingCommand, false, true},
		{"failed_step_is_an_error", "A step of confinement that fails, such as a mount of nothing, ends the call " +
			"before it begins.", failedStep, false, true},
		{"wrong_specs_are_refused", "Names that climb, arguments without end and other nonsense are refused with " +
			"code invalid.", wrongSpecs, false, false},
		{"need_is_refused_and_never_weakened", "A run that demands more than there is does not run.", needRefused,
			false, false},
		{"isolation_is_told_in_every_exit", "The exit states what the run was confined by, and it is not less than " +
			"was promised.", isolationStated, false, false},
		{"runs_side_by_side_do_not_mix", "Many runs at once each get their own input, output and channel.", sideBySide,
			false, false},
		{"output_comes_as_it_is_written", "Output is there while the program still runs.", streamed, true, false},
		{"a_server_lasts", "With lasting limits a program answers on its standard streams, more than the usual " +
			"limits of output, until the context ends.", lasting, false, false},
		{"channel_is_closed_in_any_case", "Run closes the channel after a run, and after a refusal too.", channelClosed,
			false, false},
		{"full_network_is_the_hosts", "A run that is given the full network reaches a service of the host.",
			fullNetwork, false, true},
		{"failing_writer_does_not_hang", "A caller that cannot take the output any more does not hang the run.",
			badWriter, false, false},
	}
	cases := []Case{{
		Name: "mounts_are_what_they_say", Group: Honest, Needs: controls(haft.ControlMountNS), Do: mounted,
		Settled: true,
		Story:   "A mounted directory is read-only, unless it is given to be written to; then what is written stays.",
	}}
	for _, r := range rows {
		cases = append(cases, Case{Name: r.name, Group: Honest, Story: r.story, Do: r.do, Timed: r.timed,
			Settled: r.settled})
	}
	return cases
}

// channelEcho exchanges messages with a program.
func channelEcho(ctx context.Context, b *Bench) error {
	live, err := b.Start(ctx, sh(`read -r x <&3; echo "got $x" >&3`), nil)
	if err != nil {
		return err
	}
	if err := live.Say("hello"); err != nil {
		return err
	}
	o := live.Wait()
	return errors.Join(exits(0)(o), want("channel", o.Channel, "got hello\n"))
}

func beginLater(ctx context.Context, b *Bench) error {
	begin := make(chan struct{})
	live, err := b.Start(ctx, sh(`echo ready >&3; read -r x <&3; echo "$x"`), func(s *sandbox.Spec) {
		s.Begin = begin
		s.Limits.Wall = haft.Millis(time.Second)
	})
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	select {
	case <-live.done:
		return fmt.Errorf("it ended while it waited to begin: %v", live.Wait())
	case <-time.After(2 * time.Second): // twice the limit
	}
	close(begin)
	if err := live.Say("go"); err != nil {
		return err
	}
	o := live.Wait()
	if err := prints("go\n")(o); err != nil {
		return fmt.Errorf("%w\n\t%v", err, o)
	}
	if o.Exit.Usage.Wall > haft.Millis(time.Second) {
		return fmt.Errorf("the usage counts %v, with the wait", o.Exit.Usage.Wall)
	}
	return nil
}

func finishBusy(ctx context.Context, b *Bench) error {
	finish := make(chan struct{})
	live, err := b.Start(ctx, sh(`trap '' TERM INT HUP; echo ready >&3; while :; do :; done`),
		func(s *sandbox.Spec) { s.Finish = finish })
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	at := time.Now()
	close(finish)
	o := live.Wait()
	if took := time.Since(at); took > prompt {
		return fmt.Errorf("it took %v to finish", took)
	}
	return errors.Join(caused(sandbox.CauseFinished)(o), left(live.token))
}

// finishTalking runs a program that writes for ever. It may still do so for a short time
// between Ended and the end of the run.
func finishTalking(ctx context.Context, b *Bench) error {
	finish := make(chan struct{})
	var live *Live
	atEnd := -1
	live, err := b.Start(ctx, sh(`trap '' TERM INT HUP; echo said; echo ready >&3; while :; do echo more; done`),
		func(s *sandbox.Spec) {
			s.Finish, s.Limits.Stdout = finish, 1<<30
			counted := s.Ended
			s.Ended = func(e sandbox.Exit) {
				atEnd = len(live.stdout.String())
				counted(e)
			}
		})
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	close(finish)
	o := live.Wait()
	said := live.stdout.String()
	if !strings.HasPrefix(said, "said\n") || len(said) != atEnd {
		return fmt.Errorf("%d bytes arrived, %d of them after Ended", len(said), len(said)-atEnd)
	}
	return caused(sandbox.CauseFinished)(o)
}

// finishStuck has a caller that reads output only when the program is gone.
func finishStuck(ctx context.Context, b *Bench) error {
	finish := make(chan struct{})
	var live *Live
	stuck := writerFunc(func(p []byte) (int, error) {
		<-finish
		return len(p), waitGone(live.token)
	})
	live, err := b.Start(ctx, sh(`trap '' TERM INT HUP; echo said; echo ready >&3; while :; do echo more; done`),
		func(s *sandbox.Spec) { s.Finish, s.Stdout = finish, stuck })
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	at := time.Now()
	close(finish)
	o := live.Wait()
	if took := time.Since(at); took > prompt {
		return fmt.Errorf("it took %v to finish", took)
	}
	return caused(sandbox.CauseFinished)(o)
}

// waitGone waits until nothing of a run is alive, but not for ever.
func waitGone(token string) error {
	err := left(token)
	for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); err = left(token) {
		<-time.After(time.Millisecond)
	}
	return err
}

// writerFunc is a writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func finishUnused(ctx context.Context, b *Bench) error {
	return exits(4)(
		b.Run(ctx, sh(`exit 4`), func(s *sandbox.Spec) {
			s.Finish, s.Begin = make(chan struct{}),
				make(chan struct{})
		}))
}

func endedOnce(ctx context.Context, b *Bench) error {
	var early []sandbox.Exit
	o := b.Run(ctx, sh(`echo x > out/a; exit 5`), func(s *sandbox.Spec) {
		s.Collect = true
		s.Ended = func(e sandbox.Exit) { early = append(early, e) }
	})
	if o.Err != nil || len(early) != 1 {
		return fmt.Errorf("the function Ended was called %d times, want once: %v", len(early), o)
	}
	e := early[0]
	if e.Cause != o.Exit.Cause || e.Code != 5 || len(e.Artifacts) != 1 || e.Usage.Wall == 0 || e.Started.IsZero() {
		return fmt.Errorf("the function Ended got %+v, Run returned %+v", e, o.Exit)
	}
	return nil
}

func stopped(ctx context.Context, b *Bench) error {
	return errors.Join(cancelled(ctx, b), graceUsed(ctx, b))
}

func stubborn(ctx context.Context, b *Bench) error {
	return errors.Join(cancelStubborn(ctx, b), graceIgnored(ctx, b), graceBusy(ctx, b), graceWithdrawn(ctx, b))
}

func cancelled(ctx context.Context, b *Bench) error {
	return cancelWith(ctx, b, `trap 'echo term; exit 0' TERM; echo ready >&3; while :; do sleep 0.01; done`, "term\n")
}

func cancelStubborn(ctx context.Context, b *Bench) error {
	return cancelWith(ctx, b, `trap '' TERM INT HUP; echo ready >&3; while :; do sleep 1; done`, "")
}

// cancelWith cancels a program when it is ready.
func cancelWith(ctx context.Context, b *Bench, source, stdout string) error {
	return endWith(ctx, b, source, stdout, sandbox.CauseCancelled, context.Canceled, nil)
}

// graceWithdrawn ends a program with a long grace time, before and after its timeout.
func graceWithdrawn(ctx context.Context, b *Bench) error {
	limits := func(wall time.Duration) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) {
			s.Limits.Wall, s.Limits.Grace = haft.Millis(wall), haft.Millis(time.Minute)
		}
	}
	return errors.Join(
		endWith(ctx, b, `trap '' TERM; echo ready >&3; while :; do sleep 1; done`, "", sandbox.CauseCancelled,
			sandbox.ErrNoGrace, limits(time.Minute)),
		endWith(ctx, b, `trap 'echo ready >&3; sleep 60' TERM; while :; do sleep 0.01; done`, "", sandbox.CauseTimeout,
			sandbox.ErrNoGrace, limits(300*time.Millisecond)))
}

// endWith ends the context of a program when it is ready.
func endWith(ctx context.Context, b *Bench, source, stdout string, end sandbox.Cause, cause error,
	change func(*sandbox.Spec)) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	live, err := b.Start(inner, sh(source), change)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	at := time.Now()
	cancel(cause)
	o := live.Wait()
	if took := time.Since(at); took > prompt {
		return fmt.Errorf("it took %v to end: %v", took, o)
	}
	return errors.Join(caused(end)(o), want("stdout", o.Stdout, stdout), left(live.token))
}

// timedOut runs a program for 300 ms with a grace time, and checks how and after what time it ended.
func timedOut(ctx context.Context, b *Bench, source, stdout string, grace, least, most time.Duration) error {
	const wall = 300 * time.Millisecond
	o := b.Run(ctx, sh(source), func(s *sandbox.Spec) {
		s.Limits.Wall, s.Limits.Grace, s.Limits.CPU = haft.Millis(wall), haft.Millis(grace), haft.Millis(time.Second)
	})
	if took := o.Exit.Usage.Wall.D(); took < wall+least || took > wall+most {
		return fmt.Errorf("it took %v to end: %v", took, o)
	}
	return errors.Join(caused(sandbox.CauseTimeout)(o), want("stdout", o.Stdout, stdout))
}

func graceUsed(ctx context.Context, b *Bench) error {
	return timedOut(ctx, b, `trap 'sleep 0.2; echo bye; exit 0' TERM; while :; do sleep 0.01; done`, "bye\n",
		20*time.Second, 200*time.Millisecond, 10*time.Second)
}

func graceIgnored(ctx context.Context, b *Bench) error {
	return timedOut(ctx, b, `trap '' TERM INT HUP; while :; do sleep 1; done`, "",
		400*time.Millisecond, 395*time.Millisecond, 5*time.Second)
}

func graceBusy(ctx context.Context, b *Bench) error {
	return timedOut(ctx, b, `trap 'while :; do :; done' TERM; while :; do sleep 0.01; done`, "",
		time.Minute, 0, 30*time.Second)
}

func cancelledBefore(ctx context.Context, b *Bench) error {
	inner, cancel := context.WithCancel(ctx)
	cancel()
	o := b.Run(inner, sh(`echo ran`), nil)
	if o.Stdout != "" || o.Err == nil && o.Exit.Cause != sandbox.CauseCancelled {
		return fmt.Errorf("it ran: %v", o)
	}
	return nil
}

func missingCommand(ctx context.Context, b *Bench) error {
	o := b.Run(ctx, sh(``), func(s *sandbox.Spec) { s.Argv = []string{"/work/does-not-exist"} })
	if o.Err == nil {
		return fmt.Errorf("there is no error: %v", o)
	}
	if strings.Contains(haft.MessageOf(o.Err), b.host.dir) {
		return fmt.Errorf("the message names a path of the host: %w", o.Err)
	}
	return nil
}

func failedStep(ctx context.Context, b *Bench) error {
	o := b.Run(ctx, sh(`echo ran`), func(s *sandbox.Spec) {
		s.Mounts = append(slices.Clone(s.Mounts), sandbox.Mount{Host: b.host.dir + "/nothing", Inside: "/data"})
	})
	if o.Err == nil || o.Stdout != "" {
		return fmt.Errorf("it ran: %v", o)
	}
	if strings.Contains(haft.MessageOf(o.Err), b.host.dir) {
		return fmt.Errorf("the message names a path of the host: %w", o.Err)
	}
	return nil
}

func wrongSpecs(ctx context.Context, b *Bench) error {
	file := func(n string) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) { s.Files = []sandbox.File{{Name: n, Data: []byte("x")}} }
	}
	for name, change := range map[string]func(*sandbox.Spec){
		"no command":         func(s *sandbox.Spec) { s.Argv = nil },
		"a relative command": func(s *sandbox.Spec) { s.Argv[0] = "sh" },
		"a file that climbs": file("../x"), "a hidden climb": file("a/../../x"), "an absolute file": file("/tmp/x"),
		"a NUL in a name": file("a\x00b"), "a name of 300 bytes": file(strings.Repeat("n", 300)),
		"an endless argument":   func(s *sandbox.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 8<<20)) },
		"an endless variable":   func(s *sandbox.Spec) { s.Env = append(s.Env, "X="+strings.Repeat("x", 8<<20)) },
		"a variable of no name": func(s *sandbox.Spec) { s.Env = append(s.Env, "=x") },
		"a mount that climbs": func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts,
				sandbox.Mount{Host: "/usr", Inside: "/a/../b"})
		},
	} {
		if o := b.Run(ctx, sh(`echo ran`), change); haft.CodeOf(o.Err) != haft.CodeInvalid || o.Stdout != "" {
			return fmt.Errorf("%s gives %v, want an error with code %q", name, o, haft.CodeInvalid)
		}
	}
	return nil
}

func needRefused(ctx context.Context, b *Bench) error {
	for _, l := range haft.Levels() {
		o := b.Run(ctx, sh(`echo ran`), func(s *sandbox.Spec) { s.Need.Level = l })
		if b.iso.Level.AtLeast(l) {
			if err := prints("ran\n")(o); err != nil {
				return fmt.Errorf("level %q is promised, but: %w", l, err)
			}
		} else if haft.CodeOf(o.Err) != haft.CodeDenied || o.Stdout != "" {
			return fmt.Errorf("level %q is not promised, but: %v", l, o)
		}
	}
	return nil
}

func isolationStated(ctx context.Context, b *Bench) error {
	for _, c := range haft.Controls() {
		missing := slices.ContainsFunc(b.iso.Missing, func(g haft.Gap) bool { return g.Control == c })
		if missing == b.iso.Has(c) {
			return fmt.Errorf("%q must be either among the controls or among the missing", c)
		}
	}
	if b.iso.Level == haft.LevelNamespaces {
		for _, c := range controls(haft.ControlMountNS, haft.ControlPIDNS, haft.ControlNetNS, haft.ControlIPCNS,
			haft.ControlUTSNS,
			haft.ControlRoot, haft.ControlCaps, haft.ControlNoNewPriv, haft.ControlSeccomp) {
			if !b.iso.Has(c) {
				return fmt.Errorf("level %q is promised without %q", b.iso.Level, c)
			}
		}
	}
	if b.iso.Has(haft.ControlRoot) && !b.iso.Has(haft.ControlMountNS) && b.iso.Level == haft.LevelReduced {
		return errors.New("a root of its own needs a mount namespace")
	}
	o := b.Run(ctx, sh(`exit 0`), nil)
	if err := exits(0)(o); err != nil {
		return err
	}
	if !o.Exit.Isolation.Level.AtLeast(b.iso.Level) {
		return fmt.Errorf("level %q was promised, %q is told", b.iso.Level, o.Exit.Isolation.Level)
	}
	for _, c := range b.iso.Controls {
		if !o.Exit.Isolation.Has(c) {
			return fmt.Errorf("%q was promised and is not told", c)
		}
	}
	return nil
}

func sideBySide(ctx context.Context, b *Bench) error {
	const n = 8
	errs := make(chan error, n)
	for i := range n {
		go func() {
			id := fmt.Sprint(i)
			o := b.Run(ctx, sh(`read -r x; echo "$x $ID"; echo "$ID" >&3; echo "$ID" > out/f; sleep 0.05; cat out/f`),
				func(s *sandbox.Spec) {
					s.Stdin, s.Env = strings.NewReader(id+"\n"), []string{"ID=" + id, "PATH=/usr/bin:/bin"}
				})
			errs <- errors.Join(prints(id+" "+id+"\n"+id+"\n")(o), want("channel", o.Channel, id+"\n"))
		}()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// A brokenPipe takes nothing.
type brokenPipe struct{}

// Write implements [io.Writer].
func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("gone") }

func badWriter(ctx context.Context, b *Bench) error {
	return exits(0)(b.Run(ctx, py(`os.write(1, b'x' * 300000)`), func(s *sandbox.Spec) { s.Stdout = brokenPipe{} }))
}

func streamed(ctx context.Context, b *Bench) error {
	// A guest kernel now and then does not start; the case is tried again.
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	live, err := b.Start(ctx, sh(`echo early; read -r x <&3; echo late`), nil)
	if err != nil {
		return err
	}
	for live.stdout.String() != "early\n" {
		select {
		case <-live.done:
			return fmt.Errorf("it ended early: %v", live.Wait())
		case <-ctx.Done():
			live.Wait()
			return errors.New("the output did not come while the program ran")
		case <-time.After(time.Millisecond):
		}
	}
	return errors.Join(live.Say("go"), prints("early\nlate\n")(live.Wait()))
}

func channelClosed(ctx context.Context, b *Bench) error {
	for _, change := range []func(*sandbox.Spec){
		func(*sandbox.Spec) {}, func(s *sandbox.Spec) { s.Argv = nil },
		func(s *sandbox.Spec) { s.Need.Level = haft.LevelMachine },
	} {
		var channel *os.File
		b.Run(ctx, sh(`exit 0`), func(s *sandbox.Spec) { channel = s.Channel; change(s) })
		if err := channel.Close(); !errors.Is(err, os.ErrClosed) {
			return errors.Join(errors.New("the channel was still open"), err)
		}
	}
	return nil
}

func fullNetwork(ctx context.Context, b *Bench) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("hello")) // the program reports failures
			_ = c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return fmt.Errorf("split an address: %w", err)
	}
	return prints("hello\n")(
		b.Run(ctx, py("import socket\ns = socket.create_connection(('127.0.0.1', "+port+"))\nsay(s.recv(9).decode())"),
			func(s *sandbox.Spec) {
				s.Network = sandbox.NetworkFull
			}))
}

func mounted(ctx context.Context, b *Bench) error {
	for _, writable := range []bool{false, true} {
		dir, err := os.MkdirTemp(b.host.dir, "mount-")
		if err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		// Any user of the host may write here, because the program may run as any.
		if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(dir+"/f", []byte("content\n"), 0o644)); err != nil {
			return fmt.Errorf("fill a directory: %w", err)
		}
		o := b.Run(ctx, sh(`cat /data/f; echo new > /data/g && echo written; exit 0`), func(s *sandbox.Spec) {
			s.Mounts = append(slices.Clone(s.Mounts), sandbox.Mount{Host: dir, Inside: "/data", Writable: writable})
		})
		said, _ := os.ReadFile(dir + "/g")
		if writable {
			err = errors.Join(prints("content\nwritten\n")(o), want("the file", string(said), "new\n"))
		} else {
			err = errors.Join(prints("content\n")(o), want("the file", string(said), ""))
		}
		if err != nil {
			return fmt.Errorf("writable %v: %w\n\t%v", writable, err, o)
		}
	}
	return nil
}
