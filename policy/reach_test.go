package policy_test

import (
	"testing"

	"haft"
	"haft/policy"
)

func TestForbids(t *testing.T) {
	one := policy.Network{Rule: "a", Hosts: []string{"api.example.com", "*.example.org:8443", "[2001:db8::1]:443"}}
	for _, tt := range []struct {
		host string
		port uint16
		all  []policy.Network
		want string
	}{
		{"api.example.com", 443, nil, ""},
		{"api.example.com", 443, []policy.Network{one}, ""},
		{"API.Example.com", 80, []policy.Network{one}, ""},
		{"api.example.com", 8080, []policy.Network{one}, "a"},
		{"x.api.example.com", 443, []policy.Network{one}, "a"},
		{"x.example.org", 8443, []policy.Network{one}, ""},
		{"example.org", 8443, []policy.Network{one}, "a"},
		{"2001:db8::1", 443, []policy.Network{one}, ""},
		{"2001:db8::2", 443, []policy.Network{one}, "a"},
		{"api.example.com", 443, []policy.Network{one, {Rule: "none", Hosts: []string{}}}, "none"},
		{"api.example.com", 443, []policy.Network{{Rule: "all", Hosts: []string{"*"}}, one}, ""},
	} {
		if got := policy.Forbids(tt.all, tt.host, tt.port); got != tt.want {
			t.Errorf("%s:%d: %q, want %q", tt.host, tt.port, got, tt.want)
		}
	}
}

// The network of what runs without a call is bounded by the rules that match, whether
// or not anybody may call it.
func TestPolicy_Networks(t *testing.T) {
	p, err := policy.Compile([]byte(`
version: 1
rules:
  - {id: all, effect: limit, network: ["a.example"]}
  - {id: server, effect: limit, tools: ["tool:files__*"], network: ["b.example"]}
  - {id: kind, effect: limit, kinds: [mcp], network: []}
  - {id: role, effect: limit, roles: [admin], network: ["c.example"]}
  - {id: denied, effect: deny}
  - {id: odd, effect: limit, tools: ["tool:odd"], when: 'args.x == "1"', network: []}
`))
	if err != nil {
		t.Fatal(err)
	}
	names := func(tool string) (list []string, err error) {
		all, err := p.Networks(policy.Request{Principal: haft.Principal{Org: "acme"},
			Tool: haft.Tool{Org: "acme", Name: tool, Version: haft.Version{Kind: haft.KindMCP}}})
		for _, n := range all {
			list = append(list, n.Rule)
		}
		return list, err
	}
	if got, err := names("files__*"); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := names("other"); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := names("odd"); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a rule that cannot be evaluated: %v, %v", got, err)
	}
	var none *policy.Policy
	if got, err := none.Networks(policy.Request{}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestNarrower(t *testing.T) {
	net := func(rule string, hosts ...string) policy.Network { return policy.Network{Rule: rule, Hosts: hosts} }
	type list = []policy.Network
	for name, tt := range map[string]struct {
		was, now list
		want     string
	}{
		"nothing":           {nil, nil, ""},
		"a rule goes":       {list{net("a", "a.example")}, nil, ""},
		"the first rule":    {nil, list{net("a", "a.example")}, "a"},
		"every host":        {nil, list{net("a", "*")}, ""},
		"the same":          {list{net("a", "a.example")}, list{net("b", "a.example")}, ""},
		"one more":          {list{net("a", "a.example")}, list{net("a", "b.example", "a.example")}, ""},
		"one less":          {list{net("a", "a.example", "b.example")}, list{net("a", "b.example")}, "a"},
		"from all":          {list{net("a", "*")}, list{net("a", "b.example")}, "a"},
		"what is below":     {list{net("a", "x.a.example")}, list{net("a", "*.a.example")}, ""},
		"not what is below": {list{net("a", "*.a.example")}, list{net("a", "x.a.example")}, "a"},
		"another port":      {list{net("a", "a.example:8080")}, list{net("a", "a.example")}, "a"},
		"none":              {list{net("a", "a.example")}, list{net("a")}, "a"},
		"from none":         {list{net("a")}, list{net("a", "a.example")}, ""},
		"a second rule":     {list{net("a", "a.example")}, list{net("a", "a.example"), net("b", "b.example")}, "b"},
		"a second rule, wider": {list{net("a", "a.example")},
			list{net("a", "a.example"), net("b", "*.example", "b.example")}, ""},
		"each covers one of it": {list{net("a", "a.example", "b.example")},
			list{net("c", "a.example"), net("d", "b.example")}, "c"},
	} {
		if got := policy.Narrower(tt.was, tt.now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
