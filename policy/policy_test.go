package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/policy"
)

// must compiles a document.
func must(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Compile([]byte(text))
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return p
}

func TestDecision_MayApprove(t *testing.T) {
	p := must(t, `version: 1
rules:
  - {id: all, effect: allow}
  - {id: pay, effect: ask, tools: ["tool:pay"], approval: {roles: [lead], users: [cfo]}}
  - {id: own, effect: ask, tools: ["tool:own"], approval: {roles: [lead], self: true}}
  - {id: strict, effect: ask, tools: ["tool:own"], when: args.big, approval: {roles: [lead, boss]}}
`)
	ann := haft.Principal{Org: "acme", User: "ann", Agent: "x", Roles: []string{"lead"}}
	decide := func(tool, args string) policy.Decision {
		return p.Decide(policy.Request{Principal: ann, Tool: haft.Tool{Name: tool}, Args: json.RawMessage(args)})
	}
	pay, own, big := decide("pay", "{}"), decide("own", `{"big": false}`), decide("own", `{"big": true}`)
	lead := []string{"lead"}
	for _, tt := range []struct {
		name     string
		d        policy.Decision
		approver haft.Principal
		want     string
	}{
		{"by role", pay, haft.Principal{Org: "acme", User: "bob", Roles: lead}, ""},
		{"by name", pay, haft.Principal{Org: "acme", User: "cfo"}, ""},
		{"somebody", pay, haft.Principal{Org: "acme", User: "eve"}, "the rule pay names other approvers"},
		{"the requester", pay, haft.Principal{Org: "acme", User: "ann", Roles: lead},
			"the one who asks cannot approve, unless the policy says self: true"},
		{"the requester where the rule says so", own, haft.Principal{Org: "acme", User: "ann", Roles: lead}, ""},
		{"the requester where one of two rules says so", big, haft.Principal{Org: "acme", User: "ann", Roles: lead},
			"the one who asks cannot approve, unless the policy says self: true"},
		{"who suits one of two rules only", big, haft.Principal{Org: "acme", User: "bob", Roles: []string{"boss"}},
			"the rule own names other approvers"},
		{"another organisation", pay, haft.Principal{Org: "other", User: "cfo", Roles: lead},
			"an approver belongs to the organisation of the call"},
		{"no person", pay, haft.Principal{Org: "acme", Roles: lead}, "an approver is a person"},
		{"an agent", pay, haft.Principal{Org: "acme", User: "bob", Agent: "y", Roles: lead}, "an agent cannot approve"},
		{"nothing was asked", decide("add", "{}"), haft.Principal{Org: "acme", User: "bob", Roles: lead},
			"there is nothing to approve"},
		{"nothing was decided", policy.Decision{}, haft.Principal{Org: "acme", User: "bob", Roles: lead},
			"there is nothing to approve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.d.MayApprove(tt.approver, ann)
			if got := haft.MessageOf(err); got != tt.want || err != nil && haft.CodeOf(err) != haft.CodeDenied {
				t.Errorf("MayApprove(%+v) = %q, want %q", tt.approver, got, tt.want)
			}
		})
	}
}

func TestDecision_Reach(t *testing.T) {
	p := must(t, `version: 1
rules:
  - {id: all, effect: allow}
  - {id: few, effect: limit, network: ["*.example.com", "api.test:443", "ok.test", "10.0.0.1", "*.p.test:8443", "many.test:*"]}
  - {id: fewer, effect: limit, users: [ann], network: ["a.example.com"]}
  - {id: none, effect: limit, users: [bob], network: []}
  - {id: any, effect: limit, network: ["*"]}
`)
	want := []string{
		"a.example.com", "A.Example.COM.", "x.y.example.com:443", "*.example.com", "example.com", "evilexample.com",
		"a.example.com.evil.test",
		"api.test:443", "api.test", "api.test:80", "ok.test:1", "ok.test:443", "ok.test:80-443", "many.test",
		"many.test:9", "many.test:1-99", "10.0.0.1", "10.0.0.10", "*", "x.p.test:8443", "x.p.test:80",
	}
	for user, allowed := range map[string]string{
		"": "a.example.com A.Example.COM. x.y.example.com:443 *.example.com api.test:443 ok.test:443 many.test " +
			"many.test:9 many.test:1-99 10.0.0.1 x.p.test:8443",
		"ann": "a.example.com A.Example.COM.",
		"bob": "",
	} {
		d := p.Decide(policy.Request{Principal: haft.Principal{Org: "acme", User: user}, Tool: haft.Tool{Name: "x"}})
		got, refused := d.Reach(want)
		if strings.Join(got, " ") != allowed || len(got)+len(refused) != len(want) {
			t.Errorf("%q may reach %v, want %s", user, got, allowed)
		}
	}
}

