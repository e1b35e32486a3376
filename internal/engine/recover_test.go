package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/engine"
	"haft/internal/store"
)

// leftOpen writes the record of a call that a dead process left.
func leftOpen(t *testing.T, w *world, id haft.CallID, status haft.Status, sealed string, tool *haft.Tool) {
	t.Helper()
	now := time.Now()
	r := haft.Record{Call: haft.Call{ID: id, Tool: tool.Name, Principal: user("o", "ann")}, ToolID: tool.ID,
		Digest: tool.Version.Digest,
		Status: status, Owner: "p_dead", Created: now}
	if status == haft.StatusRunning {
		r.Started = now
	}
	if sealed != "" {
		r.Sealed = json.RawMessage(sealed)
	}
	check(t, w.store.Commit(t.Context(), store.Batch{Records: []haft.Record{r},
		Audit: []audit.Entry{{Org: "o", Time: now, Kind: "call.started", Actor: r.Call.Principal, Call: id,
			Body: json.RawMessage("{}")}}}))
}

func TestRecover(t *testing.T) {
	cases := []struct {
		name       string
		status     haft.Status
		sealed     string
		idempotent bool
		want       haft.Status
		runs       int
	}{
		{name: "it had begun", status: haft.StatusRunning, want: haft.StatusUnknown},
		{name: "it had begun and may run twice", status: haft.StatusRunning, sealed: `{"args":{"x":1},"async":true}`,
			idempotent: true, want: haft.StatusSuccess, runs: 1},
		{name: "it had begun and may not run twice", status: haft.StatusRunning,
			sealed: `{"args":{"x":1},"async":true}`, want: haft.StatusUnknown},
		{name: "it was queued", status: haft.StatusQueued, sealed: `{"args":{"x":1},"async":true}`,
			want: haft.StatusSuccess, runs: 1},
		{name: "it was queued and cannot be read", status: haft.StatusQueued, sealed: `{?`, want: haft.StatusUnknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, allowAll, engine.Config{})
			tool := w.tool("o", "work", func(d *haft.Draft) { d.Settings.Idempotent = c.idempotent })
			leftOpen(t, w, "c_left", c.status, c.sealed, tool)
			check(t, w.Engine.Close())
			again := open(t, w.store, allowAll, engine.Config{})
			want(t, again.end(user("o", "ann"), "c_left"), c.want)
			if n := again.script.count(); n != c.runs {
				t.Errorf("it ran %d times, want %d", n, c.runs)
			}
			again.verify("o")
		})
	}
}

func TestClose_leaves_queued_calls_to_the_next(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: one, effect: limit, concurrency: {max: 1}}
`, engine.Config{})
	w.tool("o", "work", nil)
	started := make(chan struct{})
	w.script.set(func(ctx context.Context, r executor.Request) (*haft.Result, error) {
		close(started)
		<-ctx.Done()
		return failing(r, haft.StatusCancelled, haft.FailCancelled), nil
	})
	p := user("o", "ann")
	var ids []haft.CallID
	for range 3 {
		rec, err := w.Submit(t.Context(), haft.Call{Tool: "work", Principal: p, Args: json.RawMessage(`{"x":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.Call.ID)
	}
	<-started
	check(t, w.Engine.Close())
	again := open(t, w.store, allowAll, engine.Config{})
	counts := map[haft.Status]int{}
	for _, id := range ids {
		counts[again.end(p, id).Status]++
	}
	if counts[haft.StatusCancelled] != 1 || counts[haft.StatusSuccess] != 2 {
		t.Errorf("the calls ended as %v", counts)
	}
}
