package policy_test

import (
	"testing"

	"haft"
	"haft/policy"
)

func TestPolicy_mcp(t *testing.T) {
	compile := func(text string) *policy.Policy {
		t.Helper()
		p, err := policy.Compile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	server := compile("version: 1\nmcp:\n  - {orgs: [acme], commands: [npx, \"/opt/*\"], mounts: [/srv/data]}\n  - " +
		"{orgs: [local], commands: [\"*\"], mounts: [\"*\"]}\n")
	grabbing := compile("version: 1\nmcp:\n  - {orgs: [\"*\"], commands: [\"*\"], mounts: [\"*\"]}\n")
	both := policy.Compose(server, grabbing)
	for _, tt := range []struct {
		p            *policy.Policy
		org, program string
		ok           bool
	}{
		{server, "acme", "npx", true}, {server, "acme", "/opt/x", true}, {server, "acme", "bash", false},
		{server, "other", "npx", false},
		{server, "local", "bash", true}, {both, "acme", "bash", false}, {both, "other", "npx", false},
		{nil, "local", "npx", false},
		{policy.Compose(nil, grabbing), "local", "npx", false},
	} {
		if err := tt.p.MayRun(tt.org, tt.program); (err == nil) != tt.ok ||
			err != nil && haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("MayRun(%s, %s) = %v, want ok %v", tt.org, tt.program, err, tt.ok)
		}
	}
	for _, tt := range []struct {
		org, dir string
		ok       bool
	}{
		{"acme", "/srv/data", true}, {"acme", "/srv/data/x", true}, {"acme", "/srv/database", false},
		{"acme", "/srv", false}, {"acme", "/", false},
		{"other", "/srv/data", false}, {"local", "/etc", true},
	} {
		if err := both.MayMount(tt.org, tt.dir); (err == nil) != tt.ok {
			t.Errorf("MayMount(%s, %s) = %v, want ok %v", tt.org, tt.dir, err, tt.ok)
		}
	}
	shared := compile("version: 1\nmcp:\n  - {orgs: [a], mounts: [/srv/a, /srv/both]}\n  - {orgs: [b], mounts: " +
		"[/srv/both]}\n  - {orgs: [local], mounts: [\"*\"]}\n")
	for _, tt := range []struct {
		org, name string
		others    bool
	}{
		{"a", "/srv/a/x", false}, {"b", "/srv/a/x", true}, {"b", "/srv/a", true}, {"b", "/srv/ab", false},
		{"b", "/srv", false}, {"b", "/usr/bin/x", false},
		{"a", "/srv/both/x", false}, {"b", "/srv/both/x", false}, {"c", "/srv/both/x", true},
		{"local", "/srv/a/x", true}, {"local", "/usr/bin/x", false},
	} {
		for _, p := range []*policy.Policy{shared, policy.Compose(shared, grabbing)} {
			if got := p.OthersMount(tt.org, tt.name); got != tt.others {
				t.Errorf("OthersMount(%s, %s) = %v, want %v", tt.org, tt.name, got, tt.others)
			}
		}
	}
	for _, bad := range []string{"mcp: [{commands: [x]}]", "mcp: [{orgs: [a], mounts: [relative]}]",
		"mcp: [{orgs: [a], mounts: [/a/../b]}]", "mcp: {orgs: [a]}"} {
		if _, err := policy.Compile([]byte("version: 1\n" + bad + "\n")); err == nil {
			t.Errorf("%s is compiled", bad)
		}
	}
}