func TestDecision_Redacted(t *testing.T) {
	p := must(t, `version: 1
rules:
  - {id: all, effect: allow, redact: [password, "/headers/*", "/list/*/token", "/a~1b"]}
`)
	d := p.Decide(policy.Request{Principal: haft.Principal{Org: "acme"}, Tool: haft.Tool{Name: "x"}})
	got, err := d.Redacted(
		json.RawMessage(
			`{"b": 1.0, "password": {"x": 1}, "headers": {"A": "1"}, "list": [{"token": 1, "t": "<"}], "a/b": 2, "a": {"b": 3}}`))
	const want = `{"b":1.0,"password":"[redacted]","headers":{"A":"[redacted]"},"list":[{"token":"[redacted]","t":"<"}],"a/b":"[redacted]","a":{"b":3}}`
	if err != nil || string(got) != want {
		t.Errorf("Redacted = %s, %v, want %s", got, err, want)
	}
	// A decision that was kept says the same.
	wire, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var kept policy.Decision
	if err := json.Unmarshal(wire, &kept); err != nil || !cmp.Equal(kept, d) {
		t.Errorf("a decision comes back as %+v, %v, want %+v", kept, err, d)
	}
	for _, bad := range []string{`{`, `[1]`, `{"a":1,"a":2}`} {
		if got, err := d.Redacted(json.RawMessage(bad)); err == nil {
			t.Errorf("Redacted(%s) = %s", bad, got)
		}
	}
	if got, err := (policy.Decision{}).Redacted(json.RawMessage(`{"a":1}`)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("Redacted = %s, %v", got, err)
	}
}

func TestPolicy_nil_denies(t *testing.T) {
	var p *policy.Policy
	req := policy.Request{Principal: haft.Principal{Org: "acme"}, Tool: haft.Tool{Name: "x"}}
	for name, d := range map[string]policy.Decision{
		"nil": p.Decide(req), "two nils": policy.Compose(nil, nil).Decide(req), "zero": {},
		"empty": must(t, "version: 1").Decide(req),
	} {
		if err := d.Err(); haft.CodeOf(err) != haft.CodeDenied || !strings.HasPrefix(d.String(), "deny") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := p.Screen(req, policy.Input).JSON(t.Context(), json.RawMessage(`1`)); err != nil || string(f.Value) != "1" {
		t.Errorf("Filter = %+v, %v", f, err)
	}
	if s := p.Severity(req.Tool, haft.Failure{Kind: haft.FailTimeout}); s != policy.Medium {
		t.Errorf("Severity = %s", s)
	}
}

func TestPolicy_Digest_changes_with_text_and_place(t *testing.T) {
	a, b := must(t, "version: 1"), must(t, "version: 1 # other")
	seen := map[string]bool{}
	for _, p := range []*policy.Policy{a, b, policy.Compose(a, b), policy.Compose(b, a), policy.Compose(a, nil),
		policy.Compose(nil, a)} {
		if seen[p.Digest()] || !strings.HasPrefix(p.Digest(), "sha256:") {
			t.Errorf("Digest = %q again", p.Digest())
		}
		seen[p.Digest()] = true
	}
	if must(t, "version: 1").Digest() != a.Digest() {
		t.Error("equal texts have different digests")
	}
}

func TestPeriod_Window(t *testing.T) {
	at := time.Date(2026, 12, 31, 23, 30, 15, 5, time.FixedZone("x", 3600)) // 22:30:15 UTC
	for p, want := range map[policy.Period][2]string{
		policy.Minute: {"2026-12-31T22:30:00Z", "2026-12-31T22:31:00Z"},
		policy.Hour:   {"2026-12-31T22:00:00Z", "2026-12-31T23:00:00Z"},
		policy.Day:    {"2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		policy.Month:  {"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		from, to := p.Window(at)
		if got := [2]string{from.Format(time.RFC3339), to.Format(time.RFC3339)}; got != want {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
}

// failureKinds reads the kinds of failure in the source of the root.
func failureKinds(t *testing.T) []haft.FailureKind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../result.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []haft.FailureKind
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "FailureKind" {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, haft.FailureKind(s))
		}
		return true
	})
	if len(all) < 20 {
		t.Fatalf("only %d kinds of failure were found", len(all))
	}
	return all
}

