package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/callenv"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/value"
	"haft/policy"
)

// TestUseApproval_expired: an approval that was given in time and has expired when the call
// runs, such as after a long wait in the queue, lets nothing run.
func TestUseApproval_expired(t *testing.T) {
	cfg := Config{}.filled()
	au := &authorizer{digests: secret.NewDigester(cfg.DigestKey)}
	for name, c := range map[string]struct {
		expires time.Time
		refused string
	}{
		"in time": {expires: time.Now().Add(time.Hour)},
		"expired": {expires: time.Now().Add(-time.Millisecond), refused: "the approval has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			ex := &execution{}
			ex.tool = &registry.Compiled{}
			ex.args = json.RawMessage(`{"x":1}`)
			ex.approval = &haft.Approval{State: haft.ApprovalApproved, Binds: au.digests.Binds("", ex.args),
				Expires: c.expires}
			err := au.useApproval(ex, &haft.Terms{})
			if c.refused == "" {
				if err != nil || ex.approval.State != haft.ApprovalUsed {
					t.Errorf("useApproval: %v, and the approval is %s", err, ex.approval.State)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refused) || len(ex.spent()) > 0 {
				t.Errorf("useApproval: %v, want %q; %d approvals are used", err, c.refused, len(ex.spent()))
			}
		})
	}
}

// TestCheck_withholds_what_it_cannot_filter: a value that cannot be read, or has too many
// parts to be looked into, does not leave when a filter has to look at it.
func TestCheck_withholds_what_it_cannot_filter(t *testing.T) {
	rules, err := policy.Compile([]byte("version: 1\nfilters:\n" +
		"  - {id: marks, on: output, action: mask, pattern: 'nothing-has-this'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{}.filled()
	rn := &runner{cfg: &cfg, filters: &filters{screens: make(chan struct{}, 1)}}
	for name, c := range map[string]struct {
		value  string
		status haft.Status
		kind   haft.FailureKind
	}{
		"unreadable":     {`{"secret-part": `, haft.StatusError, haft.FailFiltered},
		"too many parts": {"[" + strings.Repeat("7,", value.MaxParts) + "7]", haft.StatusLimit, haft.FailResult},
	} {
		t.Run(name, func(t *testing.T) {
			ex := &execution{env: callenv.Env{Redactor: secret.NewRedactor(secret.Config{})}}
			ex.tool, ex.rules, ex.begun = &registry.Compiled{}, rules, true
			ex.res = &haft.Result{Status: haft.StatusError, Value: json.RawMessage(c.value), Stdout: "printed",
				Error: &haft.Failure{Kind: haft.FailException, Message: "it failed", Retry: haft.RetryNever}}
			if err := rn.check(t.Context(), ex); err != nil {
				t.Fatal(err)
			}
			if res := ex.res; res.Status != c.status || res.Error == nil || res.Error.Kind != c.kind ||
				string(res.Value) != "null" {
				t.Errorf("the result is %s with %+v and a value of %d bytes", res.Status, res.Error, len(res.Value))
			}
		})
	}
}
