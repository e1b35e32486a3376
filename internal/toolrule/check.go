package toolrule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"haft"
)

// The bounds on rules.
const (
	MaxRules    = 100
	MaxChildren = 100      // of one rule: children, or entries of its mapping
	MaxCount    = 1000     // calls of a tool in one turn: no more are kept
	MaxArgs     = 64 << 10 // bytes of the prefilled arguments of one rule
	MaxPrompt   = 2000     // characters
	maxOutput   = 200      // characters of a key of a mapping
)

// Check reports what is wrong with rules that are being set: a [*haft.Error] with
// [haft.CodeInvalid] that names the rule by number, from 1. Has says which tools
// there are; nil leaves that unchecked.
//
// A field that has no meaning for its type is refused, because its author expects an effect. So
// are rules that contradict each other such that a tool, or what follows it, could never be
// called.
func Check(rules []haft.ToolRule, has func(tool string) bool) error {
	if len(rules) > MaxRules {
		return wrong("there are %d tool rules, %d is the most", len(rules), MaxRules)
	}
	for i, r := range rules {
		if err := checkRule(r, has); err != nil {
			return wrong("tool rule %d%s: %s", i+1, kind(r), haft.MessageOf(err))
		}
	}
	return contradictions(rules)
}

// CheckArgs reports prefilled arguments that their tool would refuse in every call, as [Check] does. Parameters are
// the JSON Schemas of the tools.
func CheckArgs(rules []haft.ToolRule, parameters map[string]json.RawMessage) error {
	for i, r := range rules {
		fills := append([]haft.ChildArgs{{Name: r.Tool, Args: r.Args}}, r.ChildArgs...)
		for _, f := range fills {
			if len(f.Args) == 0 {
				continue
			}
			if why := unfit(f.Name, f.Args, parameters[f.Name]); len(why) > 0 {
				return wrong("tool rule %d%s: %s", i+1, kind(r), strings.Join(why, " "))
			}
		}
	}
	return nil
}

// kind names the type of a rule in a message, if there is such a type.
func kind(r haft.ToolRule) string {
	if !slices.Contains(haft.RuleTypes(), r.Type) {
		return ""
	}
	return " (" + string(r.Type) + ")"
}

// checkRule checks one rule by itself.
func checkRule(r haft.ToolRule, has func(tool string) bool) error {
	if err := shape(r); err != nil {
		return err
	}
	for _, name := range named(r) {
		if err := haft.CheckToolName(name); err != nil {
			return err
		}
		if has != nil && !has(name) {
			return wrong("there is no tool %s", name)
		}
	}
	if n := utf8.RuneCountInString(r.Prompt); n > MaxPrompt {
		return wrong("the prompt has %d characters, %d is the most", n, MaxPrompt)
	}
	if !utf8.ValidString(r.Prompt) {
		return wrong("the prompt is not text in UTF-8")
	}
	size, err := checkArgs(r.Args)
	if err != nil {
		return err
	}
	for i, c := range r.ChildArgs {
		if !slices.Contains(r.Children, c.Name) {
			return wrong("child_arg_nodes[%d] names a tool that is not among the children", i)
		}
		n, err := checkArgs(c.Args)
		if err != nil {
			return err
		}
		size += n
	}
	if size > MaxArgs {
		return wrong("the prefilled arguments have %d bytes, %d is the most", size, MaxArgs)
	}
	return checkOutputs(r)
}

// named returns every tool that a rule names but those of [haft.ChildArgs], which
// are among the children.
func named(r haft.ToolRule) []string {
	all := append([]string{r.Tool}, r.Children...)
	for _, key := range slices.Sorted(maps.Keys(r.Outputs)) {
		all = append(all, r.Outputs[key])
	}
	if r.Default != "" {
		all = append(all, r.Default)
	}
	return all
}

// shape reports whether the fields of a rule are those of its type. [Evaluate]
// asks it too: a rule that it does not understand allows nothing.
func shape(r haft.ToolRule) error {
	var children, outputs, count, args bool
	switch r.Type {
	case haft.RuleFirst:
		args = true
	case haft.RuleChildren, haft.RuleParent:
		children = true
	case haft.RuleConditional:
		outputs = true
	case haft.RuleMaxCount:
		count = true
	case haft.RuleExit, haft.RuleContinue, haft.RuleRequired, haft.RuleApproval:
	default:
		return wrong("there is no such type of tool rule")
	}
	switch {
	case r.Tool == "":
		return wrong("tool_name is missing")
	case children && len(r.Children) == 0:
		return wrong("children are missing")
	case len(r.Children) > MaxChildren:
		return wrong("there are %d children, %d is the most", len(r.Children), MaxChildren)
	case outputs && len(r.Outputs) == 0:
		return wrong("Conditional tool rule must have at least one child tool.")
	case len(r.Outputs) > MaxChildren:
		return wrong("child_output_mapping has %d entries, %d is the most", len(r.Outputs), MaxChildren)
	case outputs && r.RequireOutput && r.Default != "":
		return wrong("default_child is never used, because require_output_mapping is set")
	case count && (r.MaxCount <= 0 || r.MaxCount > MaxCount):
		return wrong("max_count_limit must be from 1 to %d", MaxCount)
	case len(r.ChildArgs) > MaxChildren:
		return wrong("there are %d child_arg_nodes, %d is the most", len(r.ChildArgs), MaxChildren)
	}
	for _, f := range []struct {
		name      string
		set, ours bool
	}{
		{"args", len(r.Args) > 0, args},
		{"children", len(r.Children) > 0, children},
		{"child_arg_nodes", len(r.ChildArgs) > 0, r.Type == haft.RuleChildren},
		{"child_output_mapping", len(r.Outputs) > 0, outputs},
		{"default_child", r.Default != "", outputs},
		{"require_output_mapping", r.RequireOutput, outputs},
		{"max_count_limit", r.MaxCount != 0, count},
	} {
		if f.set && !f.ours {
			return wrong("%s means nothing for this type of tool rule", f.name)
		}
	}
	return nil
}

// checkArgs checks prefilled arguments and returns their size.
func checkArgs(args map[string]json.RawMessage) (int, error) {
	size := 0
	for key, raw := range args {
		if key == "" || !utf8.ValidString(key) || !utf8.Valid(raw) || !json.Valid(raw) {
			return 0, wrong("a prefilled argument has no name or is not JSON")
		}
		size += len(key) + len(raw)
	}
	return size, nil
}

// checkOutputs checks the mapping of a conditional rule. Two keys that mean the
// same output must lead to the same tool: which of them counts could not be said.
func checkOutputs(r haft.ToolRule) error {
	keys := slices.Sorted(maps.Keys(r.Outputs))
	for _, key := range keys {
		if utf8.RuneCountInString(key) > maxOutput || !utf8.ValidString(key) {
			return wrong("a key of child_output_mapping has more than %d characters or is not text in UTF-8", maxOutput)
		}
	}
	for i, a := range keys {
		for _, b := range keys[i+1:] {
			if r.Outputs[a] != r.Outputs[b] && (matches(a, b) || matches(b, a)) {
				return wrong("two keys of child_output_mapping mean the same output and lead to different tools")
			}
		}
	}
	return nil
}

// wrong is an error about what came from outside.
func wrong(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
