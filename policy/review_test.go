package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/policy"
)

func mustCompile(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Compile([]byte("version: 1\n" + text))
	if err != nil {
		t.Fatalf("Compile: %v\n%s", err, text)
	}
	return p
}

func TestPolicy_Review(t *testing.T) {
	lowly := haft.Finding{Scanner: "haft", Rule: "python-tempfile", Severity: haft.SeverityLow, Line: 2, Message: "m"}
	eval := haft.Finding{Scanner: "haft", Rule: "python-eval", Severity: haft.SeverityHigh, Line: 3, Message: "m"}
	worst := haft.Finding{Scanner: "haft", Rule: "python-reverse-shell", Severity: haft.SeverityCritical, Line: 9,
		Message: "m"}
	strange := haft.Finding{Scanner: "x", Rule: "new", Severity: "terrible", Line: 1, Message: "m"}
	all := []haft.Finding{lowly, eval, worst}
	tool := haft.Tool{Org: "acme", Name: "calc", Tags: []string{"trusted"}}
	tests := []struct {
		name        string
		server, org string // documents; "-" means none
		findings    []haft.Finding
		want        policy.ReviewVerdict
	}{
		{"nothing found passes", "", "-", nil, policy.ReviewVerdict{Action: "pass"}},
		{"low warns where nothing is said", "", "-", []haft.Finding{lowly},
			policy.ReviewVerdict{"warn", lowly, "haft/review.warn"}},
		{"high asks where nothing is said", "", "-", []haft.Finding{lowly, eval},
			policy.ReviewVerdict{"ask", eval, "haft/review.ask"}},
		{"critical asks where nothing is said, and decides", "", "-", all,
			policy.ReviewVerdict{"ask", worst, "haft/review.ask"}},
		{"a severity that is unknown counts as critical", "review: {refuse: critical}", "-", []haft.Finding{strange},
			policy.ReviewVerdict{"refuse", strange, "review.refuse"}},
		{"refuse from critical", "review: {refuse: critical}", "-", all,
			policy.ReviewVerdict{"refuse", worst, "review.refuse"}},
		{"what the section leaves out stays as usual", "review: {warn: never}", "-", all,
			policy.ReviewVerdict{"ask", worst, "review.ask"}},
		{"never", "review: {warn: never, ask: never}", "-", all, policy.ReviewVerdict{Action: "pass"}},
		{"a rule demands more", "review: {rules: [{rule: python-tempfile, action: refuse}]}", "-", all,
			policy.ReviewVerdict{"refuse", lowly, "review.rules[1]"}},
		{"a rule that warns takes nothing away", "review: {rules: [{rule: python-eval, action: warn}]}", "-",
			[]haft.Finding{eval}, policy.ReviewVerdict{"ask", eval, "review.ask"}},
		{"ignore", "review: {rules: [{rule: python-*, action: ignore}]}", "-", all,
			policy.ReviewVerdict{Action: "pass"}},
		{"ignore and warn is only a warning", "review: {rules: [{rule: python-eval, action: ignore}, {rule: " +
			"python-eval, action: warn}]}", "-", []haft.Finding{eval},
			policy.ReviewVerdict{"warn", eval, "review.rules[2]"}},
		{"ignore for these tools", "review: {rules: [{rule: python-eval, action: ignore, tools: ['tag:trusted']}]}",
			"-", []haft.Finding{eval}, policy.ReviewVerdict{Action: "pass"}},
		{"ignore for other tools", "review: {rules: [{rule: python-eval, action: ignore, tools: ['tool:other']}]}", "-",
			[]haft.Finding{eval}, policy.ReviewVerdict{"ask", eval, "review.ask"}},
		{"an organisation cannot ignore what the server asks about", "review: {ask: high}",
			"review: {ask: never, rules: [{rule: '*', action: ignore}]}", []haft.Finding{eval},
			policy.ReviewVerdict{"ask", eval, "server/review.ask"}},
		{"an organisation may demand more", "review: {ask: high}", "review: {refuse: high}", []haft.Finding{eval},
			policy.ReviewVerdict{"refuse", eval, "org/review.refuse"}},
		{"an organisation may change what is usual", "", "review: {ask: critical}", []haft.Finding{eval},
			policy.ReviewVerdict{"warn", eval, "org/review.warn"}},
		{"the policy of another organisation refuses", "org: other", "-", nil,
			policy.ReviewVerdict{Action: "refuse", Rule: "org"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustCompile(t, tt.server)
			if tt.org != "-" {
				p = policy.Compose(p, mustCompile(t, tt.org))
			}
			got := p.Review(tool, tt.findings)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Review (-want +got):\n%s", diff)
			}
			if (got.Err() != nil) != (got.Action == policy.ReviewRefuse) {
				t.Errorf("Err() = %v of %v", got.Err(), got)
			}
		})
	}
	var none *policy.Policy
	if got := none.Review(tool, []haft.Finding{lowly}); got.Action != policy.ReviewAsk || got.Finding != lowly {
		t.Errorf("a nil policy says %+v, want that it asks", got)
	}
	if got := none.Review(tool, nil); got.Action != policy.ReviewPass {
		t.Errorf("a nil policy says %+v of nothing", got)
	}
	if err := (policy.ReviewVerdict{}).Err(); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("the zero verdict gives %v", err)
	}
	refused := policy.ReviewVerdict{Action: policy.ReviewRefuse, Finding: eval}
	if got, want := haft.MessageOf(refused.Err()), "the source is refused for python-eval in line 3: m"; got != want {
		t.Errorf("Err() = %q, want %q", got, want)
	}
}

