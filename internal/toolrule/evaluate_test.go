package toolrule_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/toolrule"
)

// The tools of the tests.
var tools = []string{"a", "b", "c", "d", "end"}

func rule(t haft.RuleType, tool string, children ...string) haft.ToolRule {
	return haft.ToolRule{Type: t, Tool: tool, Children: children}
}

func atMost(tool string, n int) haft.ToolRule {
	return haft.ToolRule{Type: haft.RuleMaxCount, Tool: tool, MaxCount: n}
}

func conditional(tool, def string, strict bool, outputs ...string) haft.ToolRule {
	r := haft.ToolRule{Type: haft.RuleConditional, Tool: tool, Default: def, RequireOutput: strict,
		Outputs: map[string]string{}}
	for _, o := range outputs {
		key, child, _ := strings.Cut(o, "=")
		r.Outputs[key] = child
	}
	return r
}

// turn reads a history: "a b:error c=true" is a success of a, a failure of b and
// a success of c that gave true.
func turn(text string) []toolrule.Past {
	var all []toolrule.Past
	for _, word := range strings.Fields(text) {
		word, value, _ := strings.Cut(word, "=")
		tool, status, ok := strings.Cut(word, ":")
		if !ok {
			status = string(haft.StatusSuccess)
		}
		if value == "" {
			value = "null"
		}
		all = append(all, toolrule.Past{Tool: tool, Status: haft.Status(status), Value: json.RawMessage(value)})
	}
	return all
}

// none is what is said where nothing is allowed.
const none = "No valid tools found based on tool rules."

// evaluation is one row of the tables.
type evaluation struct {
	name    string
	rules   []haft.ToolRule
	history string
	want    string // the allowed tools, * for all, ! for the end of the turn
	forced  bool
}

// check evaluates the rows of a table.
func check(t *testing.T, rows []evaluation) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			s, err := toolrule.Evaluate(c.rules, turn(c.history), tools)
			if c.want == none {
				if haft.CodeOf(err) != haft.CodeDenied || haft.MessageOf(err) != none {
					t.Fatalf("Evaluate after %q = %v, %v, want denied: %s", c.history, s, err, none)
				}
				return
			}
			if err != nil {
				t.Fatalf("Evaluate after %q: %v", c.history, err)
			}
			want := strings.Fields(c.want)
			switch c.want {
			case "*":
				want = tools
			case "!":
				want = []string{}
			}
			if diff := cmp.Diff(want, s.Allowed); diff != "" {
				t.Errorf("allowed after %q (-want +got):\n%s", c.history, diff)
			}
			if s.Forced != c.forced || s.Ended != (c.want == "!") {
				t.Errorf("after %q forced = %v, ended = %v, want %v, %v", c.history, s.Forced, s.Ended, c.forced,
					c.want == "!")
			}
			for _, tool := range append(slices.Clone(tools), "x", "") {
				if err := s.Admit(tool); (err == nil) != slices.Contains(want, tool) {
					t.Errorf("Admit(%q) after %q = %v", tool, c.history, err)
				}
			}
		})
	}
}

func TestEvaluate_run_first(t *testing.T) {
	first := []haft.ToolRule{rule(haft.RuleFirst, "a")}
	check(t, []evaluation{
		{"no rules allow all", nil, "a b", "*", false},
		{"run_first at the beginning", first, "", "a", true},
		{"run_first has run", first, "a", "*", false},
		{"run_first has failed", first, "a:error", "*", false},
		{"run_first still runs", first, "a:running", "a", true},
		{"run_first was refused", first, "a:validation_error", "a", true},
		{"run_first was rejected by a person", first, "a:denied_by_approver", "a", true},
		{"run_first may not have run", first, "a:unknown", "a", true},
		{"run_first was cancelled", first, "a:cancelled", "a", true},
		{"run_first came later than another", first, "b", "a", true},
		{"several run_first are alternatives", append(first, rule(haft.RuleFirst, "b")), "", "a b", true},
		{"run_first of a tool that is not there", []haft.ToolRule{rule(haft.RuleFirst, "x")}, "", none, false},
		{"run_first of a tool that another rule forbids", append(first, rule(haft.RuleParent, "b", "a")), "", none,
			false},
	})
}

