package toolrule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// MaxHistory is how many calls a turn with rules may have, refused ones counted.
// It is what stores give of a turn: nothing that a rule counts may be forgotten,
// so no call is allowed after that many.
const MaxHistory = 1000

// Past is one call of the turn.
type Past struct {
	Tool string
	// Value is what the tool gave, if it succeeded.
	Value json.RawMessage
	// Status is where the call stands. One that was refused counts for nothing.
	Status haft.Status
}

// StatusOf returns the status of a call as rules see it: a call whose value does not fit has run.
func StatusOf(status haft.Status, res *haft.Result) haft.Status {
	if status == haft.StatusValidation && res != nil && res.Error != nil && res.Error.Kind == haft.FailValue {
		return haft.StatusError
	}
	return status
}

// mayHaveRun reports whether the call ran, runs, will run, or may have run.
func (p Past) mayHaveRun() bool {
	switch p.Status {
	case haft.StatusValidation, haft.StatusDenied, haft.StatusRate, haft.StatusRejected:
		return false
	}
	return true
}

// ran reports whether the call is known to have run to its end, well or not.
func (p Past) ran() bool {
	switch p.Status {
	case haft.StatusSuccess, haft.StatusError, haft.StatusTimeout, haft.StatusLimit:
		return true
	}
	return false
}

// A State says what the rules allow at one moment of a turn. It never changes.
type State struct {
	// Allowed are the tools that may be called now, sorted.
	Allowed []string
	// Forced says that a tool has to be called now: an answer without a call
	// would leave the way that the rules lay down.
	Forced bool
	// Ended says that an exit_loop tool was called: nothing is allowed any more.
	Ended bool

	rules   []haft.ToolRule
	last    Past // zero if there was none
	first   bool // a run_first tool is waited for
	missing []string
	prefill map[string]*prefill
}

// Evaluate says what is allowed after history, which is the turn so far in the
// order in which its calls began, of the tools that are available to the agent.
//
// The error is a [*haft.Error]: [haft.CodeDenied] with "No valid tools found
// based on tool rules." if nothing is allowed, although the turn has not ended,
// and [haft.CodeInvalid] if a rule cannot be understood or there is too much of
// anything. The caller refuses the call in both cases.
func Evaluate(rules []haft.ToolRule, history []Past, available []string) (*State, error) {
	if err := understood(rules); err != nil {
		return nil, err
	}
	if len(history) >= MaxHistory {
		return nil, wrong("the turn has %d calls, and no more are allowed under tool rules", len(history))
	}
	s := &State{rules: rules, missing: missing(rules, history), prefill: map[string]*prefill{}}
	left := map[string]bool{}
	for _, tool := range available {
		left[tool] = true
	}
	counts := map[string]int{}
	for _, p := range history {
		if p.mayHaveRun() {
			s.last = p
			counts[p.Tool]++
		}
	}
	s.first = waitsForFirst(rules, history)
	if s.first {
		keep(left, firsts(rules))
		s.Forced = true
	}
	for _, r := range rules {
		s.apply(r, left, counts)
	}
	if s.Ended {
		s.Allowed, s.Forced, s.prefill = []string{}, false, nil
		return s, nil
	}
	s.Allowed = make([]string, 0, len(left))
	for tool := range left {
		s.Allowed = append(s.Allowed, tool)
	}
	slices.Sort(s.Allowed)
	if len(s.Allowed) == 0 {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "No valid tools found based on tool rules."}
	}
	return s, nil
}

// understood refuses rules that are too many or that make no sense.
func understood(rules []haft.ToolRule) error {
	if len(rules) > MaxRules {
		return wrong("there are %d tool rules, %d is the most", len(rules), MaxRules)
	}
	for i, r := range rules {
		if err := shape(r); err != nil {
			return wrong("tool rule %d%s: %s", i+1, kind(r), haft.MessageOf(err))
		}
	}
	return nil
}

