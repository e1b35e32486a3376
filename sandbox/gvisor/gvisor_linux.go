package gvisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// What runsc needs for itself.
const (
	ownMemory = 128 << 20
	ownTasks  = 512
)

// A Provider runs commands in gVisor. It is safe for concurrent use.
//
// Lifecycle: Open → Isolation, Run → Close.
type Provider struct {
	local   *local.Provider
	program string

	mu    sync.Mutex
	trial *trial // the last one, nil for none
	shut  bool
	tries sync.WaitGroup
}

// A trial finds out whether gVisor runs here. All who ask meanwhile wait for it, each as long as it wants.
type trial struct {
	over  chan struct{}
	err   error
	ended time.Time
}

const (
	trialTime = 30 * time.Second // on a machine that does much else
	// believed is how long a trial that failed is believed: what was missing may have been installed. One that took too
	// long is not.
	believed = 10 * time.Second
)

// Open opens a provider that uses the runsc of config. The first run, or the first call of Isolation, finds out
// by a trial whether that works here.
func Open(ctx context.Context, config Config) (*Provider, error) {
	program := config.Program
	if program == "" {
		var err error
		if program, err = Find(); err != nil {
			return nil, err
		}
	}
	l, err := local.Open(ctx, local.Config{
		Dir: config.Dir, UIDs: config.UIDs, Logger: config.Logger,
		Kernel: &local.Kernel{Program: program, Command: command, Reason: reason, Memory: ownMemory, Tasks: ownTasks},
	})
	if err != nil {
		return nil, err
	}
	return &Provider{local: l, program: program}, nil
}

// Close ends all runs and releases all resources.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	err := p.local.Close()
	p.tries.Wait()
	return err
}

// Dirs are the directories of locks and of the files of runs, which no sandbox may be shown.
func (p *Provider) Dirs() []string { return p.local.Dirs() }

// Run implements [sandbox.Provider]. Nothing runs before a trial has worked, see [Provider.Isolation].
func (p *Provider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if err := p.prove(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	return p.local.Run(ctx, spec)
}

// Isolation implements [sandbox.Provider]. The first call runs a program in gVisor, if nothing has run yet.
func (p *Provider) Isolation(ctx context.Context) (haft.Isolation, error) {
	if err := p.prove(ctx); err != nil {
		return haft.Isolation{}, err
	}
	return p.local.Isolation(ctx)
}

// prove makes sure that a trial has worked, and waits for one that is under way.
func (p *Provider) prove(ctx context.Context) error {
	p.mu.Lock()
	t := p.trial
	if !p.shut && (t == nil || t.failed() && time.Since(t.ended) > believed) {
		t = &trial{over: make(chan struct{})}
		p.trial = t
		p.tries.Go(func() { p.try(context.WithoutCancel(ctx), t) })
	}
	p.mu.Unlock()
	if t == nil {
		return errors.New("gVisor is closed")
	}
	select {
	case <-t.over:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed reports whether the trial is over and has failed.
func (t *trial) failed() bool {
	select {
	case <-t.over:
		return t.err != nil
	default:
		return false
	}
}

// try runs a program in gVisor: runsc itself, which needs nothing else. It has to answer as runsc does: a program of
// that name that merely ends has run nothing.
func (p *Provider) try(ctx context.Context, t *trial) {
	defer close(t.over)
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	var out bytes.Buffer
	exit, err := p.local.Run(ctx, sandbox.Spec{Argv: []string{"/runsc", "--version"}, Stdout: &out,
		Mounts: []sandbox.Mount{{Host: p.program, Inside: "/runsc"}}})
	message := "gVisor does not run here; haft doctor says what it lacks"
	switch {
	case ctx.Err() != nil:
		message, err = "gVisor did not start within "+trialTime.String()+": try again", context.Cause(ctx)
	case err == nil && (exit.Cause != sandbox.CauseExit || exit.Code != 0):
		err = fmt.Errorf("a trial ended with %s %d", exit.Cause, exit.Code)
	case err == nil && !bytes.HasPrefix(out.Bytes(), []byte("runsc version ")):
		err = errors.New("a trial ended without the answer of runsc")
	}
	if ctx.Err() == nil {
		t.ended = time.Now()
	}
	if err != nil {
		t.err = &haft.Error{Code: haft.CodeUnavailable, Message: message, Err: err}
	}
}

// ownedByUs reports whether a file belongs to the user of this process, or to root.
func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// reason returns the last error that runsc reported. It is for an operator, and not for the tool.
func reason(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	var last struct {
		Message string `json:"msg"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Message == "" {
		return "runsc ended without a report"
	}
	return last.Message
}