func TestEvaluate_constrain_child_tools(t *testing.T) {
	children := []haft.ToolRule{rule(haft.RuleChildren, "a", "b", "c")}
	check(t, []evaluation{
		{"children not yet", children, "", "*", false},
		{"children right after", children, "a", "b c", true},
		{"children also after a failure", children, "a:timeout", "b c", true},
		{"children while it runs", children, "a:running", "b c", true},
		{"children are over", children, "a b", "*", false},
		{"children after a refusal", children, "a:permission_denied", "*", false},
		{"a refusal in between does not free from children", children, "a d:permission_denied", "b c", true},
		{"children that are not there", []haft.ToolRule{rule(haft.RuleChildren, "a", "x")}, "a", none, false},
		{"two rules of children are cut", append(children, rule(haft.RuleChildren, "a", "c", "d")), "a", "c", true},
	})
}

func TestEvaluate_parent_last_tool(t *testing.T) {
	parent := []haft.ToolRule{rule(haft.RuleParent, "a", "b", "c")}
	check(t, []evaluation{
		{"parent keeps children back", parent, "", "a d end", false},
		{"parent opens its children, and them alone", parent, "a", "b c", true},
		{"parent was not the last", parent, "a d", "a d end", false},
		{"parent failed", parent, "a:error", "a d end", false},
		{"parent still runs", parent, "a:running", "a d end", false},
		{"parent waits for a person", parent, "a:pending_approval", "a d end", false},
	})
}

func TestEvaluate_conditional(t *testing.T) {
	branch := []haft.ToolRule{conditional("a", "", false, "true=b", "false=c")}
	withDefault := []haft.ToolRule{conditional("a", "d", false, "true=b")}
	strict := []haft.ToolRule{conditional("a", "", true, "true=b")}
	check(t, []evaluation{
		{"conditional not yet", branch, "b", "*", false},
		{"conditional true", branch, "a=true", "b", true},
		{"conditional as Python writes it", branch, `a="False"`, "c", true},
		{"conditional by message", branch, `a={"message":"true","status":"OK"}`, "b", true},
		{"conditional by message of another type", branch, `a={"message":false}`, "c", true},
		{"conditional matches nothing", branch, `a="maybe"`, "*", true},
		{"conditional matches nothing, with default", withDefault, `a="maybe"`, "d", true},
		{"conditional matches nothing, strict", strict, `a="maybe"`, none, false},
		{"conditional failed", branch, "a:error=true", none, false},
		{"conditional failed, with default", withDefault, "a:error=true", "d", true},
		{"conditional still runs", branch, "a:running", none, false},
		{"conditional gave no JSON", branch, "a=tru", none, false},
		{"conditional keys that mean the same", []haft.ToolRule{conditional("a", "", false, "1=b", "1.0=c")}, "a=1",
			none, false},
	})
}

func TestEvaluate_exit_loop(t *testing.T) {
	exit := []haft.ToolRule{rule(haft.RuleExit, "end")}
	check(t, []evaluation{
		{"exit not yet", exit, "a", "*", false},
		{"exit was called", exit, "a end", "!", false},
		{"exit was called and failed", exit, "end:error", "!", false},
		{"exit was called long ago", exit, "end a b", "!", false},
		{"exit was refused", exit, "end:rate_limited", "*", false},
		{"the other exit was not called", append([]haft.ToolRule{rule(haft.RuleExit, "end")}, rule(haft.RuleExit, "d")),
			"end", "!", false},
		{"exit wins over children", append(exit, rule(haft.RuleChildren, "end", "a")), "end", "!", false},
	})
}

