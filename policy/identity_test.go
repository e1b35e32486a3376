package policy_test

import (
	"testing"

	"haft"
	"haft/policy"
)

// What a rule names is compared by identity: an agent by its name or id, a tool too.
func TestIdentity(t *testing.T) {
	const bot, other = "ag_AAAAAAAAAAAAAAAAAAAAAAAA", "ag_BBBBBBBBBBBBBBBBBBBBBBBB"
	req := func(id, name string) policy.Request {
		return policy.Request{Principal: haft.Principal{Org: "o", User: "ann", Agent: id}, AgentName: name,
			Tool: haft.Tool{ID: "tool_7", Name: "work"}}
	}
	for _, c := range []struct {
		rule             string
		bot, other, none bool // whether it matches
	}{
		{`agents: [bot]`, true, false, false},
		{`agents: ["b*"]`, true, false, false},
		{`agents: [` + bot + `]`, true, false, false},
		{`agents: ["ag_AA*"]`, true, false, false},
		{`agents: ["*"]`, true, true, false},
		{`agents: ["a*"]`, false, true, false}, // names, and not every id
		{`when: principal.agent == "bot"`, true, false, false},
		{`when: principal.agent == "` + bot + `"`, true, false, false},
		{`when: principal.agent_id == "` + bot + `"`, true, false, false},
		{`when: principal.agent_name == "bot"`, true, false, false},
		{`when: principal.agent != "bot"`, false, true, true},
		{`when: principal.agent == ""`, false, false, true},
		{`when: principal.agent == "bot" || principal.agent == "` + other + `"`, true, true, false},
		{`when: principal.agent == "` + bot + `" || "another" == principal.agent`, true, true, false},
		{`when: principal.agent in ["bot", "` + other + `"]`, true, true, false},
		{`when: principal.agent in ["another", "` + bot + `"]`, true, true, false},
		{`when: '!(principal.agent in ["bot", "` + other + `"])'`, false, false, true},
		{`when: principal.agent != "bot" && principal.agent != "` + other + `"`, false, false, true},
		{`when: principal.agent != "` + bot + `"`, false, true, true},
		{`when: '["bot", "` + other + `"].exists(a, a == principal.agent)'`, true, true, false},
		{`when: '["bot", "` + other + `"].all(a, a != principal.agent)'`, false, false, true},
		{`when: '"` + bot + `" in [principal.agent] || "another" in ["x", principal.agent]'`, true, true, false},
		{`when: '(principal.user == "ann" ? principal.agent : "x") in ["` + bot + `", "another"]'`, true, true, false},
		{`when: '[principal.agent].exists(a, a == "bot")'`, true, false, false},
		{`when: '[principal.agent].all(a, a != "` + bot + `")'`, false, true, true},
		{`when: principal.agent.startsWith("a")`, false, true, false}, // names, and not every id
		{`when: principal.agent.startsWith("ag_AA") || principal.agent.startsWith("ano")`, true, true, false},
		{`when: principal.agent.matches("^(bot|` + other + `)$")`, true, true, false},
		{`when: principal.agent + "/x" == "bot/x" || principal.agent + "/x" == "` + other + `/x"`, true, true, false},
		{`when: size(principal.agent) == 3`, true, false, false},
		{`when: '{"bot": true}[principal.agent == "bot" ? principal.agent : "bot"] && principal.agent == "` + bot +
			`"'`, true, false, false},
		{`tools: ["tool:work"]`, true, true, true},
		{`tools: ["tool:tool_7"]`, true, true, true},
		{`tools: ["tool:tool_*"]`, false, false, false}, // names, and not every id
	} {
		p, err := policy.Compile([]byte("version: 1\nrules:\n  - {id: all, effect: allow}\n  - id: x\n    effect: " +
			"deny\n    " + c.rule + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		for _, r := range []struct {
			req  policy.Request
			want bool
		}{{req(bot, "bot"), c.bot}, {req(other, "another"), c.other}, {req("", ""), c.none}} {
			if got := p.Decide(r.req).Effect == policy.Deny; got != r.want {
				t.Errorf("%s for %q: matches %v, want %v", c.rule, r.req.AgentName, got, r.want)
			}
		}
	}
}

// A version that is not the current one is held to the rules of both.
func TestVersions(t *testing.T) {
	yes := true
	old := haft.Version{Number: 1, Digest: "sha256:1", Kind: haft.KindPython,
		Annotations: haft.Annotations{ReadOnly: &yes}}
	now := haft.Version{Number: 2, Digest: "sha256:2", Kind: haft.KindPython}
	for _, c := range []struct {
		rules string
		pins  bool
		want  policy.Effect
		rule  string
	}{
		{`{id: all, effect: allow}`, true, policy.Deny, "haft/pin"},
		{`{id: all, effect: allow}`, false, policy.Allow, "all"}, // an approval, or a crash
		{`{id: all, effect: allow, pin: true}`, true, policy.Allow, "all"},
		{`{id: all, effect: allow, pin: true, users: [bob]}, {id: any, effect: allow}`, true, policy.Deny, "haft/pin"},
		{`{id: all, effect: allow, digests: ["sha256:1"]}`, true, policy.Allow, "all"},
		{`{id: all, effect: allow, digests: ["sha256:*"]}`, true, policy.Deny, "haft/pin"}, // not by name
		{`{id: all, effect: allow, pin: true, digests: ["sha256:2"]}`, true, policy.Deny, ""},
		{`{id: all, effect: allow, pin: true}, {id: no, effect: deny, digests: ["sha256:2"]}`, true, policy.Deny, "no"},
		{`{id: all, effect: allow, pin: true}, {id: no, effect: deny, digests: ["sha256:1"]}`, true, policy.Deny, "no"},
		{`{id: all, effect: allow, pin: true}, {id: no, effect: deny, when: tool.version == 2}`, true, policy.Deny,
			"no"},
		{`{id: all, effect: allow, pin: true}, {id: ask, effect: ask, when: "!annotations.readOnlyHint"}`, true,
			policy.NeedsApproval, "ask"},
		{`{id: hints, effect: allow, pin: true, when: annotations.readOnlyHint}`, true, policy.Deny, "haft/current"},
		{`{id: all, effect: allow, digests: ["sha256:1"]}, {id: no, effect: deny, digests: ["sha256:2"]}`, true,
			policy.Deny, "no"},
	} {
		p, err := policy.Compile([]byte("version: 1\nrules: [" + c.rules + "]\n"))
		if err != nil {
			t.Fatalf("%s: %v", c.rules, err)
		}
		req := policy.Request{Principal: haft.Principal{Org: "o", User: "ann"},
			Tool:        haft.Tool{Name: "wipe", Version: old},
			Annotations: old.Annotations, Current: &now, Pins: c.pins}
		if d := p.Decide(req); d.Effect != c.want || d.Rule != c.rule {
			t.Errorf("%s: %s by %q (%s), want %s by %q", c.rules, d.Effect, d.Rule, d.Reason, c.want, c.rule)
		}
	}
}

// A call of a version that is not the current one is held to the filters of both.
func TestVersions_filters(t *testing.T) {
	p, err := policy.Compile([]byte(`
version: 1
filters:
  - {id: old, on: output, action: mask, pattern: old, tools: ["kind:python"]}
  - {id: now, on: output, action: mask, pattern: now, tools: ["kind:bash"]}
  - {id: tag, on: output, action: mask, pattern: tag, tools: ["tag:money"]}
  - {id: not, on: output, action: mask, pattern: not, tools: ["kind:typescript"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	req := policy.Request{Principal: haft.Principal{Org: "o", User: "ann"},
		Current: &haft.Version{Number: 2, Kind: haft.KindBash},
		Tool: haft.Tool{Name: "pay", Tags: []string{"money"},
			Version: haft.Version{Number: 1, Kind: haft.KindPython}}}
	out, err := p.Screen(req, policy.Output).Text(t.Context(), "stdout", "old now tag not")
	if want := "[masked by old] [masked by now] [masked by tag] not"; err != nil || out.Text != want {
		t.Errorf("%q %v, want %q", out.Text, err, want)
	}
}
