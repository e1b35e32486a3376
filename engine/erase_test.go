package engine_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/engine"
	"haft/executor"
)

// export returns what is exported of a subject.
func export(t *testing.T, w *world, p haft.Principal, of haft.Subject) string {
	t.Helper()
	var out bytes.Buffer
	check(t, w.Export(t.Context(), p, of, &out))
	return out.String()
}

// Everything of a user goes, what is running ends, what is others' stays, and the audit
// verifies.
func TestErase_user(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	w.tool("o", "work", nil)
	w.call(user("o", "annabel"), "work", `{"path":"of annabel"}`)
	w.call(user("o", "bob"), "work", `{"path":"of bob"}`)
	begun := make(chan struct{})
	w.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	running, err := w.Submit(t.Context(), haft.Call{Tool: "work", Args: []byte(`{}`), Principal: user("o", "annabel"), IdempotencyKey: "k"})
	check(t, err)
	<-begun
	for name, p := range map[string]haft.Principal{"a user": user("o", "annabel"), "a manager of another organisation": admin("p")} {
		if _, err := w.Erase(t.Context(), p, haft.Subject{Org: "o", User: "annabel"}); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s erases: %v", name, err)
		}
		if err := w.Export(t.Context(), p, haft.Subject{Org: "o"}, &bytes.Buffer{}); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s exports: %v", name, err)
		}
	}
	before := export(t, w, admin("o"), haft.Subject{User: "annabel"})
	for _, part := range []string{`"type":"call"`, `"type":"event"`, `"type":"audit"`, `"type":"usage"`, "of annabel"} {
		if !strings.Contains(before, part) {
			t.Errorf("the export has no %s", part)
		}
	}
	if strings.Contains(before, "bob") {
		t.Error("the export of one user names another")
	}
	done, err := w.Erase(t.Context(), admin("o"), haft.Subject{User: "annabel"})
	if err != nil || done.Cancelled != 1 || done.Entries < 3 {
		t.Fatalf("Erase = %+v, %v", done, err)
	}
	if _, err := w.Record(t.Context(), admin("o"), running.Call.ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the call is still there: %v", err)
	}
	after := export(t, w, admin("o"), haft.Subject{})
	if strings.Contains(after, "annabel") || !strings.Contains(after, "of bob") {
		t.Errorf("after the erasure there is\n%s", after)
	}
	w.verify("o")
	sums, err := w.Usage(t.Context(), admin("o"), haft.UsageQuery{From: time.Now().Add(-time.Hour)})
	if err != nil || len(sums) != 1 || sums[0].Calls != 3 {
		t.Errorf("Usage = %+v, %v; want 3 calls", sums, err)
	}
	w.script.set(echo)
	w.call(user("o", "bob"), "work", `{}`) // the chain of the audit goes on
	w.verify("o")
}

func TestErase_organisation(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	for _, org := range []string{"o", "p"} {
		w.tool(org, "work", nil)
		w.call(user(org, "annabel"), "work", `{"path":"of annabel"}`)
	}
	if _, err := w.Erase(t.Context(), admin("ops"), haft.Subject{Org: "o"}); err != nil {
		t.Fatal(err)
	}
	if left := export(t, w, admin("ops"), haft.Subject{Org: "o"}); strings.Contains(left, "annabel") || strings.Contains(left, `"work"`) {
		t.Errorf("after the erasure there is\n%s", left)
	}
	if other := export(t, w, admin("p"), haft.Subject{}); !strings.Contains(other, "of annabel") {
		t.Error("the other organisation has lost its call")
	}
	w.verify("o")
	w.verify("p")
}