func TestSeverity_every_kind_of_failure_has_one(t *testing.T) {
	for _, kind := range failureKinds(t) {
		// A document may name it, so the table knows it.
		must(t, fmt.Sprintf("version: 1\nseverity: [{kinds: [%s], level: low}]", kind))
		if s := policy.SeverityOf(haft.Failure{Kind: kind}); policy.Transient(kind) && s.AtLeast(policy.High) {
			t.Errorf("%s passes by itself, and is %s", kind, s)
		}
	}
	for _, kind := range []haft.FailureKind{haft.FailValidation, haft.FailDenied, haft.FailMemory, haft.FailUnknown,
		"new"} {
		if policy.Transient(kind) {
			t.Errorf("%s is retried", kind)
		}
	}
	if !policy.Severity("odd").AtLeast(policy.Critical) || policy.SeverityOf(haft.Failure{Kind: "new"}) != policy.High {
		t.Error("what is unknown is taken lightly")
	}
}

func TestPolicy_Severity(t *testing.T) {
	server := must(t, `version: 1
severity:
  - {tools: ["tool:pay_*"], kinds: [timeout], level: critical}
  - {tools: ["tool:pay_*"], level: high}
  - {kinds: [blocked], level: high}`)
	org := must(t, `version: 1
severity:
  - {kinds: [timeout, blocked], level: low}
  - {kinds: [exception], level: low}`)
	both := policy.Compose(server, org)
	for _, tt := range []struct {
		p    *policy.Policy
		tool string
		kind haft.FailureKind
		want policy.Severity
	}{
		{server, "pay_x", haft.FailTimeout, policy.Critical},
		{server, "pay_x", haft.FailValidation, policy.High},
		{server, "add", haft.FailTimeout, policy.Medium},
		{server, "add", haft.FailBlocked, policy.High},
		{org, "add", haft.FailBlocked, policy.Low},
		{both, "add", haft.FailBlocked, policy.High},
		{both, "add", haft.FailException, policy.Low},
		{both, "pay_x", haft.FailTimeout, policy.Critical},
	} {
		if got := tt.p.Severity(haft.Tool{Name: tt.tool}, haft.Failure{Kind: tt.kind}); got != tt.want {
			t.Errorf("Severity(%s, %s) = %s, want %s", tt.tool, tt.kind, got, tt.want)
		}
	}
}

