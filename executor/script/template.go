package script

import (
	"context"
	"errors"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox"
)

// unused is how long a template without forks is kept.
const unused = 5 * time.Minute

// templates keeps prepared interpreters that cells are forked from, where the
// provider can do that. They hold no tenant's code, so tenants share them.
type templates struct {
	ctx    context.Context // the lifetime of all templates
	forker sandbox.Forker  // nil where there is none

	mu     sync.Mutex
	closed bool
	all    map[string]*template
}

// A template is one prepared interpreter. Its mu is held while it is made.
type template struct {
	mu      sync.Mutex
	t       sandbox.Template
	idle    *time.Timer
	release func() // of the layers that it sees
}

// newTemplates returns templates of provider, if it is a Forker.
func newTemplates(ctx context.Context, provider sandbox.Provider) *templates {
	f, _ := provider.(sandbox.Forker)
	return &templates{ctx: ctx, forker: f, all: map[string]*template{}}
}

// runner returns a function that runs cells as forks of a template, or nil where
// that cannot be done. Policy is the digest of what spec confines a run by, and of
// the layers that it sees. Nothing of a layer runs in the template itself, which
// is less confined than its forks.
func (ts *templates) runner(rt *Runtime, spec sandbox.Spec, policy string, layers []executor.Layer) runFunc {
	if ts.forker == nil || rt.Kind != haft.KindPython || !ts.forker.CanFork(ts.ctx) {
		return nil
	}
	key := rt.Digest + policy
	spec.Argv = rt.Argv
	return func(ctx context.Context, s sandbox.Spec) (sandbox.Exit, error) {
		t, err := ts.get(ctx, key, spec, layers)
		if err != nil {
			return sandbox.Exit{}, err
		}
		return t.Run(ctx, s)
	}
}

// get returns the template of key, made if need be.
func (ts *templates) get(ctx context.Context, key string, spec sandbox.Spec,
	layers []executor.Layer) (sandbox.Template, error) {
	ts.mu.Lock()
	if ts.closed {
		ts.mu.Unlock()
		return nil, errors.New("make a template: the executor is closed")
	}
	e := ts.all[key]
	if e == nil {
		e = &template{}
		ts.all[key] = e
	}
	ts.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.t == nil {
		release, err := hold(layers)
		if err != nil {
			return nil, err
		}
		t, err := ts.forker.Template(context.WithoutCancel(ctx), spec, pythonHarness()+"\npreload()\n")
		if err != nil {
			release()
			return nil, err
		}
		e.t, e.release = t, release
		e.idle = time.AfterFunc(unused, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.end()
		})
	}
	e.idle.Reset(unused)
	return e.t, nil
}

// end closes the template. Preconditions: mu is held.
func (e *template) end() {
	if e.t == nil {
		return
	}
	e.idle.Stop()
	// Cells made from it go on, and nothing can be done about a failed close.
	_ = e.t.Close()
	e.release()
	e.t = nil
}

// close ends all templates.
func (ts *templates) close() {
	ts.mu.Lock()
	ts.closed = true
	all := ts.all
	ts.all = nil
	ts.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		e.end()
		e.mu.Unlock()
	}
}
