package service_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/engine"
	"haft/internal/store"
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
	running, err := w.Submit(t.Context(), haft.Call{Tool: "work", Args: []byte(`{}`), Principal: user("o", "annabel"),
		IdempotencyKey: "k"})
	check(t, err)
	<-begun
	for name, p := range map[string]haft.Principal{"a user": user("o", "annabel"),
		"a manager of another organisation": admin("p")} {
		if _, err := w.Erase(t.Context(), p, haft.Subject{Org: "o", User: "annabel"}); haft.CodeOf(
			err) != haft.CodeDenied {
			t.Errorf("%s erases: %v", name, err)
		}
		if err := w.Export(t.Context(), p, haft.Subject{Org: "o"},
			&bytes.Buffer{}); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s exports: %v", name, err)
		}
	}
	for _, name := range []string{"annabel", "bob"} {
		check(t, w.store.Keys.PutKey(t.Context(), auth.Key{ID: "k_" + name, Org: "o", User: name,
			Secret: auth.Proof{Hash: []byte("hunter2")}}))
	}
	before := export(t, w, admin("o"), haft.Subject{User: "annabel"})
	for _, part := range []string{`"type":"api_key","data":{"id":"k_annabel"`, `"type":"call"`, `"type":"event"`,
		`"type":"audit"`, `"type":"usage"`, "of annabel"} {
		if !strings.Contains(before, part) {
			t.Errorf("the export has no %s", part)
		}
	}
	if all := export(t, w, admin("ops"), haft.Subject{Org: "o"}); strings.Count(all, `"kind":"data.exported"`) != 2 {
		t.Error("the audit of the organisation does not say who exported")
	}
	if strings.Contains(before, "hunter2") || strings.Contains(before, "aHVudGVyMg") {
		t.Error("the export has the hash of a key")
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
	if left := export(t, w, admin("ops"), haft.Subject{Org: "o"}); strings.Contains(left, "annabel") ||
		strings.Contains(left, `"work"`) {
		t.Errorf("after the erasure there is\n%s", left)
	}
	if other := export(t, w, admin("p"), haft.Subject{}); !strings.Contains(other, "of annabel") {
		t.Error("the other organisation has lost its call")
	}
	w.verify("o")
	w.verify("p")
}

// A manager erases calls, also the own ones, and not the traces of what managers did. The
// operator of the server does that.
func TestErase_leaves_what_managers_did(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	w.tool("o", "work", nil)
	mallory := haft.Principal{Org: "o", User: "mallory", Roles: []string{"admin"}}
	if _, err := w.SetRetention(t.Context(), mallory, "", haft.Retention{CallsCount: 5}); err != nil {
		t.Fatal(err)
	}
	w.call(mallory, "work", `{"path":"of mallory"}`)
	cases := []struct {
		name string
		by   haft.Principal
		of   haft.Subject
		left []string // kinds of entries that name mallory
	}{
		{"himself", mallory, haft.Subject{User: "mallory"}, []string{"retention.set", "data.erased"}},
		{"the organisation", mallory, haft.Subject{}, []string{"retention.set", "data.erased", "data.erased"}},
		{"by the operator", admin("ops"), haft.Subject{Org: "o", User: "mallory"},
			[]string{"data.erased", "data.erased"}},
	}
	for _, c := range cases {
		if _, err := w.Erase(t.Context(), c.by, c.of); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var left []string
		for e, err := range w.store.Audit.Trail(t.Context(), "o") {
			check(t, err)
			if e.Actor.User == "mallory" {
				left = append(left, e.Kind)
			}
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: the audit has %v of mallory, want %v", c.name, left, c.left)
		}
		w.verify("o")
	}
	k, err := w.Retention(t.Context(), admin("o"), "")
	if err != nil || k.Retention != haft.DefaultRetention() {
		t.Errorf("Retention of an erased organisation = %+v, %v", k, err)
	}
}

// Rewriting the files of the store holds up every organisation: only the operator does.
func TestErase_scrubs_for_the_operator(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	for _, c := range []struct {
		by  haft.Principal
		due string
	}{{admin("o"), "1"}, {admin("ops"), ""}} {
		if _, err := w.Erase(t.Context(), c.by, haft.Subject{Org: "o", User: "annabel"}); err != nil {
			t.Fatal(err)
		}
		if due, err := w.store.Settings.Setting(t.Context(), store.ScrubDue); err != nil || due != c.due {
			t.Errorf("after an erasure by %s scrubbing is due: %q, %v; want %q", c.by.Org, due, err, c.due)
		}
	}
}

// The audit is erased in parts, so that others write in between, and verifies.
func TestErase_many_entries(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	const n = 25_000
	for range n / 1000 {
		b := store.Batch{}
		for range 1000 {
			b.Audit = append(b.Audit, audit.Entry{Org: "o", Time: time.Now(), Kind: "call.closed", Call: "c",
				Actor: user("o", "annabel")})
		}
		check(t, w.store.Commit(t.Context(), b))
	}
	done, err := w.Erase(t.Context(), admin("o"), haft.Subject{User: "annabel"})
	if err != nil || done.Entries != n {
		t.Fatalf("Erase = %+v, %v", done, err)
	}
	parts := 0
	for e, err := range w.store.Audit.Trail(t.Context(), "o") {
		check(t, err)
		if e.Kind == audit.ErasedKind {
			parts++
		}
	}
	if parts != 3 {
		t.Errorf("the audit was erased in %d parts, want 3", parts)
	}
	w.verify("o")
}

// Somebody who goes on to call does not keep the erasure from ending.
func TestErase_of_who_goes_on(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	w.script.set(func(ctx context.Context, _ executor.Request) (*haft.Result, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	var calling sync.WaitGroup
	defer calling.Wait()
	defer cancel()
	begun := make(chan struct{}, 4)
	for range cap(begun) {
		calling.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = w.Submit(ctx, haft.Call{Tool: "work", Args: []byte(`{}`), Principal: user("o", "annabel")})
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	_, err := w.Erase(ctx, admin("o"), haft.Subject{User: "annabel"})
	check(t, err)
}
