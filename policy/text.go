package policy

import (
	"cmp"
	"fmt"
	"strings"
)

// String explains the decision in lines of text, for people.
func (d Decision) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: %s", cmp.Or(d.Effect, Deny), d.Reason)
	if d.Rule != "" {
		line("rule: %s", d.Rule)
	}
	for _, p := range d.Problems {
		line("problem: %s: %s", p.Rule, p.Message)
	}
	for _, a := range d.Asks {
		line("ask: %s", a)
	}
	for _, r := range d.Rates {
		if r.Calls > 0 {
			line("rate: %d in any %v (%s)", r.Calls, r.Within, r.Key)
		}
		if r.PerSecond == 0 {
			continue
		}
		line("rate: %v per second, burst %d (%s)", r.PerSecond, r.Burst, r.Key)
	}
	for _, c := range d.Concurrency {
		line("concurrency: %d (%s)", c.Max, c.Key)
	}
	for _, q := range d.Quotas {
		line("quota: %d per %s (%s)", q.Calls, q.Period, q.Key)
	}
	for _, n := range d.Networks {
		line("network: %s (%s)", cmp.Or(strings.Join(n.Hosts, ", "), "none"), n.Rule)
	}
	if d.MinIsolation != "" {
		line("isolation: at least %s", d.MinIsolation)
	}
	if len(d.Redact) > 0 {
		line("redact: %s", strings.Join(d.Redact, " "))
	}
	for _, c := range d.Considered {
		line("%s", c)
	}
	return b.String()
}

// String names the approvers.
func (a Ask) String() string {
	var parts []string
	if len(a.Roles) > 0 {
		parts = append(parts, "roles "+strings.Join(a.Roles, ", "))
	}
	if len(a.Users) > 0 {
		parts = append(parts, "users "+strings.Join(a.Users, ", "))
	}
	if a.Self {
		parts = append(parts, "the requester too")
	}
	if a.Expires > 0 {
		parts = append(parts, "within "+a.Expires.String())
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, "; "), a.Rule)
}

// String says what became of the rule.
func (c Considered) String() string {
	mark := "-"
	if c.Matched {
		mark = "+"
	}
	at := ""
	if c.Line > 0 {
		at = fmt.Sprintf(" (line %d)", c.Line)
	}
	return fmt.Sprintf("%s %s %s%s: %s", mark, c.Effect, c.Rule, at, c.Why)
}
