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

	mu     sync.Mutex
	proven bool
}

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
func (p *Provider) Close() error { return p.local.Close() }

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

// prove runs a program in gVisor until one run has worked: runsc itself, which needs nothing else. It has to answer as
// runsc does: a program of that name that merely ends has run nothing.
func (p *Provider) prove(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proven {
		return nil
	}
	var out bytes.Buffer
	exit, err := p.local.Run(ctx, sandbox.Spec{Argv: []string{"/runsc", "--version"}, Stdout: &out,
		Mounts: []sandbox.Mount{{Host: p.program, Inside: "/runsc"}}})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // which says nothing of gVisor
	case err == nil && (exit.Cause != sandbox.CauseExit || exit.Code != 0):
		err = fmt.Errorf("a trial ended with %s %d", exit.Cause, exit.Code)
	case err == nil && !bytes.HasPrefix(out.Bytes(), []byte("runsc version ")):
		err = errors.New("a trial ended without the answer of runsc")
	}
	if err != nil {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "gVisor does not run here; haft doctor says what it lacks", Err: err}
	}
	p.proven = true
	return nil
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
