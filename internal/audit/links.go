package audit

import (
	"cmp"
	"maps"
	"slices"
)

// links is what a verifier knows of the chain of checkpoints.
type links struct {
	last  Mark
	begun bool // last is known
	// wanted are checkpoints that the chain must have, by ID.
	wanted map[string]Mark
	// lost are the numbers that a person gave up.
	lost []gap
}

// inOrder returns checkpoints in the order in which they were made.
func inOrder(list []Checkpoint) []Checkpoint {
	list = slices.Clone(list)
	number := func(c Checkpoint) int64 {
		if c.Place == nil {
			return 0
		}
		return c.Place.Number
	}
	slices.SortStableFunc(list, func(a, b Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(number(a), number(b)))
	})
	return list
}

// expect notes checkpoints that the chain must have.
func (v *verifier) expect(marks []Mark) {
	for _, m := range marks {
		if m.Org != v.head.Org || m.Seq <= v.report.From.Seq && v.report.From.Seq > 0 {
			continue // of another chain, or of before the beginning
		}
		if v.links.wanted == nil {
			v.links.wanted = make(map[string]Mark)
		}
		v.links.wanted[m.Checkpoint] = m
	}
}

// link notes whether a checkpoint follows the one before it. This is where the chain of
// checkpoints of an organisation is checked, for stores and for exports.
func (v *verifier) link(c Checkpoint) {
	if c.Place == nil || c.Org != v.head.Org {
		return
	}
	l := &v.links
	mark := c.Mark()
	if l.wanted[mark.Checkpoint] == mark {
		delete(l.wanted, mark.Checkpoint)
	}
	// An export that begins in the middle begins with any number.
	free := !l.begun && v.report.From.Seq > 0
	switch {
	case !free && !c.followsMark(l.last):
		v.report.problem(Problem{Kind: Unchained, Seq: c.Seq})
	case c.Place.Lost != nil && c.Check(v.keys) == "":
		v.report.warning(Problem{Kind: Restored, Seq: c.Seq, To: c.Place.Lost.Seq})
		if len(l.lost) < maxGaps {
			l.lost = append(l.lost, gap{l.last.Number + 1, c.Place.Number - 1})
		}
	}
	l.last, l.begun = mark, true
}

// unseen notes the checkpoints that the chain must have and has not, and returns the
// last entry that one behind the end of the chain is of.
func (v *verifier) unseen() (last int64) {
	for _, m := range slices.SortedFunc(maps.Values(v.links.wanted), func(a, b Mark) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Checkpoint, b.Checkpoint))
	}) {
		switch {
		case slices.ContainsFunc(v.links.lost, func(g gap) bool { return m.Number >= g.from && m.Number <= g.to }):
			// A person gave it up, which is a warning already.
		case m.Seq > v.head.Seq:
			last = max(last, m.Seq)
		default:
			v.report.problem(Problem{Kind: HeadMissing, Seq: m.Seq})
		}
	}
	return last
}
