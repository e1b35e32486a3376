package script_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
)

// benchmark measures calls that find a idle cell, one after the other, with
// time for the pool to make the next.
func benchmark(b *testing.B, x *script.Executor) { benchmarkWith(b, x, executor.Request{}) }

// benchmarkWith is benchmark with a request to begin with.
func benchmarkWith(b *testing.B, x *script.Executor, req executor.Request) {
	req.Stored = true // as the engine says of tools
	req.Kind, req.Source, req.Args = haft.KindPython, "def f(a: int):\n    return a + 1\n", json.RawMessage(`{"a":1}`)
	execute(b, x, req)
	hits := 0
	var execution time.Duration
	for b.Loop() {
		b.StopTimer()
		<-time.After(50 * time.Millisecond) // for the cell to be replaced
		b.StartTimer()
		res := execute(b, x, req)
		if res.Status != haft.StatusSuccess {
			b.Fatalf("%+v", res.Error)
		}
		if res.Timeline.Cell == "hit" {
			hits++
		}
		execution += res.Timeline.Execute.D()
	}
	b.ReportMetric(float64(hits)/float64(b.N), "hits/op")
	b.ReportMetric(float64(execution.Microseconds())/float64(b.N), "execute-µs/op")
}

func BenchmarkExecute_process(b *testing.B) {
	benchmark(b, setup(b, haft.KindPython, script.Config{}))
}

func BenchmarkExecute_local(b *testing.B) {
	benchmark(b, setupLocal(b, haft.KindPython, script.Config{}))
}

// A call that may use the network, and does not.
func BenchmarkExecute_egress(b *testing.B) {
	benchmarkWith(b, setupLocal(b, haft.KindPython, script.Config{}), executor.Request{
		Network: sandbox.NetworkEgress, ServeEgress: func(context.Context, net.Conn) {},
	})
}

// A call that is observed: a fresh fork, and every file that it opens passes Haft.
func BenchmarkExecute_observed(b *testing.B) {
	benchmarkWith(b, setupLocal(b, haft.KindPython, script.Config{}), executor.Request{
		Observe: func(haft.Touched) {},
	})
}
