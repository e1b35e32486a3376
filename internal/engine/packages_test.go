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

// ATTACKER: a user who may make calls, and makes many that bring packages.
// WEAKNESS: as many installers run at once as there are calls, so that nobody else gets packages, or a processor.
// VERIFIES: an owner installs once at a time, and others are not kept waiting.
func TestCall_installs_packages_of_an_owner_one_after_another(t *testing.T) {
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
		_, release, err := req.Packages(ctx, haft.KindPython)
		if err != nil {
			return nil, err
		}
		release()
		return ok(req, "{}"), nil
	})
	rules, err := policy.Compile([]byte(allowAll))
	if err != nil {
		t.Fatal(err)
	}
	packages := &installer{now: map[string]int{}, most: map[string]int{}, bound: make(chan struct{})}
	e, err := openAPI(t.Context(), engine.Parts{Store: s,
		Registry:  registry.New(s, registry.Config{Builtin: set.Tools()}),
		Executors: map[haft.Kind]executor.Executor{haft.KindBuiltin: script}},
		engine.Config{Policy: rules, Packages: packages, Logger: testLogger(t)}, service.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.Engine.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	for _, p := range []haft.Principal{user("o", "ann"), user("o", "ann"), user("o", "ann"), user("p", "bob")} {
		calls.Go(func() {
			res, err := e.Call(ctx, haft.Call{Tool: "run_command", Principal: p, Args: json.RawMessage("{}"),
				Requirements: haft.Requirements{Pip: []string{"x"}}})
			if err != nil || res.Status != haft.StatusSuccess {
				t.Errorf("a call: %+v, %v", res, err)
			}
		})
	}
	calls.Wait()
	if n := packages.most["o"]; n != 1 {
		t.Errorf("an owner installs %d times at once", n)
	}
}
