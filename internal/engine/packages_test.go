package engine_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/engine"
	"haft/internal/limit"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/store/sqlite"
	"haft/policy"
)

// installer counts how many installations run at once for each organisation.
type installer struct {
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	bound chan struct{} // closed when two organisations install at once
}

func (i *installer) Open(ctx context.Context, org string, v haft.Version, _ haft.Requirements,
	_ func(string)) ([]executor.Layer, func(), error) {
	i.mu.Lock()
	i.now[org]++
	i.most[org] = max(i.most[org], i.now[org])
	if len(i.now) == 2 {
		select {
		case <-i.bound:
		default:
			close(i.bound)
		}
	}
	i.mu.Unlock()
	select { // each waits for the other organisation, which no lock may keep away
	case <-i.bound:
	case <-ctx.Done():
	}
	time.Sleep(10 * time.Millisecond)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now[org]--
	return nil, func() {}, nil
}

// openPackages opens an engine with a built-in tool run_command, which run runs, and with packages.
func openPackages(t *testing.T, cfg engine.Config, run func(context.Context, executor.Request) error) *api {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	set := builtin.New()
	type nothing struct{}
	check(t, builtin.Add(set, builtin.Def{Name: "run_command", Description: "Run."},
		func(context.Context, builtin.Call, nothing) (nothing, error) { return nothing{}, nil }))
	script := &fake{runs: map[haft.CallID]int{}}
	script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		if err := run(ctx, req); err != nil {
			return nil, err
		}
		return ok(req, "{}"), nil
	})
	if cfg.Policy, err = policy.Compile([]byte(allowAll)); err != nil {
		t.Fatal(err)
	}
	cfg.Logger = testLogger(t)
	e, err := openAPI(t.Context(), engine.Parts{Store: s,
		Registry:  registry.New(s, registry.Config{Builtin: set.Tools()}),
		Executors: map[haft.Kind]executor.Executor{haft.KindBuiltin: script}}, cfg, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.Engine.Close()) })
	return e
}

// withPackages has p make a call that brings packages.
func withPackages(ctx context.Context, t *testing.T, e *api, p haft.Principal) {
	t.Helper()
	res, err := e.Call(ctx, haft.Call{Tool: "run_command", Principal: p, Args: json.RawMessage("{}"),
		Requirements: haft.Requirements{Pip: []string{"x"}}})
	if err != nil || res.Status != haft.StatusSuccess {
		t.Errorf("a call: %+v, %v", res, err)
	}
}

// ATTACKER: a user who may make calls, and makes many that bring packages.
// WEAKNESS: as many installers run at once as there are calls, so that nobody else gets packages, or a processor.
// VERIFIES: an owner installs once at a time, and others are not kept waiting.
func TestCall_installs_packages_of_an_owner_one_after_another(t *testing.T) {
	packages := &installer{now: map[string]int{}, most: map[string]int{}, bound: make(chan struct{})}
	e := openPackages(t, engine.Config{Packages: packages}, func(ctx context.Context, req executor.Request) error {
		_, release, err := req.Packages(ctx, haft.KindPython)
		if err == nil {
			release()
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	for _, p := range []haft.Principal{user("o", "ann"), user("o", "ann"), user("o", "ann"), user("p", "bob")} {
		calls.Go(func() { withPackages(ctx, t, e, p) })
	}
	calls.Wait()
	if n := packages.most["o"]; n != 1 {
		t.Errorf("an owner installs %d times at once", n)
	}
}

// slowDisk gives packages that are installed, when it is let.
type slowDisk struct{ opens, goOn chan struct{} }

func (d slowDisk) Open(context.Context, string, haft.Version, haft.Requirements,
	func(string)) ([]executor.Layer, func(), error) {
	d.opens <- struct{}{}
	<-d.goOn
	return nil, func() {}, nil
}

// ATTACKER: a user who makes calls with packages that are installed already.
// WEAKNESS: a call that brings packages leaves its place to another one, whether or not it waits, so that more calls
// compute at once than there are processors.
// VERIFIES: it keeps its place, unless it waits for an installation of its owner.
func TestCall_keeps_its_place_with_packages_that_are_installed(t *testing.T) {
	packages := slowDisk{opens: make(chan struct{}, 2), goOn: make(chan struct{})}
	e := openPackages(t, engine.Config{Packages: packages, Patience: time.Hour,
		Heavy: func(haft.Tool) bool { return true }, Limits: limit.Config{Running: 2, PerTenant: 2}},
		func(ctx context.Context, req executor.Request) error {
			_, release, err := req.Packages(ctx, haft.KindPython)
			if err == nil {
				release()
			}
			return err
		})
	var calls sync.WaitGroup
	call := func() { calls.Go(func() { withPackages(t.Context(), t, e, user("o", "ann")) }) }
	call()
	<-packages.opens
	if n := e.Stats().Limits; n.Running != 1 || n.Settled != 0 {
		t.Errorf("a call that waits for nobody: %+v", n)
	}
	call()
	until(t, "the second call waits for the first", func() bool {
		n := e.Stats().Limits
		return n.Running == 1 && n.Settled == 1
	})
	close(packages.goOn)
	calls.Wait()
}