func TestBackoff_Wait(t *testing.T) {
	ms := func(n int) haft.Millis { return haft.Millis(time.Duration(n) * time.Millisecond) }
	for _, tt := range []struct {
		name   string
		b      haft.Backoff
		chance float64
		want   string
	}{
		{"zero never tries again", haft.Backoff{}, 0.5, ""},
		{"constant", haft.Backoff{Strategy: haft.Constant, Tries: 4, Initial: ms(100)}, 0.5, "100ms 100ms 100ms"},
		{"exponential up to the most", haft.Backoff{Strategy: haft.Exponential, Tries: 5, Initial: ms(100),
			Max: ms(350)}, 0.5, "100ms 200ms 350ms 350ms"},
		{"jitter", haft.Backoff{Strategy: haft.Jitter, Tries: 4, Initial: ms(100)}, 0.5, "50ms 100ms 200ms"},
		{"defaults", haft.Backoff{Tries: 3}, 0.25, "50ms 100ms"},
		{"defaults of tools", haft.Backoff{Stretch: 1}.ForTool(), 0.5, "1.05s 2.1s 4.2s"},
		{"tools without retries", haft.Backoff{}.ForTool(), 0.5, ""},
		{"at most a minute for tools", haft.Backoff{Tries: 8}.ForTool(), 1, "1.1s 2.2s 4.4s 8.8s 17.6s 35.2s 1m0s"},
		{"chance out of range", haft.Backoff{Tries: 2}, 7, "200ms"},
		{"nonsense", haft.Backoff{Strategy: "x", Tries: 3}, 0.5, ""},
	} {
		var got []string
		for try := 1; ; try++ {
			wait, more := tt.b.Wait(try, tt.chance)
			if !more {
				break
			}
			got = append(got, wait.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
	for _, b := range []haft.Backoff{{Strategy: "x"}, {Tries: -1}, {Tries: haft.MaxTries + 1}, {Initial: -1}} {
		if haft.CodeOf(b.Check()) != haft.CodeInvalid {
			t.Errorf("Check(%+v) = %v", b, b.Check())
		}
	}
}

func TestPermission(t *testing.T) {
	tool := haft.Tool{Name: "weather_now", Category: "search", Tags: []string{"read", ""},
		Version: haft.Version{Kind: haft.KindMCP}}
	for text, want := range map[string]bool{
		"tool:weather_now": true, "tool:weather_*": true, "tool:*": true, "tool:*now": true, "tool:w*r*w": true,
		"tool:***":     true,
		"tool:weather": false, "tool:now": false, "tool:Weather_now": false, "tool:weather_now*x": false,
		"tool:*x*":        false,
		"category:search": true, "category:s*": true, "category:x": false, "tag:read": true, "tag:r*d": true,
		"tag:x":    false,
		"kind:mcp": true, "kind:python": false,
	} {
		p, err := policy.ParsePermission(text)
		if err != nil || p.Covers(tool) != want || p.String() != text {
			t.Errorf("%s: %v, %v, want %v", text, p.Covers(tool), err, want)
		}
		if p.Covers(haft.Tool{}) {
			t.Errorf("%s covers nothing", text)
		}
	}
	for _, text := range []string{"", "tool", "tool:", "x:y", ":x", "*", "TOOL:x"} {
		if p, err := policy.ParsePermission(text); haft.CodeOf(err) != haft.CodeInvalid || p.Covers(tool) {
			t.Errorf("ParsePermission(%q) = %v, %v", text, p, err)
		}
	}
}

// TestCompile_bounds: what comes from outside has an end, and refusing it is
// quick.
func TestCompile_bounds(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, policy.MaxDocument/len(s)) }
	many := func(section, format string, n int) string {
		var b strings.Builder
		b.WriteString("version: 1\n" + section + ":\n")
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"too long":       strings.Repeat("#", policy.MaxDocument+1),
		"flow lists":     fill("["),
		"flow mappings":  fill("{a: "),
		"block lists":    fill("- "),
		"colons":         fill("a: "),
		"colons in flow": "{" + fill("a: ")[3:],
		"question marks": fill("? "),
		"quotes":         fill(`"`),
		"single quotes":  fill(`'`),
		"pipes":          fill("|\n"),
		"tags":           fill("!!a "),
		"anchors":        fill("&a "),
		"indents":        deep(600),
		"commas":         "[" + fill(",")[1:],
		"newlines":       fill("\n"),
		"tabs":           fill("\t"),
		"documents":      fill("---\n"),
		"rules":          many("rules", "  - {id: r%d, effect: allow}\n", policy.MaxRules+1),
		"filters": many("filters", "  - {id: r%d, on: input, action: warn, pattern: x}\n",
			policy.MaxFilters+1),
		"expression": "version: 1\nrules:\n  - {id: a, effect: deny, when: '" + strings.Repeat("true&&", 400) +
			"true'}",
		"deep expression": "version: 1\nrules:\n  - {id: a, effect: deny, when: '" + strings.Repeat("(", 900) +
			"true" + strings.Repeat(")", 900) + "'}",
		"repeated pattern": "version: 1\nfilters:\n  - {id: a, on: input, action: mask, pattern: " +
			"'((x{100}){100}){100}'}",
		"not UTF-8": "version: \xff",
		"control":   "version: 1\x00",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := policy.Compile([]byte(text))
			if haft.CodeOf(err) != haft.CodeInvalid || !place.MatchString(haft.MessageOf(err)) ||
				len(haft.MessageOf(err)) > 600 {
				t.Errorf("Compile = %v", err)
			}
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("it took %v", took)
			} else {
				t.Logf("%v: %s", took, haft.MessageOf(err))
			}
		})
	}
}

