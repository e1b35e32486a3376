package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
)

// A run is one command and what belongs to it on our side.
type run struct {
	spec           sandbox.Spec
	limits         haft.Limits
	cmd            *exec.Cmd
	stdout, stderr *output
	theirs         []*os.File // ends of pipes that the command holds
	stdin          *os.File   // our end of its input, or nil
	started        time.Time
	// prepared is the processor time before Begin, and negative if it is unknown.
	prepared time.Duration
}

// run starts the command in w, waits for its end and collects what it leaves.
func (p *Provider) run(ctx context.Context, spec sandbox.Spec, w *work) (sandbox.Exit, error) {
	r := &run{spec: spec, limits: spec.Limits.Or(haft.DefaultLimits())}
	if err := r.start(w); err != nil {
		return sandbox.Exit{}, err
	}
	exit := r.wait(ctx)
	if spec.Collect {
		exit.Artifacts, exit.ArtifactsCut = w.collect(spec.GivenFiles(), r.limits)
	}
	exit.Isolation = isolation()
	if spec.Ended != nil {
		spec.Ended(exit)
	}
	return exit, nil
}

// start makes the pipes and starts the command. On an error nothing is left open.
func (r *run) start(w *work) (err error) {
	defer func() {
		closeAll(r.theirs)
		if err != nil {
			r.closeOurs()
		}
	}()
	// Not CommandContext: the end of the context is ours to handle, SIGTERM first.
	cmd := exec.Command(r.spec.Argv[0]) //nolint:forbidigo,noctx // see above
	cmd.Args, cmd.Env = r.spec.WorkAt(w.dir)
	cmd.Path = cmd.Args[0]
	cmd.Dir = w.dir
	// Its own session: no terminal, and a group to send signals to.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if r.stdout, cmd.Stdout, err = r.pipeOut(r.spec.Stdout, r.limits.Stdout); err != nil {
		return err
	}
	if r.stderr, cmd.Stderr, err = r.pipeOut(r.spec.Stderr, r.limits.Stderr); err != nil {
		return err
	}
	if r.spec.Stdin != nil {
		in, ours, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		r.theirs, r.stdin, cmd.Stdin = append(r.theirs, in), ours, in
	}
	if r.spec.Channel != nil {
		cmd.ExtraFiles = []*os.File{r.spec.Channel}
		// Closed with the rest once the command has its own, or else its other end
		// would not see that the command closed it.
		r.theirs = append(r.theirs, r.spec.Channel)
	}
	if err := closeOnExec(); err != nil {
		return &sandbox.SetupError{Step: "descriptors", Err: err}
	}
	unignoreSignals()
	if err := cmd.Start(); err != nil {
		return &sandbox.SetupError{Step: "exec", Path: r.spec.Argv[0], Err: errnoOf(err)}
	}
	r.cmd, r.started = cmd, time.Now()
	if err := limit(cmd.Process.Pid, r.limits); err != nil {
		r.kill(syscall.SIGKILL)
		_ = cmd.Wait() // it was killed, and never counted as run
		return &sandbox.SetupError{Step: "rlimits", Err: err}
	}
	r.feed()
	return nil
}

