package toolrule

import (
	"maps"
	"slices"

	"haft"
)

// contradictions reports rules that are valid alone but together can never allow the calls that
// they are about. It finds the contradictions that need no simulated turns; [Evaluate] finds
// the others when they happen.
func contradictions(rules []haft.ToolRule) error {
	b := read(rules)
	for _, tool := range slices.Sorted(maps.Keys(b.parents)) {
		switch parents := b.parents[tool]; {
		case len(parents) > 1:
			return wrong("%s can never be called: it may only be called right after %s and right after %s", tool,
				parents[0], parents[1])
		case parents[0] == tool:
			return wrong("%s can never be called: it may only be called right after itself", tool)
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(b.exits)) {
		if b.continues[tool] {
			return wrong("the turn cannot both end and go on after %s", tool)
		}
		if b.leads[tool] {
			return wrong("nothing can follow %s, because the turn ends after it", tool)
		}
		for _, other := range b.required {
			if other != tool && b.exits[other] && slices.Contains(b.required, tool) {
				return wrong("the turn ends after %s and after %s, so that not both can be required", tool, other)
			}
		}
	}
	if err := b.neverFirst(); err != nil {
		return err
	}
	for _, tool := range slices.Sorted(maps.Keys(b.leads)) {
		if !b.canFollow(tool) {
			return wrong("no tool could ever follow %s", tool)
		}
	}
	return nil
}

// book is what rules say, by tool.
type ledger struct {
	rules            []haft.ToolRule
	firsts, required []string
	exits, continues map[string]bool
	leads            map[string]bool     // tools after which rules say what follows
	parents          map[string][]string // by child: after which tools alone it may be called
}

// read sorts rules by what they are about.
func read(rules []haft.ToolRule) *ledger {
	b := &ledger{
		rules: rules, exits: map[string]bool{}, continues: map[string]bool{},
		leads: map[string]bool{}, parents: map[string][]string{},
	}
	for _, r := range rules {
		switch r.Type {
		case haft.RuleFirst:
			b.firsts = append(b.firsts, r.Tool)
		case haft.RuleChildren, haft.RuleConditional:
			b.leads[r.Tool] = true
		case haft.RuleParent:
			b.leads[r.Tool] = true
			for _, c := range r.Children {
				if !slices.Contains(b.parents[c], r.Tool) {
					b.parents[c] = append(b.parents[c], r.Tool)
				}
			}
		case haft.RuleExit:
			b.exits[r.Tool] = true
		case haft.RuleContinue:
			b.continues[r.Tool] = true
		case haft.RuleRequired:
			if !slices.Contains(b.required, r.Tool) {
				b.required = append(b.required, r.Tool)
			}
		case haft.RuleMaxCount, haft.RuleApproval:
		}
	}
	return b
}

// neverFirst reports that no run_first tool can be the first.
func (b *ledger) neverFirst() error {
	for _, tool := range b.firsts {
		others := slices.ContainsFunc(b.required, func(r string) bool { return r != tool })
		if len(b.parents[tool]) == 0 && !(b.exits[tool] && others) {
			return nil
		}
	}
	if len(b.firsts) == 0 {
		return nil
	}
	return wrong("no tool could ever be called: other rules forbid that %s is the first", b.firsts[0])
}

// canFollow reports whether the rules about what follows a tool leave anything.
func (b *ledger) canFollow(tool string) bool {
	var left map[string]bool // nil means any
	keep := func(names []string) {
		next := map[string]bool{}
		for _, n := range names {
			next[n] = left == nil || left[n]
		}
		left = next
	}
	for _, r := range b.rules {
		switch {
		case r.Tool != tool:
		case r.Type == haft.RuleChildren, r.Type == haft.RuleParent:
			keep(r.Children)
		case r.Type == haft.RuleConditional && (r.RequireOutput || r.Default != ""):
			keep(named(r)[1:])
		}
	}
	if left == nil {
		return true
	}
	for n, ok := range left {
		others := slices.ContainsFunc(b.parents[n], func(p string) bool { return p != tool })
		if ok && !others {
			return true
		}
	}
	return false
}
