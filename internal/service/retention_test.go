package service_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/engine"
	"haft/internal/service"
	"haft/internal/store"
)

// made writes calls that ended some time ago.
func made(t *testing.T, w *world, org string, status haft.Status, n int, ago time.Duration) {
	t.Helper()
	b := store.Batch{Audit: []audit.Entry{{Org: org, Time: time.Now(), Kind: "call.closed", Actor: user(org, "ann"),
		Body: json.RawMessage("{}")}}}
	for i := range n {
		at := time.Now().Add(-ago + time.Duration(i)*time.Microsecond)
		b.Records = append(b.Records,
			haft.Record{Call: haft.Call{ID: haft.CallID(fmt.Sprintf("c_%s_%s_%v_%05d", org, status, ago, i)),
				Tool:      "work",
				Principal: user(org, "ann")}, Status: status, Created: at, Ended: at,
				Result: &haft.Result{Status: status}})
	}
	check(t, w.store.Commit(t.Context(), b))
}

func TestPruneCalls(t *testing.T) {
	const day = 24 * time.Hour
	cases := []struct {
		name   string
		keep   haft.Retention
		status haft.Status
		n      int
		ago    time.Duration
		want   int64 // of 100, left
	}{
		{"refusals by age", haft.Retention{}, haft.StatusDenied, 100, 8 * day, 0},
		{"refusals that are younger", haft.Retention{}, haft.StatusValidation, 100, 6 * day, 100},
		{"refusals by count", haft.Retention{RefusedCount: 30}, haft.StatusRate, 100, time.Hour, 30},
		{"refusals of a moment ago", haft.Retention{RefusedCount: 30}, haft.StatusRate, 100, time.Minute, 100},
		{"results by age", haft.Retention{}, haft.StatusSuccess, 100, 91 * day, 0},
		{"results that are younger", haft.Retention{}, haft.StatusError, 100, 89 * day, 100},
		{"results by count", haft.Retention{CallsCount: 40}, haft.StatusSuccess, 100, 2 * day, 40},
		{"results whose keys still hold", haft.Retention{CallsCount: 40}, haft.StatusSuccess, 100, 23 * time.Hour, 100},
		{"no bounds", haft.Retention{Refused: -1, RefusedCount: -1, Calls: -1, CallsCount: -1}, haft.StatusDenied, 100,
			9999 * day, 100},
		{"what is open", haft.Retention{}, haft.StatusPending, 100, 9999 * day, 100},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, allowAll, engine.Config{}, service.Config{Retention: c.keep})
			made(t, w, "o", c.status, c.n, c.ago)
			if done, err := w.PruneCalls(t.Context(), 100, time.Second); err != nil || !done {
				t.Fatalf("PruneCalls = %v, %v", done, err)
			}
			k, err := w.Retention(t.Context(), admin("o"), "")
			if err != nil || k.Calls != c.want {
				t.Errorf("%+v, %v; want %d calls left", k, err, c.want)
			}
			w.verify("o")
		})
	}
}

// Of two servers that nobody gave a name, one prunes at a time.
func TestPruneCalls_one_server_at_a_time(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	other := service.New(w.Engine, engine.Parts{Store: w.store, Registry: w.registry}, service.Config{}).Retainer
	left := func(prune *service.RetentionManager) int64 {
		t.Helper()
		if _, err := prune.PruneCalls(t.Context(), 100, time.Second); err != nil {
			t.Fatal(err)
		}
		k, err := w.Retention(t.Context(), admin("o"), "")
		if err != nil {
			t.Fatal(err)
		}
		return k.Calls
	}
	left(w.RetentionManager) // which has it for a minute
	made(t, w, "o", haft.StatusDenied, 10, 8*24*time.Hour)
	if n := left(other); n != 10 {
		t.Errorf("the other server pruned too: %d calls left, want 10", n)
	}
	if n := left(w.RetentionManager); n != 0 {
		t.Errorf("the first server left %d calls", n)
	}
}

