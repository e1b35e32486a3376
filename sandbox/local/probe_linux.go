package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// prove makes sure that the machine gives the controls that are assumed.
func (p *Provider) prove(ctx context.Context) error {
	if p.proven.Load() {
		return nil
	}
	p.proving.Lock()
	defer p.proving.Unlock()
	if p.proven.Load() {
		return nil
	}
	return p.probe(ctx)
}

// probe sets up a sandbox without a command, and gives up failing controls until it
// succeeds.
// Preconditions: p.proving is held.
func (p *Provider) probe(ctx context.Context) error {
	for range len(haft.Controls()) {
		err := p.try(ctx)
		if err == nil {
			p.proven.Store(true)
			return nil
		}
		step, ok := errors.AsType[*sandbox.SetupError](err)
		if !ok {
			return err
		}
		if !p.machine.degrade(step) {
			message := "this machine cannot confine anything"
			if step.Step == "landlock" {
				message += fmt.Sprintf(": it gives neither namespaces nor Landlock of ABI %d (Linux 6.2)", reducedABI)
			}
			return &haft.Error{Code: haft.CodeUnavailable, Message: message, Err: err}
		}
		p.machine.setLevel()
	}
	return errors.New("the sandbox could not be probed")
}

// runUnproven runs a command before the isolation is proven. Its own set-up is the proof:
// a single command should not have to wait for a probe. Only if the set-up fails, the
// provider is probed; if it then promises less, the run, which has not begun, is tried
// again.
func (p *Provider) runUnproven(ctx context.Context, spec *sandbox.Spec) (sandbox.Exit, error) {
	p.proving.Lock()
	held := true
	release := func() {
		if held {
			held = false
			p.proving.Unlock()
		}
	}
	defer release()
	if p.proven.Load() {
		release()
		return p.run(ctx, spec, nil)
	}
	before := p.machine.isolation
	if err := p.admit(sandbox.Need{}, before); err != nil {
		return sandbox.Exit{}, err
	}
	exit, err := p.run(ctx, spec, func() {
		p.proven.Store(true)
		release()
	})
	if _, ok := errors.AsType[*sandbox.SetupError](err); !ok || !held {
		return exit, err
	}
	if e := p.probe(ctx); e != nil {
		return exit, errors.Join(err, e)
	}
	if slices.Equal(before.Controls, p.machine.isolation.Controls) {
		return exit, err
	}
	if err := p.admit(sandbox.Need{}, p.machine.isolation); err != nil {
		return sandbox.Exit{}, err
	}
	release()
	return p.run(ctx, spec, nil)
}

// admit reports why nothing may run with the isolation that this machine gives: it is
// less than what is needed, or reduced, which the operator has to allow.
func (p *Provider) admit(need sandbox.Need, have haft.Isolation) error {
	if have.Level == haft.LevelReduced && !p.config.AllowReduced {
		return &haft.Error{Code: haft.CodeDenied, Message: refusal(have)}
	}
	return need.Check(have)
}

// refusal says what a reduced sandbox lacks, and what can be done.
func refusal(have haft.Isolation) string {
	var lacks []string
	why := ""
	for _, c := range levelControls() {
		if i := slices.IndexFunc(have.Missing, func(g haft.Gap) bool { return g.Control == c }); i >= 0 {
			lacks = append(lacks, string(c))
			why = cmp.Or(why, have.Missing[i].Reason)
		}
	}
	return fmt.Sprintf("the sandbox here is reduced, which has to be allowed: there is no %s (%s). Give Haft "+
		"namespaces "+
		"(haft doctor says how; in a container, the flags in docs/deploy.md), or allow it with --allow-reduced, "+
		"or use another sandbox", strings.Join(lacks, ", "), why)
}

// try sets up a sandbox in which nothing runs.
func (p *Provider) try(ctx context.Context) error {
	spec := sandbox.Spec{Limits: haft.DefaultLimits()}
	if info, err := os.Lstat("/usr"); err == nil && info.IsDir() {
		spec.Mounts = []sandbox.Mount{{Host: "/usr", Inside: "/usr"}}
	}
	r := &run{p: p, spec: &spec, flood: make(chan struct{}, 2), initTasks: p.machine.initTasks()}
	_, err := r.runCold(ctx, nil)
	if errors.Is(err, io.EOF) && r.private != nil {
		err = nil // it was ready, and ended, having no command
	}
	if e := r.tearDown(); err == nil && e != nil {
		err = fmt.Errorf("probe: %w", e)
	}
	return err
}
