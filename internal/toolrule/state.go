package toolrule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"haft"
)

// Admit reports why the tool of that name may not be called now: a [*haft.Error]
// with [haft.CodeDenied], whose message is for the model.
func (s *State) Admit(tool string) error {
	if _, ok := slices.BinarySearch(s.Allowed, tool); ok {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[ToolConstraintError] Cannot call %s, valid tools include: %s.", short(tool), quoted(s.Allowed))
	if hints := s.hints(tool); len(hints) > 0 {
		b.WriteString("\n** Hint: Possible rules that were violated:")
		for _, h := range hints {
			b.WriteString("\n\t- " + h)
		}
	}
	return &haft.Error{Code: haft.CodeDenied, Message: b.String()}
}

// hints says which rules may be why a tool is not allowed.
func (s *State) hints(tool string) []string {
	var all []string
	for _, r := range ordered(s.rules) {
		if text := render(r); s.concerns(r, tool) && text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	others := slices.DeleteFunc(slices.Clone(s.missing), func(m string) bool { return m == tool })
	if s.Ends(tool) && len(others) > 0 {
		all = append(all, violated(others))
	}
	return all
}

// concerns reports whether a rule may be why a tool is not allowed.
func (s *State) concerns(r haft.ToolRule, tool string) bool {
	after := s.last.Tool != "" && s.last.Tool == r.Tool
	switch r.Type {
	case haft.RuleFirst:
		return s.first
	case haft.RuleChildren, haft.RuleConditional:
		return after
	case haft.RuleParent:
		return after || slices.Contains(r.Children, tool)
	case haft.RuleMaxCount:
		return r.Tool == tool
	case haft.RuleExit:
		return s.Ended || r.Tool == tool
	case haft.RuleContinue, haft.RuleRequired, haft.RuleApproval:
	}
	return false
}

// NeedsApproval reports whether a person has to agree to calls of the tool.
func (s *State) NeedsApproval(tool string) bool { return s.about(tool, haft.RuleApproval) }

// Ends reports whether the turn ends after a call of the tool. If rules say both
// that it ends and that it goes on, it ends.
func (s *State) Ends(tool string) bool { return s.about(tool, haft.RuleExit) }

// Continues reports whether the turn has to go on after a call of the tool,
// because a rule says so or says what follows.
func (s *State) Continues(tool string) bool {
	return !s.Ends(tool) && s.about(tool, haft.RuleContinue, haft.RuleChildren, haft.RuleParent, haft.RuleConditional)
}

// about reports whether there is a rule of one of the types for the tool.
func (s *State) about(tool string, types ...haft.RuleType) bool {
	return slices.ContainsFunc(s.rules, func(r haft.ToolRule) bool {
		return r.Tool == tool && slices.Contains(types, r.Type)
	})
}

// Exit reports which required tools are missing before the turn may end: a
// [*haft.Error] with [haft.CodeDenied] and words for the model.
func (s *State) Exit() error { return exit(s.missing) }

// quoted writes names as a list.
func quoted(names []string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + n + "'")
	}
	b.WriteByte(']')
	return b.String()
}

// short makes a name that came from outside fit for a message.
func short(name string) string {
	out := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, name))
	if len(out) > haft.MaxToolName {
		return string(out[:haft.MaxToolName]) + "…"
	}
	return string(out)
}