// Calls that stay, more than a round gets through, keep neither those behind them nor other
// organisations from being pruned.
func TestPruneCalls_behind_those_that_stay(t *testing.T) {
	w := setup(t, allowAll, engine.Config{}, service.Config{Retention: haft.Retention{Calls: -1}})
	const week = 7 * 24 * time.Hour
	ran := store.Batch{}
	for i := range 1000 {
		at := time.Now().Add(-3*week + time.Duration(i)*time.Microsecond)
		ran.Records = append(ran.Records,
			haft.Record{Call: haft.Call{ID: haft.CallID(fmt.Sprintf("c_ran_%05d", i)), Tool: "work",
				Principal: user("a", "ann")}, Status: haft.StatusDenied, Created: at, Ended: at,
				Result: &haft.Result{Status: haft.StatusDenied, Tries: 1}})
	}
	check(t, w.store.Commit(t.Context(), ran))
	made(t, w, "a", haft.StatusDenied, 300, 2*week)
	made(t, w, "b", haft.StatusDenied, 300, 2*week)
	if done, err := w.PruneCalls(t.Context(), 20, time.Nanosecond); err != nil || !done {
		t.Errorf("PruneCalls = %v, %v; want to get to the end in 20 rounds", done, err)
	}
	for org, want := range map[string]int64{"a": 1000, "b": 0} {
		k, err := w.Retention(t.Context(), admin(org), "")
		if err != nil || k.Calls != want {
			t.Errorf("%s keeps %+v, %v; want %d calls", org, k, err, want)
		}
	}
}

// A key whose call was pruned: one that ran keeps its key for a day and its record for
// longer, and one that was refused never ran.
func TestPruneCalls_and_idempotency_keys(t *testing.T) {
	w := setup(t, allowAll, engine.Config{}, service.Config{Retention: haft.Retention{CallsCount: 1, RefusedCount: 1}})
	w.tool("o", "work", nil)
	c := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "ann"), IdempotencyKey: "k"}
	first := w.do(c)
	made(t, w, "o", haft.StatusSuccess, 50, time.Hour)
	check(t, w.PruneKeys(t.Context()))
	if _, err := w.PruneCalls(t.Context(), 1, time.Second); err != nil {
		t.Fatal(err)
	}
	if again := w.do(c); again.Call != first.Call || w.script.count() != 1 {
		t.Errorf("the repeated key gave call %s and the tool ran %d times, want %s once", again.Call, w.script.count(),
			first.Call)
	}
	refused := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "bob"),
		IdempotencyKey: "k"}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("work\x00\x00"+string(refused.Args))))
	if _, _, err := w.store.Calls.Claim(t.Context(), "o", "bob", "", "k", digest, "c_pruned", time.Now()); err != nil {
		t.Fatal(err)
	}
	want(t, w.do(refused), haft.StatusSuccess)
}

func TestSetRetention(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	hours := func(n int) haft.Millis { return haft.Millis(time.Duration(n) * time.Hour) }
	cases := []struct {
		name string
		by   haft.Principal
		org  string
		set  haft.Retention
		code haft.Code
		want haft.Millis // of calls
	}{
		{"lower", admin("o"), "", haft.Retention{Calls: hours(48)}, "", hours(48)},
		{"back to the server's", admin("o"), "", haft.Retention{}, "", hours(90 * 24)},
		{"raise", admin("o"), "", haft.Retention{Calls: hours(91 * 24)}, haft.CodeDenied, 0},
		{"no bound", admin("o"), "", haft.Retention{CallsCount: -1}, haft.CodeDenied, 0},
		{"too little", admin("o"), "", haft.Retention{Refused: hours(1) / 2}, haft.CodeInvalid, 0},
		{"of a user", user("o", "ann"), "", haft.Retention{Calls: hours(48)}, haft.CodeDenied, 0},
		{"of another organisation", admin("o"), "p", haft.Retention{Calls: hours(48)}, haft.CodeDenied, 0},
		{"raised by the operator", admin("ops"), "o", haft.Retention{Calls: hours(100 * 24)}, "", hours(100 * 24)},
		{"up to what the operator has raised it to", admin("o"), "", haft.Retention{Calls: hours(99 * 24)}, "",
			hours(99 * 24)},
		{"no bound by the operator", admin("ops"), "o", haft.Retention{Calls: -1}, "", -haft.Millis(time.Millisecond)},
	}
	for _, c := range cases {
		k, err := w.SetRetention(t.Context(), c.by, c.org, c.set)
		if haft.CodeOf(err) != c.code || err == nil && k.Retention.Calls != c.want {
			t.Errorf("%s: %+v, %v; want %v, code %q", c.name, k, err, c.want, c.code)
		}
	}
}

// A server makes the audit log searchable before somebody searches it.
func TestIndexAudit_without_a_search(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Beat: 10 * time.Millisecond}, service.Config{})
	made(t, w, "o", haft.StatusSuccess, 1, time.Hour)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		if kept, err := w.store.Audit.AuditHead(t.Context(), "o"); err != nil || kept.Seq == 0 {
			t.Fatalf("AuditHead = %+v, %v, want the entry", kept, err)
		}
		orgs, _, err := w.store.Audit.Unindexed(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(orgs) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute no search would find all entries of %q", orgs)
		}
	}
}
