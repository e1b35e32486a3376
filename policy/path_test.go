package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/policy"
)

// WEAKNESS: a rule that means a directory is passed with a path that begins with it
// and leaves it, or must not begin with it and enters it. Neither form may let one by.
func TestPathUnder(t *testing.T) {
	inside, err := policy.Compile([]byte(`{"version": 1, "rules": [{"id": "all", "effect": "allow"},
		{"id": "inside", "effect": "deny", "when": "!path.under(args.path, '/tmp')"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	outside, err := policy.Compile([]byte(`{"version": 1, "rules": [{"id": "all", "effect": "allow"},
		{"id": "outside", "effect": "deny", "when": "path.under(args.path, '/etc/')"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path            any
		inside, outside policy.Effect
	}{
		{"/tmp/x", policy.Allow, policy.Allow},
		{"/tmp", policy.Allow, policy.Allow},
		{"//tmp//./x/", policy.Allow, policy.Allow},
		{"/tmp/..x", policy.Allow, policy.Allow},
		{"/tmpfoo", policy.Deny, policy.Allow},
		{"/etc/passwd", policy.Deny, policy.Deny},
		{"//etc/./passwd", policy.Deny, policy.Deny},
		{"/", policy.Deny, policy.Allow},
		// What cannot be judged is denied either way.
		{"/tmp/../etc/passwd", policy.Deny, policy.Deny},
		{"/tmp/a/../b", policy.Deny, policy.Deny},
		{"/tmp/..", policy.Deny, policy.Deny},
		{"tmp/x", policy.Deny, policy.Deny},
		{"", policy.Deny, policy.Deny},
		{"/tmp/x\x00", policy.Deny, policy.Deny},
		{"/tmp/" + strings.Repeat("x", 5000), policy.Deny, policy.Deny},
		{7, policy.Deny, policy.Deny},
		{[]string{"/tmp/x"}, policy.Deny, policy.Deny},
	} {
		args, err := json.Marshal(map[string]any{"path": c.path})
		if err != nil {
			t.Fatal(err)
		}
		req := policy.Request{Principal: haft.Principal{Org: "o"}, Tool: haft.Tool{Name: "delete"}, Args: args}
		if d := inside.Decide(req); d.Effect != c.inside {
			t.Errorf("%.40q must be inside /tmp: %s (%s), want %s", c.path, d.Effect, d.Reason, c.inside)
		}
		if d := outside.Decide(req); d.Effect != c.outside {
			t.Errorf("%.40q must be outside /etc: %s (%s), want %s", c.path, d.Effect, d.Reason, c.outside)
		}
	}
}

// The cost of path.under is counted by the length of what it reads.
func TestPathUnder_is_bounded(t *testing.T) {
	p, err := policy.Compile([]byte(`{"version": 1, "rules": [{"id": "all", "effect": "allow"},
		{"id": "costly", "effect": "deny", "when": "args.l.exists(x, args.l.exists(y, path.under(args.p, '/no')))"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	list := "[" + strings.Repeat("1,", 999) + "1]"
	d := p.Decide(policy.Request{Principal: haft.Principal{Org: "o"}, Tool: haft.Tool{Name: "f"},
		Args: json.RawMessage(`{"l": ` + list + `, "p": "/` + strings.Repeat("x", 4000) + `"}`)})
	if d.Effect != policy.Deny || !strings.Contains(d.Reason, "takes too long") {
		t.Errorf("%s: %s", d.Effect, d.Reason)
	}
}
