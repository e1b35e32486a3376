package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"haft"
	"haft/policy"
)

// marker is part of every argument. No text of a decision may hold it.
const marker = "s3cr3t"

// draw makes random policies and requests of a small world, so that rules often
// meet.
type draw struct {
	*rand.Rand
	n int // rules so far
}

func newDraw(a, b uint64) *draw { return &draw{Rand: rand.New(rand.NewPCG(a, b))} }

func pick[T any](d *draw, all ...T) T { return all[d.IntN(len(all))] }

// some returns " field: [one]", or nothing.
func (d *draw) some(field string, all ...string) string {
	if d.IntN(3) > 0 {
		return ""
	}
	return fmt.Sprintf(", %s: [%q]", field, pick(d, all...))
}

// rule makes a rule in YAML with the given effect, or any.
func (d *draw) rule(effect string) string {
	d.n++
	if effect == "" {
		effect = pick(d, "allow", "allow", "allow", "deny", "ask", "limit")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{id: r%d, effect: %s", d.n, effect)
	b.WriteString(d.some("tools", "tool:*", "tool:del*", "tag:money", "category:x*", "kind:python"))
	b.WriteString(d.some("users", "ann", "*", "b*"))
	b.WriteString(d.some("agents", "x", "*"))
	b.WriteString(d.some("orgs", "acme", "o*"))
	b.WriteString(d.some("roles", "lead", "*"))
	b.WriteString(d.some("kinds", "python", "mcp"))
	if d.IntN(3) == 0 {
		fmt.Fprintf(&b, ", when: %q", pick(d, `true`, `false`, `args.a > 3`, `has(args.p) && args.p.startsWith("/tmp")`,
			`args.p.contains("x")`, `annotations.readOnlyHint`, `"lead" in principal.roles`, `int(args.p) > 1`,
			`tool.tags.exists(t, t == "money")`, `args.p.matches("^/")`, `args.list.all(x, x < 10)`))
	}
	if effect == "limit" || effect != "deny" && d.IntN(3) == 0 {
		b.WriteString(pick(d, `, rate: {per_second: 2, by: [org]}`, `, concurrency: {max: 3}`,
			`, quota: {calls: 5, period: hour}`,
			`, min_isolation: kernel`, `, network: ["*.example.com"]`, `, redact: [p]`,
			`, min_isolation: reduced, network: []`))
	}
	return b.String() + "}"
}

func (d *draw) rules() []string {
	all := make([]string, d.IntN(7))
	for i := range all {
		all[i] = d.rule("")
	}
	return all
}

// request makes a request.
func (d *draw) request() policy.Request {
	yes := d.IntN(2) == 0
	req := policy.Request{
		Principal: haft.Principal{Org: pick(d, "acme", "other"), User: pick(d, "ann", "bob", ""),
			Agent: pick(d, "x", "")},
		Tool: haft.Tool{Name: pick(d, "delete", "add"), Category: pick(d, "xy", ""), Version: haft.Version{
			Kind: pick(d, haft.KindPython, haft.KindMCP), Settings: haft.Settings{RequiresApproval: d.IntN(8) == 0},
		}},
		Args: json.RawMessage(pick(d,
			`{"a": 5, "p": "/tmp/s3cr3t", "list": [1, 2]}`, `{"a": "s3cr3t", "p": "s3cr3t"}`,
			`{"p": ["s3cr3t"], "list": ["s3cr3t"]}`,
			`{"s3cr3t": 1}`, `{"p": "s3cr3t", "p": "x"}`, `{"p": "s3cr3t`, `"s3cr3t"`, ``)),
	}
	if d.IntN(2) == 0 {
		req.Principal.Roles = []string{"lead"}
		req.Annotations.ReadOnly = &yes
	}
	if d.IntN(2) == 0 {
		req.Tool.Tags = []string{"money"}
	}
	if d.IntN(5) == 0 {
		req.Scope = []string{pick(d, "tool:*", "tool:a*", "nonsense")}
	}
	return req
}

// compile compiles rules.
func compile(t testing.TB, rules []string) *policy.Policy {
	t.Helper()
	text := "version: 1\nrules:\n"
	for _, r := range rules {
		text += "  - " + r + "\n"
	}
	if len(rules) == 0 {
		text = "version: 1\n"
	}
	p, err := policy.Compile([]byte(text))
	if err != nil {
		t.Fatalf("Compile: %v\n%s", err, text)
	}
	return p
}

// rank orders effects by how much they allow.
func rank(e policy.Effect) int {
	return slices.Index([]policy.Effect{policy.Deny, policy.NeedsApproval, policy.Allow}, e)
}

// checkProperties holds one random policy and request against everything that the
// package promises of all of them.
func checkProperties(t testing.TB, d *draw) {
	rules, req := d.rules(), d.request()
	base := compile(t, rules).Decide(req)
	say := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format+"\nrules:\n%s\nrequest: %+v\ndecision: %s",
			append(args, strings.Join(rules, "\n"), req, base)...)
	}
	checkSelf(say, base, compile(t, rules), req, len(rules))

	for _, effect := range []string{"deny", "ask", "limit"} {
		extra := d.rule(effect)
		got := compile(t, slices.Insert(slices.Clone(rules), d.IntN(len(rules)+1), extra)).Decide(req)
		if rank(got.Effect) > rank(base.Effect) {
			say("adding %s turns %s into %s", extra, base.Effect, got.Effect)
		}
	}
	d.n++
	blunt := fmt.Sprintf("{id: r%d, effect: deny}", d.n)
	if got := compile(t, append(slices.Clone(rules), blunt)).Decide(req); got.Effect != policy.Deny {
		say("a deny for all does not deny")
	}
	d.n++
	broken := fmt.Sprintf("{id: r%d, effect: %s, when: args.nosuch.thing == 1}", d.n, pick(d, "allow", "deny", "ask"))
	got := compile(t, append(slices.Clone(rules), broken)).Decide(req)
	if got.Effect != policy.Deny || len(got.Problems) == 0 {
		say("a rule that cannot be evaluated gives %s", got)
	}

	shuffled := slices.Clone(rules)
	d.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	got = compile(t, shuffled).Decide(req)
	if diff := cmp.Diff(base, got, anyOrder...); diff != "" {
		say("the order matters (-want +got):\n%s", diff)
	}
	checkCompose(t, d, say, rules, req, base)
}

