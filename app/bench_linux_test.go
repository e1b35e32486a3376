package app_test

import (
	"context"
	"sync"
	"testing"

	"haft"
	"haft/app"
	"haft/executor/builtin"
)

// nothing is what a tool that does nothing takes and gives.
type nothing struct{}

// BenchmarkService64 is a built-in tool that does nothing through a whole service,
// recorded on the disk, for 64 callers.
func BenchmarkService64(b *testing.B) {
	s, err := app.OpenService(b.Context(), app.ServiceConfig{Config: app.Config{AllowReduced: true}, Data: b.TempDir(),
		Builtins: func(set *builtin.Set) error {
			return builtin.Add(set, builtin.Def{Name: "noop", Description: "Do nothing."},
				func(context.Context, builtin.Call, nothing) (nothing, error) { return nothing{}, nil })
		}})
	if err != nil {
		b.Skip(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	calls := make(chan struct{}, 64)
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for range calls {
				if res, err := s.Call(b.Context(), haft.Call{Tool: "noop", Principal: root()}); err != nil ||
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