// unignoreSignals sends the signals that were ignored when we were started, by nohup or by
// a shell in the background, to a channel that nobody reads. They still do nothing to us,
// and a command does not inherit that they are ignored.
func unignoreSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} { // some rare ones stay ignored
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// pipeOut returns the two ends of a pipe: ours, being read, and theirs.
func (r *run) pipeOut(to io.Writer, limit int64) (*output, *os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	r.theirs = append(r.theirs, theirs)
	return startOutput(ours, to, limit), theirs, nil
}

// feed copies the input in the background: a reader that blocks forever must not delay the
// end of a run. The command sees the end of its input when the reader ends, and the copy
// ends when our end of the pipe is closed.
func (r *run) feed() {
	if r.stdin == nil {
		return
	}
	go func(to *os.File, from io.Reader) {
		_, _ = io.Copy(to, from) // a command need not read its input
		_ = to.Close()
	}(r.stdin, r.spec.Stdin)
}

// wait returns when the command and its group are gone and the output is read.
func (r *run) wait(ctx context.Context) sandbox.Exit {
	done := make(chan struct{})
	go func() {
		_ = r.cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	cause, clock := r.watch(ctx, done)
	wall := time.Since(clock)
	r.kill(syscall.SIGKILL) // what it left in its group
	r.stdout.finish(drain)
	r.stderr.finish(drain)
	if r.stdin != nil {
		_ = r.stdin.Close() // may be closed already, by feed
	}
	exit := sandbox.Exit{
		Cause: cause, Started: r.started,
		Usage:         usageOf(r.cmd.ProcessState, r.prepared),
		DroppedStdout: r.stdout.dropped, DroppedStderr: r.stderr.dropped,
	}
	exit.Usage.Wall = haft.Millis(wall)
	exit.Usage.Stdout, exit.Usage.Stderr = r.stdout.written, r.stderr.written
	r.explain(&exit)
	return exit
}

// watch waits for the end of the command, and ends it at its limits. It returns the cause,
// or "" if the command ended by itself, and when the clock began.
func (r *run) watch(ctx context.Context, done <-chan struct{}) (sandbox.Cause, time.Time) {
	clock, begin, prepared := r.started, r.spec.Begin, r.spec.Prepared
	timer := time.NewTimer(r.limits.Wall.D())
	defer timer.Stop()
	if begin != nil {
		timer.Stop()
	}
	for {
		select {
		case <-done:
			return "", clock
		case <-begin:
			begin, clock, r.prepared = nil, time.Now(), processorTime(r.cmd.Process.Pid)
			timer.Reset(r.limits.Wall.D())
		case <-prepared:
			if prepared = nil; r.spec.Idle != nil {
				r.spec.Idle() // a process without a cgroup cannot be counted
			}
		case <-r.spec.Finish:
			r.kill(syscall.SIGKILL)
			<-done
			return sandbox.CauseFinished, clock
		case <-timer.C:
			r.terminate(ctx, done)
			return sandbox.CauseTimeout, clock
		case <-ctx.Done():
			r.terminate(ctx, done)
			return sandbox.CauseCancelled, clock
		}
	}
}

// terminate sends SIGTERM and, after the grace time or when the caller has its result, SIGKILL.
func (r *run) terminate(ctx context.Context, done <-chan struct{}) {
	r.kill(syscall.SIGTERM)
	timer := time.NewTimer(r.limits.Grace.D())
	defer timer.Stop()
	for cancelled := ctx.Done(); ; {
		select {
		case <-done:
			return
		case <-cancelled:
			if cancelled = nil; !errors.Is(context.Cause(ctx), sandbox.ErrNoGrace) {
				continue
			}
		case <-timer.C:
		case <-r.spec.Finish:
		}
		r.kill(syscall.SIGKILL)
		<-done
		return
	}
}

// kill signals the whole group. It is no error if no process is left.
func (r *run) kill(sig syscall.Signal) { _ = syscall.Kill(-r.cmd.Process.Pid, sig) }

// explain adds to exit what the kernel says about the end.
func (r *run) explain(exit *sandbox.Exit) {
	ws, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		exit.Signal = int(ws.Signal())
	}
	switch {
	case exit.Cause != "":
	case exit.Signal == 0:
		exit.Cause, exit.Code = sandbox.CauseExit, r.cmd.ProcessState.ExitCode()
	case exit.Signal == int(syscall.SIGXCPU), exit.Signal == int(syscall.SIGKILL) && r.burnt() >= r.limits.CPU.D():
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailCPU
	case exit.Signal == int(syscall.SIGXFSZ):
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailFileSize
	default:
		exit.Cause = sandbox.CauseSignal
	}
}

// burnt is all processor time of the command, which the kernel compares with the limit.
func (r *run) burnt() time.Duration {
	return r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
}

// closeOurs closes our ends of the pipes of a command that was not started.
func (r *run) closeOurs() {
	for _, o := range []*output{r.stdout, r.stderr} {
		if o != nil {
			o.finish(0)
		}
	}
	if r.stdin != nil {
		_ = r.stdin.Close() // nothing was written
	}
}

// closeAll closes files that were not written to.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// errnoOf returns the errno inside err, without the host's paths around it.
func errnoOf(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
