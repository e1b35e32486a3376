package local

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"haft"
	"haft/sandbox"
)

// forkSource is the program of a template.
//
//go:embed fork.py
var forkSource string

// A template process is replaced after so many forks, or after so long, because
// its forks share the seed of their hashes.
const (
	forksPerTemplate = 1000
	templateAge      = 10 * time.Minute
)

// A Template makes sandboxes by forking. It is safe for concurrent use.
//
// Lifecycle: Provider.Template → Run → Close.
type Template struct {
	p    *Provider
	spec sandbox.Spec
	boot string

	mu      sync.Mutex
	now     *generation // the one that forks
	renewal chan struct{}
	closed  bool
}

// Template implements [sandbox.Forker]. The interpreter must be Python, 3.9 or
// later, with ctypes.
func (p *Provider) Template(ctx context.Context, spec sandbox.Spec, boot string) (sandbox.Template, error) {
	if err := p.noTemplates(); err != nil {
		return nil, err
	}
	if spec.Network == sandbox.NetworkEgress {
		spec.ServeEgress = closeConn // the template itself has none
	}
	spec.Observe = false // each run says so itself
	spec.Limits = spec.Limits.Or(haft.DefaultLimits())
	if err := checkSpec(&spec); err != nil {
		return nil, err
	}
	have, err := p.Isolation(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.admit(spec.Need, have); err != nil {
		return nil, err
	}
	if !p.machine.namespaces {
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "templates need namespaces, which this sandbox does not have"}
	}
	if !p.machine.hasProc { // where the ids of its forks are written
		return nil, &haft.Error{Code: haft.CodeDenied,
			Message: "templates need a process file system, which this sandbox does not have"}
	}
	g, err := p.startGeneration(ctx, spec, boot)
	if err != nil {
		return nil, err
	}
	return &Template{p: p, spec: spec, boot: boot, now: g}, nil
}

// CanFork implements [sandbox.Forker].
func (p *Provider) CanFork(ctx context.Context) bool {
	return p.noTemplates() == nil && p.prove(ctx) == nil && p.machine.namespaces && p.machine.hasProc
}

// Run implements [sandbox.Template]. The limits of time, memory, processes, output and
// artifacts are those of spec; the others are those of the template.
func (t *Template) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if spec.Channel != nil {
		defer spec.Channel.Close() // the command has its own copy
	}
	spec.Argv, spec.Env, spec.Mounts, spec.Network = t.spec.Argv, t.spec.Env, t.spec.Mounts, t.spec.Network
	spec.Loopback = t.spec.Loopback
	spec.Limits = spec.Limits.Or(t.spec.Limits)
	if err := checkSpec(&spec); err != nil {
		return sandbox.Exit{}, err
	}
	if err := spec.Need.Check(t.p.machine.isolation); err != nil {
		return sandbox.Exit{}, err
	}
	exit, broken, err := t.once(ctx, &spec)
	if err != nil && broken { // nothing has happened, and the next process may live
		exit, _, err = t.once(ctx, &spec)
	}
	return exit, err
}

// once runs spec in a fork of the current process. It reports whether that process was dead
// before the fork could begin.
func (t *Template) once(ctx context.Context, spec *sandbox.Spec) (exit sandbox.Exit, broken bool, err error) {
	g, err := t.generation(ctx)
	if err != nil {
		return sandbox.Exit{}, false, err
	}
	defer g.release()
	r := &run{p: t.p, spec: spec, flood: make(chan struct{}, 2)}
	exit, err = r.fork(ctx, g)
	return exit, err != nil && g.isBroken(), errors.Join(err, r.tearDown())
}

// generation returns the process to fork, held for one run. An old process is replaced in
// the background, a dead one at once.
func (t *Template) generation(ctx context.Context) (*generation, error) {
	for {
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the template is closed"}
		}
		if t.now.hold() {
			if t.now.old() && t.renewal == nil {
				t.renewal = make(chan struct{})
				// If it fails, the next run tries again and reports the error.
				go func() { _ = t.renew(context.WithoutCancel(ctx), t.renewal) }()
			}
			g := t.now
			t.mu.Unlock()
			return g, nil
		}
		wait := t.renewal
		if wait == nil {
			wait = make(chan struct{})
			t.renewal = wait
			t.mu.Unlock()
			if err := t.renew(ctx, wait); err != nil {
				return nil, err
			}
			continue
		}
		t.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// renew starts the next generation and retires the last one. The channel done is
// t.renewal, and closed at the end.
func (t *Template) renew(ctx context.Context, done chan struct{}) error {
	g, err := t.p.startGeneration(ctx, t.spec, t.boot)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(done)
	t.renewal = nil
	if err != nil {
		t.p.log.Warn("a template could not be renewed", "err", err)
		return err
	}
	if t.closed {
		g.retire()
		return nil
	}
	t.now.retire()
	t.now = g
	return nil
}

// Close implements [sandbox.Template]. It returns when the process is gone, or
// is left to the sandboxes that still need its namespaces.
func (t *Template) Close() error {
	t.mu.Lock()
	wait := t.renewal
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if wait != nil {
		<-wait
	}
	if !closed {
		t.now.retire()
	}
	return nil
}
