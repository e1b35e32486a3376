package toolrule_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/toolrule"
)

func has(tool string) bool { return slices.Contains(tools, tool) }

func raws(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func TestCheck_accepts(t *testing.T) {
	for name, rules := range map[string][]haft.ToolRule{
		"none": nil,
		"all nine": {
			{Type: haft.RuleFirst, Tool: "a", Args: raws("q", `"x"`)},
			{Type: haft.RuleChildren, Tool: "a", Children: []string{"b", "c"},
				ChildArgs: []haft.ChildArgs{{Name: "b", Args: raws("n", "1")}, {Name: "c"}}},
			rule(haft.RuleParent, "b", "d"),
			conditional("c", "d2", false, "true=a", "1=b"),
			rule(haft.RuleExit, "end"), rule(haft.RuleContinue, "a"), rule(haft.RuleRequired, "b"),
			atMost("a", 3), rule(haft.RuleApproval, "end"),
		},
		"the same rule twice":   {rule(haft.RuleExit, "end"), rule(haft.RuleExit, "end")},
		"the same parent twice": {rule(haft.RuleParent, "a", "b"), rule(haft.RuleParent, "a", "b", "c")},
		"a required exit":       {rule(haft.RuleExit, "end"), rule(haft.RuleRequired, "end")},
		"one of two exits required": {rule(haft.RuleExit, "end"), rule(haft.RuleExit, "d"),
			rule(haft.RuleRequired, "end")},
		"children that are their own": {rule(haft.RuleChildren, "a", "a")},
		"a first that is a child, and others": {rule(haft.RuleFirst, "a"), rule(haft.RuleFirst, "b"),
			rule(haft.RuleParent, "c", "a")},
		"a first that ends and is required": {rule(haft.RuleFirst, "end"), rule(haft.RuleExit, "end"),
			rule(haft.RuleRequired, "end")},
		"a conditional that leaves all":     {conditional("a", "", false, "x=b"), rule(haft.RuleChildren, "a", "c")},
		"keys that mean the same and agree": {conditional("a", "", false, "true=b", "True=b", "1=c", "1.0=c")},
		"keys that only look alike":         {conditional("a", "", false, "yes=b", "Yes=c", "07=b", "7=c")},
	} {
		if err := toolrule.Check(rules, func(tool string) bool { return has(tool) || tool == "d2" }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck_refuses(t *testing.T) {
	node := func(children string, nodes ...haft.ChildArgs) haft.ToolRule {
		return haft.ToolRule{Type: haft.RuleChildren, Tool: "a", Children: strings.Fields(children), ChildArgs: nodes}
	}
	many := map[string]string{}
	for i := range toolrule.MaxChildren + 1 {
		many[fmt.Sprint(i)] = "b"
	}
	for _, c := range []struct {
		name, want string
		rules      []haft.ToolRule
	}{
		{"unknown type", "tool rule 2: there is no such type of tool rule",
			[]haft.ToolRule{rule(haft.RuleExit, "a"), rule("Exit", "b")}},
		{"no tool", "tool rule 1 (exit_loop): tool_name is missing", []haft.ToolRule{rule(haft.RuleExit, "")}},
		{"a name that is none", "tool rule 1 (exit_loop): a tool name starts with",
			[]haft.ToolRule{rule(haft.RuleExit, "a b")}},
		{"unknown tool", "tool rule 1 (exit_loop): there is no tool x", []haft.ToolRule{rule(haft.RuleExit, "x")}},
		{"unknown child", "there is no tool x", []haft.ToolRule{rule(haft.RuleParent, "a", "b", "x")}},
		{"unknown tool of a mapping", "there is no tool x", []haft.ToolRule{conditional("a", "", false, "1=x")}},
		{"empty tool of a mapping", "a tool needs a name", []haft.ToolRule{conditional("a", "", false, "1=")}},
		{"unknown default", "there is no tool x", []haft.ToolRule{conditional("a", "x", false, "1=b")}},
		{"no children", "tool rule 1 (constrain_child_tools): children are missing",
			[]haft.ToolRule{rule(haft.RuleChildren, "a")}},
		{"no children of a parent", "children are missing", []haft.ToolRule{rule(haft.RuleParent, "a")}},
		{"empty mapping", "tool rule 1 (conditional): Conditional tool rule must have at least one child tool.",
			[]haft.ToolRule{conditional("a", "b", false)}},
		{"large mapping", "child_output_mapping has 101 entries, 100 is the most",
			[]haft.ToolRule{{Type: haft.RuleConditional, Tool: "a", Outputs: many}}},
		{"many children", "there are 101 children, 100 is the most",
			[]haft.ToolRule{rule(haft.RuleChildren, "a", slices.Repeat([]string{"b"}, 101)...)}},
		{"default that is never used", "default_child is never used",
			[]haft.ToolRule{conditional("a", "b", true, "1=b")}},
		{"no count", "max_count_limit must be from 1 to 1000", []haft.ToolRule{rule(haft.RuleMaxCount, "a")}},
		{"negative count", "max_count_limit must be from 1 to 1000", []haft.ToolRule{atMost("a", -1)}},
		{"huge count", "max_count_limit must be from 1 to 1000", []haft.ToolRule{atMost("a", 1001)}},
		{"node that is no child", "child_arg_nodes[1] names a tool that is not among the children",
			[]haft.ToolRule{node("b c", haft.ChildArgs{Name: "b"}, haft.ChildArgs{Name: "d"})}},
		{"node without a name", "child_arg_nodes[0] names a tool that is not among the children",
			[]haft.ToolRule{node("b", haft.ChildArgs{})}},
		{"argument that is no JSON", "a prefilled argument has no name or is not JSON",
			[]haft.ToolRule{{Type: haft.RuleFirst, Tool: "a", Args: raws("q", "{")}}},
		{"argument of a child that is no JSON", "a prefilled argument has no name or is not JSON",
			[]haft.ToolRule{node("b", haft.ChildArgs{Name: "b", Args: raws("q", "")})}},
		{"large arguments", "is the most",
			[]haft.ToolRule{{Type: haft.RuleFirst, Tool: "a",
				Args: raws("q", `"`+strings.Repeat("x", toolrule.MaxArgs)+`"`)}}},
		{"large arguments of children", "is the most",
			[]haft.ToolRule{node("b", haft.ChildArgs{Name: "b",
				Args: raws("q", `"`+strings.Repeat("x", toolrule.MaxArgs)+`"`)})}},
		{"long prompt", "the prompt has 2001 characters, 2000 is the most",
			[]haft.ToolRule{{Type: haft.RuleExit, Tool: "a", Prompt: strings.Repeat("ä", 2001)}}},
		{"prompt that is no text", "the prompt is not text in UTF-8",
			[]haft.ToolRule{{Type: haft.RuleExit, Tool: "a", Prompt: "\xff"}}},
		{"args of an exit", "args means nothing for this type of tool rule",
			[]haft.ToolRule{{Type: haft.RuleExit, Tool: "a", Args: raws("q", "1")}}},
		{"count of an approval", "max_count_limit means nothing",
			[]haft.ToolRule{{Type: haft.RuleApproval, Tool: "a", MaxCount: 1}}},
		{"nodes of a parent", "child_arg_nodes means nothing",
			[]haft.ToolRule{{Type: haft.RuleParent, Tool: "a", Children: []string{"b"},
				ChildArgs: []haft.ChildArgs{{Name: "b"}}}}},
		{"mapping of children", "child_output_mapping means nothing",
			[]haft.ToolRule{{Type: haft.RuleChildren, Tool: "a", Children: []string{"b"},
				Outputs: map[string]string{"1": "b"}}}},
		{"long key", "a key of child_output_mapping has more than 200",
			[]haft.ToolRule{conditional("a", "", false, strings.Repeat("k", 201)+"=b")}},
		{"keys that mean the same number", "mean the same output",
			[]haft.ToolRule{conditional("a", "", false, "1=b", "1.0=c")}},
		{"keys that mean the same number, the other way", "mean the same output",
			[]haft.ToolRule{conditional("a", "", false, "10=b", "0.1e2=c")}},
		{"keys that mean the same truth", "mean the same output",
			[]haft.ToolRule{conditional("a", "", false, "True=b", "true=c")}},
		{"too many", "there are 101 tool rules, 100 is the most",
			slices.Repeat([]haft.ToolRule{rule(haft.RuleExit, "a")}, 101)},

		{"child of two parents", "d can never be called: it may only be called right after a and right after b",
			[]haft.ToolRule{rule(haft.RuleParent, "a", "c", "d"), rule(haft.RuleParent, "b", "d")}},
		{"child of itself", "a can never be called: it may only be called right after itself",
			[]haft.ToolRule{rule(haft.RuleParent, "a", "a", "b")}},
		{"first that has to come second", "no tool could ever be called: other rules forbid that a is the first",
			[]haft.ToolRule{rule(haft.RuleFirst, "a"), rule(haft.RuleParent, "b", "a")}},
		{"first that ends before what is required", "no tool could ever be called",
			[]haft.ToolRule{rule(haft.RuleFirst, "end"), rule(haft.RuleExit, "end"), rule(haft.RuleRequired, "b")}},
		{"end and go on", "the turn cannot both end and go on after end",
			[]haft.ToolRule{rule(haft.RuleExit, "end"), rule(haft.RuleContinue, "end")}},
		{"children of an exit", "nothing can follow end, because the turn ends after it",
			[]haft.ToolRule{rule(haft.RuleExit, "end"), rule(haft.RuleChildren, "end", "a")}},
		{"two exits required", "not both can be required",
			[]haft.ToolRule{rule(haft.RuleExit, "end"), rule(haft.RuleExit, "d"), rule(haft.RuleRequired, "end"),
				rule(haft.RuleRequired, "d")}},
		{"children without a common one", "no tool could ever follow a",
			[]haft.ToolRule{rule(haft.RuleChildren, "a", "b"), rule(haft.RuleChildren, "a", "c")}},
		{"children that only another opens", "no tool could ever follow a",
			[]haft.ToolRule{rule(haft.RuleChildren, "a", "b"), rule(haft.RuleParent, "c", "b")}},
		{"conditional against children", "no tool could ever follow a",
			[]haft.ToolRule{rule(haft.RuleChildren, "a", "b"), conditional("a", "c", false, "1=d")}},
	} {
		err := toolrule.Check(c.rules, has)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), c.want) {
			t.Errorf("%s: Check = %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCheck_without_a_list_of_tools(t *testing.T) {
	if err := toolrule.Check([]haft.ToolRule{rule(haft.RuleExit, "anything")}, nil); err != nil {
		t.Error(err)
	}
}