func TestCompile_reads_JSON_and_folded_text(t *testing.T) {
	req := policy.Request{Principal: haft.Principal{Org: "o"}, Tool: haft.Tool{Name: "x"},
		Args: json.RawMessage(`{"a": 1, "b": "c: d # e"}`)}
	for name, text := range map[string]string{
		"JSON": `{"version": 1, "rules": [{"id": "a", "effect": "allow", "when": "args.b == \"c: d # e\""}]}`,
		"JSON in lines": "{\n  \"version\": 1,\n  \"rules\": [\n    {\n      \"id\": \"a\",\n      \"effect\": " +
			"\"allow\"\n    }\n  ]\n}\n",
		"JSON with tabs": "{\n\t\"version\": 1,\n\t\"rules\": [\n\t\t{\"id\": \"a\", \"effect\": \"allow\"}\n\t]\n}\n",
		"literal": "version: 1\nrules:\n- id: a\n  effect: allow\n  when: |\n    args.a == 1 &&\n    args.b " +
			"== 'c: d # e'\n",
		"folded": "version: 1\nrules:\n- id: a\n  effect: allow\n  when: >-\n    args.a == 1 &&\n    args.b " +
			"== 'c: d # e'\n",
		"CRLF": "version: 1\r\nrules:\r\n- id: a\r\n  effect: allow\r\n",
		"comments": "# a\nversion: 1 # b\n# c\nrules: # d\n  # e\n  - id: a # f\n    # g\n    effect: " +
			"allow\n# h\n",
		"header": "---\nversion: 1\nrules:\n- {id: a, effect: allow}\n",
	} {
		p, err := policy.Compile([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := p.Decide(req); d.Effect != policy.Allow {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// deep nests mappings by indentation.
func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestPolicy_is_safe_for_concurrent_use means something with -race only.
func TestPolicy_is_safe_for_concurrent_use(t *testing.T) {
	p := policy.Compose(manyRules(t, 20),
		must(t, "version: 1\nfilters: [{id: f, on: both, pattern: a+, action: mask}]"))
	want := p.Decide(benchRequest).String()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got := p.Decide(benchRequest).String(); got != want {
					t.Errorf("Decide = %s, want %s", got, want)
				}
				f, err := p.Screen(benchRequest, policy.Input).JSON(t.Context(), benchRequest.Args)
				if err != nil || !f.Masked {
					t.Errorf("JSON = %+v, %v", f, err)
				}
			}
		})
	}
	all.Wait()
}

func TestFiltered_lists_a_bounded_number_of_findings(t *testing.T) {
	p := must(t, "version: 1\nfilters: [{id: f, on: both, pattern: a+, action: mask}]")
	raw := "[" + strings.TrimSuffix(strings.Repeat(`"a",`, 500), ",") + "]"
	f, err := p.Screen(policy.Request{}, policy.Input).JSON(t.Context(), json.RawMessage(raw))
	if err != nil || len(f.Findings)+f.More != 500 || f.More == 0 || strings.Contains(string(f.Value), `"a"`) {
		t.Errorf("Filter: %d findings, %d more, %v", len(f.Findings), f.More, err)
	}
	edges := must(t, `version: 1
filters: [{id: f, on: both, pattern: '\b', action: mask}]`)
	f, err = edges.Screen(policy.Request{}, policy.Input).JSON(t.Context(), json.RawMessage(`"a b"`))
	if err == nil && (f.Masked || len(f.Findings) > 0) {
		t.Errorf("places without text are found: %+v", f)
	}
	deepest := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	_, err = p.Screen(policy.Request{}, policy.Input).JSON(t.Context(), json.RawMessage(deepest))
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("JSON(200 deep) = %v", err)
	}
}

func TestDecision_Err_keeps_problems_for_the_operator(t *testing.T) {
	d := must(t, "version: 1\nrules: [{id: a, effect: allow, when: args.x}]").Decide(
		policy.Request{Principal: haft.Principal{Org: "o"}, Tool: haft.Tool{Name: "x"}})
	err := d.Err()
	e, ok := errors.AsType[*haft.Error](err)
	if !ok || e.Err == nil || !strings.Contains(err.Error(), "rule a:") {
		t.Errorf("Err() = %v", err)
	}
	if diff := cmp.Diff([]policy.Problem{{Rule: "a", Message: d.Problems[0].Message}}, d.Problems); diff != "" {
		t.Error(diff)
	}
}