// anyOrder compares decisions but for what tells of the order of rules.
var anyOrder = []cmp.Option{
	cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	cmpopts.IgnoreFields(policy.Decision{}, "Rule", "Reason"),
	cmpopts.IgnoreFields(policy.Considered{}, "Line"),
	cmpopts.SortSlices(func(a, b policy.Considered) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Problem) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Ask) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Rate) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Concurrency) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Quota) bool { return a.Rule < b.Rule }),
	cmpopts.SortSlices(func(a, b policy.Network) bool { return a.Rule < b.Rule }),
}

// checkSelf holds a decision against itself.
func checkSelf(say func(string, ...any), d policy.Decision, p *policy.Policy, req policy.Request, rules int) {
	explained := p.Explain(req)
	allows := slices.ContainsFunc(explained.Considered,
		func(c policy.Considered) bool { return c.Matched && c.Effect == policy.Allow })
	denies := slices.ContainsFunc(explained.Considered,
		func(c policy.Considered) bool { return c.Matched && c.Effect == policy.Deny })
	fromRules := 0
	for _, c := range explained.Considered {
		if !strings.HasPrefix(c.Rule, "haft/") {
			fromRules++
		}
	}
	wire, err := json.Marshal(d)
	switch {
	case err != nil:
		say("Marshal: %v", err)
	case rank(d.Effect) < 0:
		say("the effect is %q", d.Effect)
	case d.Effect != policy.Deny && (!allows || denies || len(d.Problems) > 0):
		say("it may run although allows=%v denies=%v problems=%d", allows, denies, len(d.Problems))
	case (d.Err() == nil) != (d.Effect != policy.Deny):
		say("Err() = %v", d.Err())
	case (d.Effect == policy.NeedsApproval) != (len(d.Asks) > 0):
		say("%d asks", len(d.Asks))
	case explained.Effect != d.Effect || fromRules != rules:
		say("Explain says %s and considers %d of %d rules", explained.Effect, fromRules, rules)
	case d.Reason == "":
		say("there is no reason")
	case strings.Contains(string(wire)+d.String()+explained.String()+fmt.Sprint(d.Err()), marker):
		say("a value is told")
	}
}

// checkCompose: what the server denies, asks or limits holds.
func checkCompose(t testing.TB, d *draw, say func(string, ...any), rules []string, req policy.Request,
	base policy.Decision) {
	server := compile(t, rules)
	org := compile(t, d.rules())
	got := policy.Compose(server, org).Decide(req)
	firm := base.Effect == policy.Deny && base.Rule != "" // not because nothing allows it
	switch {
	case firm && got.Effect != policy.Deny:
		say("an organisation lifts it to %s", got)
	case base.Effect == policy.NeedsApproval && got.Effect == policy.Allow:
		say("an organisation lifts the ask: %s", got)
	case got.Effect != policy.Deny && base.Effect != policy.Deny &&
		(len(got.Rates) < len(base.Rates) || len(got.Networks) < len(base.Networks) ||
			!got.MinIsolation.AtLeast(base.MinIsolation)):
		say("an organisation lifts a limit: %s", got)
	}
	if alone := policy.Compose(server, nil).Decide(req); alone.Effect != base.Effect {
		say("composed with nothing it is %s", alone)
	}
}

func TestProperties(t *testing.T) {
	effects := map[policy.Effect]int{}
	for i := range uint64(300) {
		checkProperties(t, newDraw(i, 1))
		d := newDraw(i, 1)
		effects[compile(t, d.rules()).Decide(d.request()).Effect]++
		if t.Failed() {
			t.Fatalf("with seed %d", i)
		}
	}
	for _, e := range []policy.Effect{policy.Allow, policy.Deny, policy.NeedsApproval} {
		if effects[e] < 10 {
			t.Errorf("the draws show little: %v", effects)
		}
	}
}

func FuzzDecide(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, i*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) { checkProperties(t, newDraw(a, b)) })
}
