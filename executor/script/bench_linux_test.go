package script_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
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

// Calls without pauses by four callers: what cells cost as fast as they can be made. cpu-ms/op is the processor time of
// the machine, which should do nothing else.
func BenchmarkExecute_sustained(b *testing.B) {
	x := setupLocal(b, haft.KindPython, script.Config{})
	req := executor.Request{
		Stored: true, Kind: haft.KindPython, Source: "def f(a: int):\n    return a + 1\n", Args: json.RawMessage(`{"a":1}`),
	}
	execute(b, x, req)
	busy := busyTime(b)
	b.SetParallelism(2) // for each of the processors
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res := execute(b, x, req); res.Status != haft.StatusSuccess {
				b.Errorf("%+v", res.Error)
			}
		}
	})
	b.ReportMetric(float64((busyTime(b)-busy).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// busyTime is how long the processors of the machine were busy.
func busyTime(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	var user, nice, system, idle, wait, irq, soft int64
	_, err = fmt.Sscanf(string(raw), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+nice+system+irq+soft) * 10 * time.Millisecond
}