func TestEvaluate_the_other_types(t *testing.T) {
	exit := []haft.ToolRule{rule(haft.RuleExit, "end")}
	required := []haft.ToolRule{rule(haft.RuleExit, "end"), rule(haft.RuleRequired, "b")}
	check(t, []evaluation{
		{"continue allows all", []haft.ToolRule{rule(haft.RuleContinue, "a")}, "a", "*", false},
		{"approval allows all", []haft.ToolRule{rule(haft.RuleApproval, "a")}, "a", "*", false},
		{"required keeps from the exit", required, "a", "a b c d", false},
		{"required was refused", required, "b:validation_error", "a b c d", false},
		{"required was called", required, "b", "*", false},
		{"required was called and failed", required, "b:error", "*", false},
		{"an exit that is required itself", append(exit, rule(haft.RuleRequired, "end")), "", "*", false},
		{"an exit and another required", append(required, rule(haft.RuleRequired, "end")), "", "a b c d", false},
	})
}

func TestEvaluate_max_count_per_step(t *testing.T) {

	check(t, []evaluation{
		{"at most once, not yet", []haft.ToolRule{atMost("a", 1)}, "b", "*", false},
		{"at most once", []haft.ToolRule{atMost("a", 1)}, "a", "b c d end", false},
		{"at most twice, once so far", []haft.ToolRule{atMost("a", 2)}, "a b", "*", false},
		{"at most twice", []haft.ToolRule{atMost("a", 2)}, "a b a:error", "b c d end", false},
		{"refused calls do not count", []haft.ToolRule{atMost("a", 1)}, "a:rate_limited", "*", false},
		{"rejected calls do not count", []haft.ToolRule{atMost("a", 1)}, "a:denied_by_approver", "*", false},
		{"calls that may have run count", []haft.ToolRule{atMost("a", 1)}, "a:unknown", "b c d end", false},
		{"calls of a status that we do not know count", []haft.ToolRule{atMost("a", 1)}, "a:strange", "b c d end",
			false},
	})
}

func TestEvaluate_rules_together(t *testing.T) {
	children := []haft.ToolRule{rule(haft.RuleChildren, "a", "b", "c")}
	parent := []haft.ToolRule{rule(haft.RuleParent, "a", "b", "c")}
	branch := []haft.ToolRule{conditional("a", "", false, "true=b", "false=c")}
	check(t, []evaluation{
		{"first, then children, then exit",
			[]haft.ToolRule{rule(haft.RuleFirst, "a"), rule(haft.RuleChildren, "a", "b", "end"),
				rule(haft.RuleExit, "end"), rule(haft.RuleRequired, "b")},
			"a", "b", true},
		{"children and a count leave nothing", append(children, atMost("b", 1), atMost("c", 1)), "b c a", none, false},
		{"conditional and children agree", append(branch, rule(haft.RuleChildren, "a", "b")), "a=true", "b", true},
		{"conditional and children disagree", append(branch, rule(haft.RuleChildren, "a", "b")), "a=false", none,
			false},
		{"parent and children", append(parent, rule(haft.RuleChildren, "a", "c", "d")), "a", "c", true},
	})
}

func TestEvaluate_available(t *testing.T) {
	s, err := toolrule.Evaluate([]haft.ToolRule{rule(haft.RuleChildren, "a", "c", "b", "x")}, turn("a"),
		[]string{"c", "a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, s.Allowed); diff != "" {
		t.Errorf("allowed, sorted and once (-want +got):\n%s", diff)
	}
	if _, err := toolrule.Evaluate(nil, nil, nil); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("an agent without tools: %v, want denied", err)
	}
}

