package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"haft"
	"haft/sandbox"
)

// A Command is what a [Fake] runs: the ends that a real command would have.
type Command struct {
	Spec           sandbox.Spec
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Channel        *os.File // descriptor 3, or nil
}

// Fake is a provider for the tests of others. It runs a Go function in place of
// the command and keeps the order of the contract: Need, Begin, the wall clock,
// Finish, cancellation, Ended.
type Fake struct {
	// Main is the command. It returns its exit status, and must return when ctx
	// ends: a function cannot be killed. Nil exits with 0.
	Main func(ctx context.Context, c Command) int
	// Promise is what Isolation returns. The zero value is level "none".
	Promise haft.Isolation

	mu    sync.Mutex
	specs []sandbox.Spec
}

// Isolation implements [sandbox.Provider].
func (f *Fake) Isolation(context.Context) (haft.Isolation, error) { return f.promise(), nil }

// promise fills in the level.
func (f *Fake) promise() haft.Isolation {
	iso := f.Promise
	if iso.Level == "" {
		iso.Level = haft.LevelNone
	}
	return iso
}

// Specs returns the specs of all runs so far, in the order of their start.
func (f *Fake) Specs() []sandbox.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sandbox.Spec(nil), f.specs...)
}

// The causes for which a fake's context ends.
var (
	errTimeout  = errors.New("the wall-clock limit")
	errFinished = errors.New("the caller has what it wants")
)

// Run implements [sandbox.Provider].
func (f *Fake) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if spec.Channel != nil {
		defer spec.Channel.Close()
	}
	if err := spec.Check(); err != nil {
		return sandbox.Exit{}, err
	}
	if err := spec.Need.Check(f.promise()); err != nil {
		return sandbox.Exit{}, err
	}
	f.mu.Lock()
	f.specs = append(f.specs, spec)
	f.mu.Unlock()

	started := time.Now()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchFake(inner, cancel, spec)
	code := 0
	if f.Main != nil {
		code = f.Main(inner, command(spec))
	}
	exit := sandbox.Exit{Cause: sandbox.CauseExit, Code: code, Started: started, Isolation: f.promise()}
	switch cause := context.Cause(inner); {
	case errors.Is(cause, errTimeout):
		exit.Cause, exit.Code = sandbox.CauseTimeout, 0
	case errors.Is(cause, errFinished):
		exit.Cause, exit.Code = sandbox.CauseFinished, 0
	case cause != nil:
		exit.Cause, exit.Code = sandbox.CauseCancelled, 0
	}
	exit.Usage.Wall = haft.Millis(time.Since(started))
	if spec.Ended != nil {
		spec.Ended(exit)
	}
	return exit, nil
}

// watchFake ends inner when the run is due. It ends with inner.
func watchFake(inner context.Context, cancel context.CancelCauseFunc, spec sandbox.Spec) {
	wall := spec.Limits.Or(haft.DefaultLimits()).Wall.D()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	begin, prepared := spec.Begin, spec.Prepared
	if begin != nil {
		timer.Stop()
	}
	for {
		select {
		case <-begin:
			begin = nil
			timer.Reset(wall)
		case <-prepared:
			if prepared = nil; spec.Idle != nil {
				spec.Idle()
			}
		case <-timer.C:
			cancel(errTimeout)
			return
		case <-spec.Finish:
			cancel(errFinished)
			return
		case <-inner.Done():
			return
		}
	}
}

// command fills in what a spec may leave out.
func command(spec sandbox.Spec) Command {
	c := Command{Spec: spec, Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr, Channel: spec.Channel}
	if c.Stdin == nil {
		c.Stdin = bytes.NewReader(nil)
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return c
}
