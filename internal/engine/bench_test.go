package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"syscall"
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

// nothing is the input and output of a tool that does nothing.
type nothing struct{}

// items is the input of a tool that is given much.
type items struct {
	Items []string `json:"items"`
	Mode  string   `json:"mode,omitempty"`
}

// benchWorld is an engine with a store on the disk and built-in tools that do
// nothing.
func benchWorld(b *testing.B, text string) *api {
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
	if err := builtin.Add(set, builtin.Def{Name: "take", Description: "Take items."},
		func(context.Context, builtin.Call, items) (nothing, error) { return nothing{}, nil }); err != nil {
		b.Fatal(err)
	}
	rules, err := policy.Compile([]byte(text))
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

// processorTime is what this process has used of the processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCall is the whole pipeline with a durable audit, one caller. cpu-ms/op is the processor time of
// this process, with what it does in the background.
func BenchmarkCall(b *testing.B) {
	e := benchWorld(b, allowAll)
	before := processorTime(b)
	defer func() { b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		if res, err := e.Call(b.Context(), haft.Call{Tool: "noop", Principal: user("o", "ann")}); err != nil ||
			res.Status != haft.StatusSuccess {
			b.Fatal(res, err)
		}
	}
}

// BenchmarkCall64 is the same with 64 callers at once.
func BenchmarkCall64(b *testing.B) {
	e := benchWorld(b, allowAll)
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

// BenchmarkCall_arguments is a call with 100 KB of arguments, which a rule and an output filter look at.
func BenchmarkCall_arguments(b *testing.B) {
	e := benchWorld(b, allowAll+`
rules:
  - id: few
    effect: deny
    reason: too many
    when: size(args.items) > 100000
filters:
  - id: none
    "on": output
    action: mask
    pattern: never-printed
`)
	args, err := json.Marshal(items{Items: slices.Repeat([]string{"an item of some length"}, 4000)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(args)))
	for b.Loop() {
		res, err := e.Call(b.Context(), haft.Call{Tool: "take", Args: args, Principal: user("o", "ann")})
		if err != nil || res.Status != haft.StatusSuccess {
			b.Fatal(res, err)
		}
	}
}
