package toolrule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/toolrule"
)

func TestPrompt(t *testing.T) {
	got := toolrule.Prompt([]haft.ToolRule{
		rule(haft.RuleExit, "end"), rule(haft.RuleParent, "b", "d"), atMost("a", 2), conditional("c", "", false, "1=a"),
		rule(haft.RuleChildren, "a", "b", "c"), rule(haft.RuleContinue, "a"), rule(haft.RuleFirst, "a"),
		rule(haft.RuleRequired, "b"), rule(haft.RuleApproval, "b"), rule(haft.RuleExit, "end"),
		{Type: haft.RuleChildren, Tool: "b", Children: []string{"c", "d"},
			Prompt: "{{tool_name}} -> {{ children | join(', ') }} {{ 7*7 }} {{ tool_name.__class__ }} {% x %}"},
		{Type: haft.RuleMaxCount, Tool: "d", MaxCount: 3, Prompt: "{{ tool_name }}: {{ max_count_limit }}"},
	})
	want := `<tool_usage_rules>
These rules say in which order and how often you may call your tools. A call that breaks one is refused.

<tool_rule>
a is to be called before other tools
</tool_rule>
<tool_rule>
After a, go on with your response
</tool_rule>
<tool_rule>
Call a at most 2 time(s) in one response
</tool_rule>
<tool_rule>
What c gives decides which tool is called next
</tool_rule>
<tool_rule>
After a, call one of these tools: b, c
</tool_rule>
b -> c, d {{ 7*7 }} {{ tool_name.__class__ }} {% x %}
d: 3
<tool_rule>
Only right after b may these tools be called: d
</tool_rule>
<tool_rule>
end ends your response
</tool_rule>
</tool_usage_rules>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrompt_is_empty_where_there_is_nothing_to_say(t *testing.T) {
	for _, rules := range [][]haft.ToolRule{nil, {rule(haft.RuleRequired, "a"), rule(haft.RuleApproval, "b"),
		rule("unknown", "c")}} {
		if got := toolrule.Prompt(rules); got != "" {
			t.Errorf("Prompt(%v) = %q", rules, got)
		}
	}
}