// apply takes away from left what one rule does not allow, and notes what else
// the rule says about this moment.
func (s *State) apply(r haft.ToolRule, left map[string]bool, counts map[string]int) {
	after := s.last.Tool != "" && s.last.Tool == r.Tool
	switch r.Type {
	case haft.RuleFirst:
		if s.first {
			s.fill(r.Tool, r.Args, "InitToolRule("+r.Tool+")")
		}
	case haft.RuleChildren:
		if after {
			keep(left, r.Children)
			s.Forced = true
			for _, c := range r.ChildArgs {
				s.fill(c.Name, c.Args, "ChildToolRule("+r.Tool+"->"+c.Name+")")
			}
		}
	case haft.RuleParent:
		if after && s.last.Status == haft.StatusSuccess {
			keep(left, r.Children)
			s.Forced = true
		} else {
			drop(left, r.Children...)
		}
	case haft.RuleConditional:
		if after {
			if tools, all := follow(r, s.last); !all {
				keep(left, tools)
			}
			s.Forced = true
		}
	case haft.RuleMaxCount:
		if counts[r.Tool] >= r.MaxCount {
			drop(left, r.Tool)
		}
	case haft.RuleExit:
		s.Ended = s.Ended || counts[r.Tool] > 0
		if slices.ContainsFunc(s.missing, func(m string) bool { return m != r.Tool }) {
			drop(left, r.Tool)
		}
	case haft.RuleContinue, haft.RuleRequired, haft.RuleApproval:
		// They say nothing about what is allowed now.
	}
}

// keep removes from left what is not in tools.
func keep(left map[string]bool, tools []string) {
	for tool := range left {
		if !slices.Contains(tools, tool) {
			delete(left, tool)
		}
	}
}

// drop removes tools from left.
func drop(left map[string]bool, tools ...string) {
	for _, tool := range tools {
		delete(left, tool)
	}
}

// firsts returns the tools of run_first rules.
func firsts(rules []haft.ToolRule) []string {
	var all []string
	for _, r := range rules {
		if r.Type == haft.RuleFirst {
			all = append(all, r.Tool)
		}
	}
	return all
}

// waitsForFirst reports whether there are run_first tools and none of them has run.
func waitsForFirst(rules []haft.ToolRule, history []Past) bool {
	all := firsts(rules)
	return len(all) > 0 && !slices.ContainsFunc(history, func(p Past) bool {
		return p.ran() && slices.Contains(all, p.Tool)
	})
}

// missing returns the required tools that have not run, in the order of the rules.
func missing(rules []haft.ToolRule, history []Past) []string {
	var all []string
	for _, r := range rules {
		if r.Type != haft.RuleRequired || slices.Contains(all, r.Tool) {
			continue
		}
		if !slices.ContainsFunc(history, func(p Past) bool { return p.ran() && p.Tool == r.Tool }) {
			all = append(all, r.Tool)
		}
	}
	return all
}

// NeedsTurn reports whether the rules look at what was called before. Calls of an
// agent with such rules have to say which turn they belong to.
func NeedsTurn(rules []haft.ToolRule) bool {
	return slices.ContainsFunc(rules, func(r haft.ToolRule) bool {
		return r.Type != haft.RuleContinue && r.Type != haft.RuleApproval
	})
}

// CanExit reports which required tools are missing before a turn may end: a
// [*haft.Error] with [haft.CodeDenied] and words for the model.
func CanExit(rules []haft.ToolRule, history []Past) error {
	if err := understood(rules); err != nil {
		return err
	}
	return exit(missing(rules, history))
}

// exit is the error of a turn that cannot end because tools are missing.
func exit(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeDenied, Message: violated(missing)}
}

// violated says which tools are missing.
func violated(missing []string) string {
	return fmt.Sprintf("ToolRuleViolated: You must call %s at least once to exit the loop.",
		strings.Join(missing, ", "))
}