func TestEvaluate_refuses_what_it_does_not_understand(t *testing.T) {
	for name, rules := range map[string][]haft.ToolRule{
		"unknown type":      {rule("run_last", "a")},
		"no type":           {rule("", "a")},
		"no tool":           {rule(haft.RuleExit, "")},
		"no children":       {rule(haft.RuleParent, "a")},
		"no mapping":        {conditional("a", "", false)},
		"no count":          {atMost("a", 0)},
		"too many":          slices.Repeat([]haft.ToolRule{rule(haft.RuleExit, "a")}, toolrule.MaxRules+1),
		"a field of others": {rule(haft.RuleExit, "a", "b")},
	} {
		if s, err := toolrule.Evaluate(rules, nil, tools); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: Evaluate = %v, %v, want invalid", name, s, err)
		}
		if err := toolrule.CanExit(rules, nil); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: CanExit = %v, want invalid", name, err)
		}
	}
	long := slices.Repeat(turn("a:permission_denied"), toolrule.MaxHistory)
	if s, err := toolrule.Evaluate(nil, long, tools); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a turn of %d calls: %v, %v, want invalid", len(long), s, err)
	}
	if _, err := toolrule.Evaluate(nil, long[1:], tools); err != nil {
		t.Errorf("a turn of %d calls: %v", len(long)-1, err)
	}
}

func TestConditional_keys(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       bool
	}{
		{"true", `true`, true},
		{"true", `"TRUE"`, true},
		{"True", `"true"`, true},
		{"true", `"yes"`, false},
		{"false", `""`, false},
		{"1", `1`, true},
		{"1", `"1"`, true},
		{"1", `" 1 "`, true},
		{"1", `1.0`, false},
		{"1", `true`, false},
		{"1.0", `1`, true},
		{"0.1", `0.10`, true},
		{"1e2", `100`, true},
		{"-5", `-5`, true},
		{"5", `-5`, false},
		{"9007199254740993", `9007199254740992`, false},
		{"9007199254740993", `9007199254740993`, true},
		{"007", `7`, false},
		{"007", `"007"`, true},
		{"nan", `"NaN"`, false},
		{"1e999", `1e999`, true},
		{"1e999", `1e998`, false},
		{"done", `"done"`, true},
		{"done", `"Done"`, false},
		{"done", `" done"`, false},
		{"", `""`, true},
		{"null", `null`, true},
		{"done", `{"message":"done"}`, true},
		{"done", `{"Message":"done"}`, false},
		{"done", `["done"]`, false},
		{`["done"]`, `["done"]`, true},
		{"ä", `"\u00e4"`, true},
		{"\ufffd", "\"\xff\"", false},
		{"1", `"` + strings.Repeat("1", 300) + `"`, false},
	} {
		s, err := toolrule.Evaluate([]haft.ToolRule{conditional("a", "c", false, c.key+"=b")},
			[]toolrule.Past{{Tool: "a", Status: haft.StatusSuccess, Value: json.RawMessage(c.value)}}, tools)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Allowed[0] == "b"; got != c.want {
			t.Errorf("key %q matches %s: %v, want %v", c.key, c.value, got, c.want)
		}
	}
}

