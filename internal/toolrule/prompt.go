package toolrule

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"haft"
)

// preface is what stands before the rules in the block for the model.
const preface = "These rules say in which order and how often you may call your tools. A call that breaks one is " +
	"refused."

// Prompt renders the rules for a model, as a block labelled tool_usage_rules. It is empty if
// there are none to render. Rules about required tools and approvals are not in it: the model
// learns of them when they matter.
//
// A rule's own prompt replaces our words. Within it, {{ tool_name }},
// {{ children | join(', ') }} and {{ max_count_limit }} are replaced, as in
// Letta's; everything else is text. In Letta it is a template with code in it.
func Prompt(rules []haft.ToolRule) string {
	var all []string
	for _, r := range ordered(rules) {
		if text := render(r); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "<tool_usage_rules>\n" + preface + "\n\n" + strings.Join(all, "\n") + "\n</tool_usage_rules>"
}

// ordered returns the rules that are shown to models, by type in Letta's order
// and else as they are.
func ordered(rules []haft.ToolRule) []haft.ToolRule {
	var all []haft.ToolRule
	for _, types := range [][]haft.RuleType{
		{haft.RuleFirst},
		{haft.RuleContinue},
		{haft.RuleChildren, haft.RuleConditional, haft.RuleMaxCount},
		{haft.RuleParent},
		{haft.RuleExit},
	} {
		for _, r := range rules {
			if slices.Contains(types, r.Type) {
				all = append(all, r)
			}
		}
	}
	return all
}

// hole is a place in a prompt that is filled.
var hole = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{ *(tool_name|children *\| *join\(', '\)|max_count_limit) *\}\}`)
})

// render says one rule in words.
func render(r haft.ToolRule) string {
	children := strings.Join(r.Children, ", ")
	if r.Prompt != "" {
		return hole().ReplaceAllStringFunc(r.Prompt, func(h string) string {
			switch {
			case strings.Contains(h, "tool_name"):
				return r.Tool
			case strings.Contains(h, "children"):
				return children
			}
			return strconv.Itoa(r.MaxCount)
		})
	}
	text := ""
	switch r.Type {
	case haft.RuleFirst:
		text = r.Tool + " is to be called before other tools"
	case haft.RuleChildren:
		text = "After " + r.Tool + ", call one of these tools: " + children
	case haft.RuleParent:
		text = "Only right after " + r.Tool + " may these tools be called: " + children
	case haft.RuleConditional:
		text = "What " + r.Tool + " gives decides which tool is called next"
	case haft.RuleExit:
		text = r.Tool + " ends your response"
	case haft.RuleContinue:
		text = "After " + r.Tool + ", go on with your response"
	case haft.RuleMaxCount:
		text = "Call " + r.Tool + " at most " + strconv.Itoa(r.MaxCount) + " time(s) in one response"
	case haft.RuleRequired, haft.RuleApproval:
		return ""
	default:
		return ""
	}
	return "<tool_rule>\n" + text + "\n</tool_rule>"
}
