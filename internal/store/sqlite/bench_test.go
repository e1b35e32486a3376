package sqlite_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// calls makes a batch of n calls that begin or end.
func calls(from, n int, status haft.Status) store.Batch {
	var b store.Batch
	for i := from; i < from+n; i++ {
		p := haft.Principal{Org: "acme", User: "ann", Agent: "x"}
		id := haft.CallID(fmt.Sprintf("call_%016d", i))
		r := haft.Record{
			Call:   haft.Call{ID: id, Tool: "add", Principal: p, Args: json.RawMessage(`{"a":1,"b":2}`)},
			ToolID: "tool_1", Digest: "sha256:0123456789abcdef", Status: status,
			Created: at.Add(time.Duration(i) * time.Microsecond), Owner: "p1",
		}
		if status.Final() {
			r.Result = &haft.Result{Call: id, Tool: "add", Status: status, Value: json.RawMessage(`3`),
				Sandbox: haft.Sandbox{Provider: "builtin"}}
		}
		b.Records = append(b.Records, r)
		b.Events = append(b.Events, haft.Event{Seq: 1, Type: haft.EventExecuting, Time: at, Call: id, Tool: "add",
			Principal: p, Data: json.RawMessage(`{"tool":"add"}`)})
		b.Audit = append(b.Audit, audit.Entry{Org: "acme", Kind: "call.started", Actor: p, Call: id, Tool: "add",
			Time: at, Body: json.RawMessage(`{"args":"sha256:0123"}`)})
	}
	return b
}

// BenchmarkCommit times a call's two commits, in batches of several calls. It
// reports calls per second.
func BenchmarkCommit(b *testing.B) {
	for _, durable := range []bool{true, false} {
		for _, size := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("durable=%v/calls=%d", durable, size), func(b *testing.B) {
				cfg := sqlite.Config{}
				if durable {
					cfg.Dir = b.TempDir()
				}
				s := open(b, cfg)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					for _, status := range []haft.Status{haft.StatusRunning, haft.StatusSuccess} {
						if err := s.Commit(b.Context(), calls(n, size, status)); err != nil {
							b.Fatal(err)
						}
					}
					n += size
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}