func TestPolicy_Decide_bounds_all_expressions_together(t *testing.T) {
	costly := func(n int) []string {
		rules := []string{"{id: all, effect: allow}"}
		for i := range n {
			rules = append(rules,
				fmt.Sprintf(`{id: r%d, effect: deny, when: 'args.a.exists(x, args.a.exists(y, x + y < 0))'}`, i))
		}
		return rules
	}
	numbers, err := json.Marshal(map[string]any{"a": make([]int, 60)})
	if err != nil {
		t.Fatal(err)
	}
	req := policy.Request{Principal: haft.Principal{Org: "o"}, Tool: haft.Tool{Name: "x"}, Args: numbers}
	if d := compile(t, costly(1)).Decide(req); d.Effect != policy.Allow {
		t.Errorf("one costly rule: %s", d)
	}
	text, err := json.Marshal(map[string]any{"a": []int{}, "text": strings.Repeat("x", 500_000)})
	if err != nil {
		t.Fatal(err)
	}
	long := req
	long.Args = text
	if d := compile(t,
		append(costly(0), `{id: long, effect: deny, when: 'args.text.matches("secret[0-9]+ and so on")'}`)).Decide(
		long); d.Effect != policy.Allow {
		t.Errorf("a long text: %s", d)
	}
	p := compile(t, costly(400))
	start := time.Now()
	d := p.Decide(req)
	if took := time.Since(start); took > 90*time.Second { // without the bound it is minutes with -race
		t.Errorf("400 costly rules took %v", took)
	} else {
		t.Logf("400 costly rules took %v", took)
	}
	if d.Effect != policy.Deny || len(d.Problems) == 0 {
		t.Errorf("400 costly rules: %s", d)
	}
}

func TestPolicy_Decide_a_star_means_that_there_is_one(t *testing.T) {
	p := must(t, `version: 1
rules: [{id: a, effect: allow, users: ["*"], agents: ["*"], roles: ["*"]}]`)
	full := haft.Principal{Org: "o", User: "u", Agent: "a", Roles: []string{"r"}}
	for name, change := range map[string]func(*haft.Principal){
		"no user": func(p *haft.Principal) { p.User = "" }, "no agent": func(p *haft.Principal) { p.Agent = "" },
		"no role":       func(p *haft.Principal) { p.Roles = nil },
		"an empty role": func(p *haft.Principal) { p.Roles = []string{""} },
	} {
		who := full
		change(&who)
		if d := p.Decide(policy.Request{Principal: who, Tool: haft.Tool{Name: "x"}}); d.Effect != policy.Deny {
			t.Errorf("%s: %s", name, d)
		}
	}
	if d := p.Decide(policy.Request{Principal: full, Tool: haft.Tool{Name: "x"}}); d.Effect != policy.Allow {
		t.Errorf("all: %s", d)
	}
}

var benchRequest = policy.Request{
	Principal: haft.Principal{Org: "acme", User: "ann", Roles: []string{"operator"}},
	Tool:      haft.Tool{Name: "add", Version: haft.Version{Kind: haft.KindPython}},
	Args:      json.RawMessage(`{"a": 1, "b": "aaa", "c": [1, 2, 3]}`),
}

func ExamplePolicy_Decide() {
	p, err := policy.Compile([]byte(`
version: 1
roles:
  reader: ["tool:weather_*"]
rules:
  - id: no-coordinates
    effect: deny
    when: has(args.latitude)
    reason: ask for a city
`))
	if err != nil {
		fmt.Println(haft.MessageOf(err))
		return
	}
	req := policy.Request{
		Principal: haft.Principal{Org: "acme", User: "ann", Roles: []string{"reader"}},
		Tool:      haft.Tool{Org: "acme", Name: "weather_now"},
		Args:      json.RawMessage(`{"city": "Lisbon"}`),
	}
	fmt.Print(p.Explain(req))
	req.Args = json.RawMessage(`{"latitude": 38.7}`)
	fmt.Println(haft.MessageOf(p.Decide(req).Err()))
	// Output:
	// allow: the rule roles.reader allows it
	// rule: roles.reader
	// + allow roles.reader (line 4): it matches
	// - deny no-coordinates (line 6): its condition does not hold
	// ask for a city
}