func TestState_says_what_else_follows(t *testing.T) {
	rules := []haft.ToolRule{
		rule(haft.RuleExit, "end"), rule(haft.RuleContinue, "a"), rule(haft.RuleApproval, "b"),
		rule(haft.RuleChildren, "c", "a"), rule(haft.RuleContinue, "end"),
	}
	s, err := toolrule.Evaluate(rules, nil, tools)
	if err != nil {
		t.Fatal(err)
	}
	type says struct{ Ends, Continues, Approval bool }
	want := map[string]says{
		"a": {Continues: true}, "b": {Approval: true}, "c": {Continues: true}, "d": {}, "end": {Ends: true},
	}
	got := map[string]says{}
	for _, tool := range tools {
		got[tool] = says{s.Ends(tool), s.Continues(tool), s.NeedsApproval(tool)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExit(t *testing.T) {
	rules := []haft.ToolRule{rule(haft.RuleRequired, "b"), rule(haft.RuleRequired, "a"), rule(haft.RuleRequired, "b"),
		rule(haft.RuleRequired, "x")}
	for _, c := range []struct{ history, want string }{
		{"", "ToolRuleViolated: You must call b, a, x at least once to exit the loop."},
		{"a c", "ToolRuleViolated: You must call b, x at least once to exit the loop."},
		{"a b:error c", "ToolRuleViolated: You must call x at least once to exit the loop."},
		{"a b x:running", "ToolRuleViolated: You must call x at least once to exit the loop."},
		{"a b x:permission_denied", "ToolRuleViolated: You must call x at least once to exit the loop."},
		{"a b x", ""},
	} {
		s, err := toolrule.Evaluate(rules, turn(c.history), tools)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{"Exit": s.Exit(), "CanExit": toolrule.CanExit(rules, turn(c.history))} {
			if got := haft.MessageOf(err); got != c.want || c.want != "" && haft.CodeOf(err) != haft.CodeDenied {
				t.Errorf("%s after %q = %v, want %q", name, c.history, err, c.want)
			}
		}
	}
}

func TestAdmit_says_why(t *testing.T) {
	rules := []haft.ToolRule{
		rule(haft.RuleChildren, "a", "b", "c"), rule(haft.RuleParent, "b", "d"),
		rule(haft.RuleExit, "end"), rule(haft.RuleRequired, "c"), rule(haft.RuleRequired, "end"),
		rule(haft.RuleFirst, "a"),
		{Type: haft.RuleMaxCount, Tool: "b", MaxCount: 2, Prompt: "not {{ tool_name }} again"},
	}
	for _, c := range []struct{ history, tool, want string }{
		{"", "b", "[ToolConstraintError] Cannot call b, valid tools include: ['a'].\n** Hint: Possible rules that " +
			"were violated:" +
			"\n\t- <tool_rule>\na is to be called before other tools\n</tool_rule>\n\t- not b again"},
		{"a", "x", "[ToolConstraintError] Cannot call x, valid tools include: ['b', 'c'].\n** Hint: Possible rules " +
			"that were violated:" +
			"\n\t- <tool_rule>\nAfter a, call one of these tools: b, c\n</tool_rule>"},
		{"a c", "d", "[ToolConstraintError] Cannot call d, valid tools include: ['a', 'b', 'c', 'end'].\n** Hint: " +
			"Possible rules that were violated:" +
			"\n\t- <tool_rule>\nOnly right after b may these tools be called: d\n</tool_rule>"},
		{"a b b:error", "end", "[ToolConstraintError] Cannot call end, valid tools include: ['a', 'c'].\n** Hint: " +
			"Possible rules that were violated:" +
			"\n\t- <tool_rule>\nOnly right after b may these tools be called: d\n</tool_rule>" +
			"\n\t- <tool_rule>\nend ends your response\n</tool_rule>" +
			"\n\t- ToolRuleViolated: You must call c at least once to exit the loop."},
		{"a c end", "a", "[ToolConstraintError] Cannot call a, valid tools include: [].\n** Hint: Possible rules " +
			"that were violated:" +
			"\n\t- <tool_rule>\nend ends your response\n</tool_rule>"},
	} {
		s, err := toolrule.Evaluate(rules, turn(c.history), tools)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Admit(c.tool)
		if diff := cmp.Diff(c.want, haft.MessageOf(err)); diff != "" || haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("Admit(%s) after %q, %s (-want +got):\n%s", c.tool, c.history, haft.CodeOf(err), diff)
		}
	}
}

func TestAdmit_without_rules_gives_no_hint(t *testing.T) {
	s, err := toolrule.Evaluate(nil, nil, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	got := haft.MessageOf(s.Admit("x\n" + strings.Repeat("y", 200)))
	if want := "[ToolConstraintError] Cannot call x " + strings.Repeat("y", 62) +
		"…, valid tools include: ['a']."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNeedsTurn(t *testing.T) {
	want := map[haft.RuleType]bool{haft.RuleContinue: false, haft.RuleApproval: false}
	for _, typ := range haft.RuleTypes() {
		w, ok := want[typ]
		if got := toolrule.NeedsTurn([]haft.ToolRule{rule(haft.RuleApproval, "b"), rule(typ, "a")}); got != (w || !ok) {
			t.Errorf("NeedsTurn(%s) = %v", typ, got)
		}
	}
	if toolrule.NeedsTurn(nil) {
		t.Error("no rules need no turn")
	}
}
