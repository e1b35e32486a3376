package policy_test

import (
	"strings"
	"testing"

	"haft"
	"haft/policy"
)

// TestWorkspaces checks that a fork is what its origins are: no rule is avoided by a copy.
func TestWorkspaces(t *testing.T) {
	const rules = `version: 1
rules:
  - {id: scratch, effect: allow, workspaces: [scratch*]}
  - {id: prod, effect: deny, reason: not prod, workspaces: [prod]}
  - {id: asks, effect: ask, workspaces: [asked]}
  - {id: reads, effect: deny, reason: only read it, workspaces: [library], when: "!workspace.read_only"}
  - {id: none, effect: deny, reason: by expression, workspaces: ["*"], when: "'leak' in workspace.origins"}
  - {id: tools, effect: deny, workspaces: [tools], tools: ["tool:drop"]}
`
	p, err := policy.Compile([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		w      haft.CallWorkspace
		call   policy.Effect
		direct string // why it is refused without a call
	}{
		{haft.CallWorkspace{Name: "scratch-1"}, policy.Allow, ""},
		{haft.CallWorkspace{Name: "other"}, policy.Deny, ""},
		{haft.CallWorkspace{Name: "scratch", Origins: []string{"scratch-2"}}, policy.Allow, ""},
		{haft.CallWorkspace{Name: "scratch", Origins: []string{"other"}}, policy.Deny, ""},
		{haft.CallWorkspace{Name: "other", Origins: []string{"scratch"}}, policy.Deny, ""},
		{haft.CallWorkspace{Name: "prod"}, policy.Deny, "not prod"},
		{haft.CallWorkspace{Name: "scratch", Origins: []string{"prod", "scratch-2"}}, policy.Deny, "not prod"},
		{haft.CallWorkspace{Name: "scratch", Origins: []string{"asked"}}, policy.Deny, "demands approval"},
		{haft.CallWorkspace{Name: "library"}, policy.Deny, "only read it"},
		{haft.CallWorkspace{Name: "library", ReadOnly: true}, policy.Deny, ""}, // nothing allows a call
		{haft.CallWorkspace{Name: "scratch", Origins: []string{"leak"}}, policy.Deny, "by expression"},
		{haft.CallWorkspace{Name: "tools"}, policy.Deny, ""},
	} {
		req := policy.Request{Principal: haft.Principal{Org: "acme", User: "ann"}, Workspace: &c.w,
			Tool: haft.Tool{Name: "f", Org: "acme"}}
		if d := p.Decide(req); d.Effect != c.call {
			t.Errorf("%+v: a call is %s (%s), want %s", c.w, d.Effect, d.Reason, c.call)
		}
		err := p.CheckWorkspace(policy.Request{Principal: req.Principal, Workspace: &c.w})
		if (err == nil) != (c.direct == "") || err != nil && !strings.Contains(err.Error(), c.direct) {
			t.Errorf("%+v: without a call: %v, want %q", c.w, err, c.direct)
		}
	}
}
