package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

// touching returns an executor that reports what the tool touched, if anybody asks.
func touching(accesses ...haft.Access) func(context.Context, executor.Request) (*haft.Result, error) {
	return func(_ context.Context, req executor.Request) (*haft.Result, error) {
		if req.Observe != nil {
			req.Observe(haft.Touched{Observed: true, Accesses: accesses})
		}
		return ok(req, "1"), nil
	}
}

// touchedInAudit returns what the audit says of the only call that has ended.
func touchedInAudit(t *testing.T, w *world) *haft.Touched {
	t.Helper()
	var body struct{ Touched *haft.Touched }
	for _, e := range w.audit("o") {
		if e.Kind == "call.ended" {
			check(t, json.Unmarshal(e.Body, &body))
		}
	}
	return body.Touched
}

// Only calls of tools with audit_files, and those that the configuration asks for, are observed.
func TestObserve(t *testing.T) {
	passwd := haft.Access{Kind: haft.AccessRead, Name: "/etc/passwd"}
	for _, audited := range []bool{true, false} {
		for _, asked := range []bool{true, false} {
			t.Run(fmt.Sprint("audited ", audited, " asked ", asked), func(t *testing.T) {
				var got []haft.Touched
				ask := func(haft.Call) (func(haft.Touched), bool) {
					return func(t haft.Touched) { got = append(got, t) }, asked
				}
				w := setup(t, allowAll, engine.Config{Egress: countedGuard{}, Observe: ask})
				w.tool("o", "work", func(d *haft.Draft) {
					d.Settings.AuditFiles, d.Settings.Network = audited, []string{"a.example"}
				})
				w.script.set(touching(passwd))
				res := w.call(user("o", "ann"), "work", "{}")
				want(t, res, haft.StatusSuccess)
				all := []haft.Access{passwd, {Kind: haft.AccessHost, Name: "a.example"}}
				given := all
				if !asked && !audited {
					given = all[1:]
				}
				if len(got) != 1 || got[0].Observed != (asked || audited) || !slices.Equal(got[0].Accesses, given) {
					t.Errorf("who asked was given %+v", got)
				}
				inAudit := touchedInAudit(t, w)
				if good := inAudit != nil && slices.Equal(inAudit.Accesses, all[:1]); audited != good {
					t.Errorf("the audit has %+v", inAudit)
				}
				if text, _ := json.Marshal(res); strings.Contains(string(text), "passwd") {
					t.Errorf("the caller is shown %s", text)
				}
			})
		}
	}
}

// The audit keeps a bounded list, without the secrets of the call.
func TestObserve_is_bounded_and_redacted(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", func(d *haft.Draft) { d.Settings.AuditFiles = true })
	many := []haft.Access{{Kind: haft.AccessRead, Name: "/work/s3cret-value-of-the-call"}}
	for i := range 1000 {
		many = append(many, haft.Access{Kind: haft.AccessRead, Name: fmt.Sprint("/work/", i)})
	}
	w.script.set(touching(many...))
	want(t, w.do(haft.Call{Tool: "work", Principal: user("o", "ann"),
		Env: map[string]string{"API_TOKEN": "s3cret-value-of-the-call"}}), haft.StatusSuccess)
	got := touchedInAudit(t, w)
	if got == nil || len(got.Accesses) != 200 || !got.Cut || strings.Contains(got.Accesses[0].Name, "s3cret") {
		t.Errorf("the audit has %+v", got)
	}
}
