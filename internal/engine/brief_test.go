package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/internal/engine"
	"haft/internal/store"
)

// TestBrief_leaves_accepted_calls: a command does not begin calls that a server accepted, for
// which it would have to wait, also not those that the server had begun.
func TestBrief_leaves_accepted_calls(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	tool := w.tool("o", "work", func(d *haft.Draft) { d.Settings.Idempotent = true })
	check(t, w.Engine.Close())
	b := store.Batch{Owner: "p_dead"}
	for id, status := range map[haft.CallID]haft.Status{"c_1": haft.StatusQueued, "c_2": haft.StatusRunning} {
		b.Records = append(b.Records, haft.Record{Call: haft.Call{ID: id, Tool: "work", Principal: user("o", "ann")},
			ToolID: tool.ID, Digest: tool.Version.Digest, Status: status, Owner: "p_dead", Created: time.Now(),
			Sealed: json.RawMessage(`{"args":{"x":1},"async":true,"free":true}`)})
	}
	check(t, w.store.Commit(t.Context(), b))
	brief := open(t, w.store, allowAll, engine.Config{Brief: true, Beat: 10 * time.Millisecond})
	want(t, brief.end(user("o", "ann"), brief.submit("work", 1)[0]), haft.StatusSuccess)
	check(t, brief.Engine.Close())
	if n := brief.script.count(); n != 1 {
		t.Errorf("a command ran %d calls, and made one", n)
	}
	next := open(t, w.store, allowAll, engine.Config{})
	for _, r := range b.Records {
		want(t, next.end(user("o", "ann"), r.Call.ID), haft.StatusSuccess)
	}
}
