package policy_test

import (
	"strings"
	"testing"

	"haft"
	"haft/policy"
)

// The one person whom the server names may approve their own calls and accept their own versions, as a
// person with the role. Nobody else may, no agent, and no organisation can say so for itself.
func TestPolicy_solo(t *testing.T) {
	const rules = "rules:\n  - {id: all, effect: allow}\n  - {id: ask, effect: ask, approval: {roles: [approver]}}\n"
	server := must(t, "version: 1\nsolo: {org: local, user: ann}\n"+rules)
	org := must(t, "version: 1\nsolo: {org: acme, user: ann}\n"+rules)
	plain := must(t, "version: 1\n"+rules)
	approver := []string{haft.RoleApprover}
	ann := haft.Principal{Org: "local", User: "ann", Roles: approver}
	acme, admin, agent := ann, ann, ann
	acme.Org, admin.Roles, agent.Agent = "acme", []string{"admin"}, "x"
	for name, tt := range map[string]struct {
		p    *policy.Policy
		who  haft.Principal // who answers what the same user has asked for
		want bool
	}{
		"the one":                     {server, ann, true},
		"with rules of an org":        {policy.Compose(server, plain), ann, true},
		"another person":              {server, haft.Principal{Org: "local", User: "bob", Roles: approver}, false},
		"the same name elsewhere":     {server, acme, false},
		"without the role":            {server, admin, false},
		"an agent of the one":         {server, agent, false},
		"nobody":                      {server, haft.Principal{Org: "local", Roles: approver}, false},
		"an organisation says so":     {policy.Compose(plain, org), acme, false},
		"an organisation says it all": {policy.Compose(nil, org), acme, false},
		"nobody is named":             {plain, ann, false},
		"no policy":                   {nil, ann, false},
	} {
		t.Run(name, func(t *testing.T) {
			asks := tt.who
			asks.Agent = "y"
			err := tt.p.Decide(policy.Request{Principal: asks, Tool: haft.Tool{Name: "f"}}).MayApprove(tt.who, asks)
			if (err == nil) != tt.want {
				t.Errorf("MayApprove = %v, want %v", err, tt.want)
			}
			if got := tt.p.MayAcceptOwn(tt.who); got != tt.want {
				t.Errorf("MayAcceptOwn = %v, want %v", got, tt.want)
			}
		})
	}
	for _, bad := range []string{"ann", "{user: ann}", "{org: local}", `{org: local, user: "*"}`,
		`{org: "*", user: ann}`, "[ann]", "{org: local, user: ann, roles: [x]}"} {
		if _, err := policy.Compile([]byte("version: 1\nsolo: " + bad + "\n")); err == nil ||
			!strings.Contains(err.Error(), "line 2") {
			t.Errorf("solo: %s is read: %v", bad, err)
		}
	}
}