func TestCompile_review_errors(t *testing.T) {
	for text, want := range map[string]string{
		"review: {warn: lo}":                                  "warn is \"lo\" and must be one of never, low",
		"review: {deny: low}":                                 "deny",
		"review: {rules: [{rule: python-eval}]}":              "needs an action",
		"review: {rules: [{action: warn}]}":                   "names a rule",
		"review: {rules: [{rule: 'a b', action: warn}]}":      "a rule is a name",
		"review: {rules: [{rule: a, action: pass}]}":          "action is \"pass\"",
		"review: {rules: [{rule: a, action: ask, tools: x}]}": "tools",
		"review: [1]": "review",
	} {
		_, err := policy.Compile([]byte("version: 1\n" + text))
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), want) ||
			!place.MatchString(haft.MessageOf(err)) {
			t.Errorf("Compile(%s) = %v, want %q with its place", text, err, want)
		}
	}
}

// TestReview_properties: adding a rule that does not ignore, lowering a bound, adding a
// finding or a document never demands less; the order of rules and findings does
// not matter; and no verdict demands anything that no finding does.
func TestReview_properties(t *testing.T) {
	for seed := range uint64(2000) {
		d := newDraw(seed, 3)
		ruleOf := func(actions ...string) string {
			return fmt.Sprintf("{rule: %q, action: %s%s}", pick(d, "python-eval", "python-*", "*", "B102", "js-vm"),
				pick(d, actions...), d.some("tools", "tool:a*", "tag:money"))
		}
		section := func(rules []string) string {
			text := fmt.Sprintf("review: {warn: %s, ask: %s, refuse: %s", pick(d, "low", "medium", "never"),
				pick(d, "medium", "high", "never"), pick(d, "critical", "never", "high"))
			if len(rules) > 0 {
				text += ", rules: [" + strings.Join(rules, ", ") + "]"
			}
			return text + "}"
		}
		var rules []string
		for range d.IntN(4) {
			rules = append(rules, ruleOf("warn", "ask", "refuse", "ignore"))
		}
		finding := func() haft.Finding {
			return haft.Finding{Rule: pick(d, "python-eval", "python-tls", "B102", "js-vm"),
				Severity: pick(d, append(haft.Severities(), "odd")...), Line: d.IntN(9)}
		}
		var findings []haft.Finding
		for range d.IntN(4) {
			findings = append(findings, finding())
		}
		tool := haft.Tool{Name: pick(d, "add", "delete"), Tags: []string{pick(d, "money", "x")}}
		bounds := section(nil)
		with := func(rules []string) string {
			if len(rules) == 0 {
				return bounds
			}
			return strings.TrimSuffix(bounds, "}") + ", rules: [" + strings.Join(rules, ", ") + "]}"
		}
		base := mustCompile(t, with(rules)).Review(tool, findings)
		check := func(what string, got policy.ReviewVerdict) {
			t.Helper()
			if !got.Action.AtLeast(base.Action) {
				t.Fatalf("seed %d: %s turns %v into %v\n%s\n%v", seed, what, base.Action, got.Action, with(rules),
					findings)
			}
		}
		extra := ruleOf("warn", "ask", "refuse")
		check("adding "+extra,
			mustCompile(t, with(slices.Insert(slices.Clone(rules), d.IntN(len(rules)+1), extra))).Review(tool,
				findings))
		check("another finding", mustCompile(t, with(rules)).Review(tool, append(slices.Clone(findings), finding())))
		check("an organisation", policy.Compose(mustCompile(t, with(rules)),
			mustCompile(t, section([]string{ruleOf("ignore")}))).Review(tool, findings))
		slices.Reverse(rules)
		slices.Reverse(findings)
		if got := mustCompile(t, with(rules)).Review(tool, findings); got.Action != base.Action {
			t.Fatalf("seed %d: the order matters: %v, %v", seed, base, got)
		}
		if base.Action != policy.ReviewPass && !slices.Contains(findings, base.Finding) {
			t.Fatalf("seed %d: the finding that decided was not found: %+v", seed, base)
		}
	}
}
