package engine_test

import (
	"context"
	"sync"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/store/sqlite"
	"haft/policy"
)

// nothing is the input and output of a tool that does nothing.
type nothing struct{}

// benchWorld is an engine with a store on the disk and a built-in tool that does
// nothing.
func benchWorld(b *testing.B) *api {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	set := builtin.New()
	if err := builtin.Add(set, builtin.Def{Name: "noop", Description: "Do nothing."},
		func(context.Context, builtin.Call, nothing) (nothing, error) { return nothing{}, nil }); err != nil {
		b.Fatal(err)
	}
	rules, err := policy.Compile([]byte(allowAll))
	if err != nil {
		b.Fatal(err)
	}
	e, err := openAPI(b.Context(), engine.Parts{
		Store: s, Registry: registry.New(s, registry.Config{Builtin: set.Tools()}),
		Executors: map[haft.Kind]executor.Executor{haft.KindBuiltin: set},
	}, engine.Config{Policy: rules}, service.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// BenchmarkCall is the whole pipeline with a durable audit, one caller.
func BenchmarkCall(b *testing.B) {
	e := benchWorld(b)
	for b.Loop() {
		if res, err := e.Call(b.Context(), haft.Call{Tool: "noop", Principal: user("o", "ann")}); err != nil ||
			res.Status != haft.StatusSuccess {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkCall64 is the same with 64 callers at once.
func BenchmarkCall64(b *testing.B) {
	e := benchWorld(b)
	var wg sync.WaitGroup
	calls := make(chan struct{}, 64)
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for range calls {
				if res, err := e.Call(b.Context(), haft.Call{Tool: "noop", Principal: user("o", "ann")}); err != nil ||
					res.Status != haft.StatusSuccess {
					b.Error(res, err)
				}
			}
		})
	}
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
