package engine_test

import (
	"testing"
	"time"

	"haft"
	"haft/internal/engine"
	"haft/policy"
)

// TestPolicies_are_kept_by_organisation: what one organisation changes has only its own
// policy compiled again.
func TestPolicies_are_kept_by_organisation(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	rules := func() (all [2]*policy.Policy) {
		t.Helper()
		for i, org := range []string{"a", "b"} {
			var err error
			all[i], err = w.Rules(t.Context(), org)
			check(t, err)
		}
		return all
	}
	put := func(org string, server bool) {
		t.Helper()
		check(t, second(w.PutPolicy(t.Context(), admin(org), server, haft.PolicyText{Text: []byte(allowAll)})))
	}
	before := rules()
	if before != rules() {
		t.Error("policies are compiled for each call")
	}
	put("a", false)
	w.tool("a", "work", nil)
	after := rules()
	if after[0] == before[0] || after[1] != before[1] {
		t.Errorf("after a change of a: that of a is new: %v, that of b: %v", after[0] != before[0],
			after[1] != before[1])
	}
	put("a", true)
	if last := rules(); last[0] == after[0] || last[1] == after[1] {
		t.Error("a change of the policy of the server is not in all")
	}
}

// TestPolicies_are_forgotten_first: a policy that is kept holds, even if the audit cannot be told of it.
func TestPolicies_are_forgotten_first(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	before, err := w.Rules(t.Context(), "a")
	check(t, err)
	check(t, second(w.store.Policies.PutPolicy(t.Context(), "a", haft.PolicyText{Text: []byte(allowAll)}, "root")))
	if err := w.Log(t.Context(), admin("a"), "a", "policy.put", func() {}); err == nil {
		t.Error("a function was written to the audit")
	}
	if after, err := w.Rules(t.Context(), "a"); err != nil || after == before {
		t.Errorf("the policy of before holds, %v", err)
	}
}

// TestRates_are_those_of_the_owner: keys without a user have a rate each, of the tool
// and of rules that count by user.
func TestRates_are_those_of_the_owner(t *testing.T) {
	for name, c := range map[string]struct {
		rules string
		rate  haft.Rate
	}{
		"of the tool":          {allowAll, haft.Rate{PerSecond: 0.0001, Burst: 1}},
		"a window of the tool": {allowAll, haft.Rate{Calls: 1, Within: haft.Millis(time.Hour)}},
		"a window of a rule": {allowAll + "rules:\n  - {id: x, effect: limit, " +
			"rate: {calls: 1, within: 1h, by: [user]}}\n", haft.Rate{}},
		"of a rule": {allowAll + "rules:\n  - {id: x, effect: limit, rate: {per_second: 0.0001, burst: 1, by: " +
			"[user]}}\n", haft.Rate{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, c.rules, engine.Config{})
			w.tool("o", "work", func(d *haft.Draft) { d.Settings.Rate = c.rate })
			for _, key := range []string{"key:one", "key:two"} {
				p := haft.Principal{Org: "o", Credential: key, Roles: []string{"user"}}
				want(t, w.call(p, "work", "{}"), haft.StatusSuccess)
				want(t, w.call(p, "work", "{}"), haft.StatusRate)
			}
		})
	}
}
