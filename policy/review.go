package policy

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"haft"
)

// ReviewAction is what happens to a source in which something was found.
type ReviewAction string

// The actions, mildest first.
const (
	ReviewPass   ReviewAction = "pass"   // it is kept
	ReviewWarn   ReviewAction = "warn"   // it is kept, and the author is warned
	ReviewAsk    ReviewAction = "ask"    // a person has to agree before it can be called
	ReviewRefuse ReviewAction = "refuse" // it is not kept
)

// ReviewActions lists them, mildest first.
func ReviewActions() []ReviewAction {
	return []ReviewAction{ReviewPass, ReviewWarn, ReviewAsk, ReviewRefuse}
}

// AtLeast reports whether a is as strong as b. One that is unknown refuses.
func (a ReviewAction) AtLeast(b ReviewAction) bool { return a.rank() >= b.rank() }

func (a ReviewAction) rank() int {
	if i := slices.Index(ReviewActions(), a); i >= 0 {
		return i
	}
	return len(ReviewActions()) - 1
}

// A ReviewVerdict says what happens to a source, and why. The zero value refuses.
type ReviewVerdict struct {
	Action ReviewAction `json:"action"`
	// Finding is the one that decided: of those that demand Action the most
	// severe. It is empty if nothing was found that counts.
	Finding haft.Finding `json:"finding,omitzero"`
	// Rule is what in the policy decided, such as server/review.ask.
	Rule string `json:"rule,omitempty"`
}

// Err returns the error for an author whose source is refused, else nil.
func (v ReviewVerdict) Err() error {
	if v.Action == ReviewPass || v.Action == ReviewWarn || v.Action == ReviewAsk {
		return nil
	}
	message := "the source was not reviewed"
	if v.Finding.Rule != "" {
		message = fmt.Sprintf("the source is refused for %s", v.Finding.Rule)
		if v.Finding.Line > 0 {
			message += fmt.Sprintf(" in line %d", v.Finding.Line)
		}
		message += ": " + v.Finding.Message
	} else if v.Rule != "" {
		message = "the source is refused by " + v.Rule
	}
	return &haft.Error{Code: haft.CodeDenied, Message: message}
}

// never is a bound that no severity reaches.
const never Severity = "never"

// review is the section of a document.
type review struct {
	warn, ask, refuse Severity
	rules             []reviewRule
}

// reviewRule says what one kind of finding demands.
type reviewRule struct {
	rule   string // a pattern
	tools  []Permission
	action ReviewAction
}

// ignore is the action of a rule that takes a finding from under the bounds.
const ignore ReviewAction = "ignore"

// defaultReview is what holds where no document has a section.
//
// # Why does nothing refuse?
//
// Refusing is for what is certain. A review reads what a program may mean, and
// an honest tool can look like the other kind; a person can decide, and a refusal
// leaves that person no choice. So every high finding waits for a person, the others are
// reported, and an operator who wants refusals writes refuse: critical.
func defaultReview() *review { return &review{warn: Low, ask: High, refuse: never} }

// Review says what happens to a source of a tool in which this was found. The
// strongest demand of any finding counts, and of composed documents that of the
// stronger: an organisation cannot ignore what the server's document asks about.
// Where no document says anything, low findings warn and high ones ask. A nil
// policy knows nothing, so whatever was found asks.
func (p *Policy) Review(t haft.Tool, findings []haft.Finding) ReviewVerdict {
	best := ReviewVerdict{Action: ReviewPass}
	consider := func(a ReviewAction, rule string, f haft.Finding) {
		if a.rank() > best.Action.rank() || a == best.Action && a != ReviewPass &&
			f.Severity.AtLeast(best.Finding.Severity) && f.Severity != best.Finding.Severity {
			best = ReviewVerdict{Action: a, Finding: f, Rule: rule}
		}
	}
	said := false
	if p != nil {
		for i := range p.layers {
			l := &p.layers[i]
			if l.org != "" && t.Org != "" && l.org != t.Org {
				return ReviewVerdict{Action: ReviewRefuse, Rule: l.ref("org")}
			}
			if l.review == nil {
				continue
			}
			said = true
			for _, f := range findings {
				action, rule := l.review.judge(t, f)
				consider(action, l.ref(rule), f)
			}
		}
	}
	if !said {
		for _, f := range findings {
			action, rule := defaultReview().judge(t, f)
			if p == nil {
				action, rule = ReviewAsk, "review"
			}
			consider(action, "haft/"+rule, f)
		}
	}
	return best
}

// judge says what one finding demands, and what says so. A rule can only demand
// more than the bounds, unless it ignores; and ignoring takes nothing from what
// another rule demands.
func (r *review) judge(t haft.Tool, f haft.Finding) (ReviewAction, string) {
	action, why := ReviewPass, "review"
	demand := func(a ReviewAction, rule string) {
		if a.rank() > action.rank() {
			action, why = a, rule
		}
	}
	ignored := false
	for i, x := range r.rules {
		if !glob(x.rule, f.Rule) || len(x.tools) > 0 && !covered(x.tools, t) {
			continue
		}
		if x.action == ignore {
			ignored = true
			continue
		}
		demand(x.action, fmt.Sprintf("review.rules[%d]", i+1))
	}
	if ignored {
		return action, why
	}
	for _, b := range []struct {
		from   Severity
		action ReviewAction
	}{{r.warn, ReviewWarn}, {r.ask, ReviewAsk}, {r.refuse, ReviewRefuse}} {
		if b.from != never && f.Severity.AtLeast(b.from) {
			demand(b.action, "review."+string(b.action))
		}
	}
	return action, why
}

// reviewRuleName is what a rule of a review is called, with * for any text. Which
// ones there are is the reviewers' business.
var reviewRuleName = sync.OnceValue(
	func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9*_-]{0,63}$`) })

// review reads the section.
func (c *compiler) review(n ast.Node) {
	r := defaultReview()
	bounds := append([]Severity{never}, Severities()...)
	c.object(n, "review", map[string]field{
		"warn":   func(n ast.Node) { r.warn = oneOf(&c.document, n, "warn", bounds) },
		"ask":    func(n ast.Node) { r.ask = oneOf(&c.document, n, "ask", bounds) },
		"refuse": func(n ast.Node) { r.refuse = oneOf(&c.document, n, "refuse", bounds) },
		"rules": func(n ast.Node) {
			c.list(n, "rules",
				func(n ast.Node) { r.rules = append(r.rules, c.reviewRule(n)) })
		},
	})
	c.layer.review = r
}

// reviewRule reads one rule of the section.
func (c *compiler) reviewRule(n ast.Node) reviewRule {
	var r reviewRule
	c.object(n, "a rule of review", map[string]field{
		"rule": func(n ast.Node) {
			if r.rule = c.text(n, "rule", maxText); c.err == nil && !reviewRuleName().MatchString(r.rule) {
				c.fail(n, "a rule is a name such as python-eval, with * for any text")
			}
		},
		"action": func(n ast.Node) {
			r.action = oneOf(&c.document, n, "action", []ReviewAction{ReviewWarn, ReviewAsk, ReviewRefuse, ignore})
		},
		"tools": func(n ast.Node) { r.tools = c.permissions(n, "tools") },
	})
	switch {
	case r.rule == "":
		c.fail(n, "a rule of review names a rule")
	case r.action == "":
		c.fail(n, "a rule of review needs an action")
	}
	return r
}
