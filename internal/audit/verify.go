package audit

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// Verify looks at a chain that begins after from and says what is wrong with it.
// A from without a Hash means from the first entry on; its Org must be set.
// Checkpoints may come in any order; those from before from are only looked at
// for their signatures. A checkpoint whose key is not in keys is a problem:
// nothing that cannot be checked passes.
//
// The error is that of the entries, if they cannot be read to their end, and the
// report is then of those that were. The memory that is needed does not grow
// with the chain.
func Verify(entries iter.Seq2[Entry, error], checkpoints []Checkpoint, keys Keys, from Head) (Report, error) {
	return VerifyMarks(entries, checkpoints, keys, from, nil)
}

// VerifyMarks is Verify for a chain of which marks are known from outside, such as a
// file of [Heads]: it must have all of them. So a chain is found out that was cut off or
// written anew together with its checkpoints.
func VerifyMarks(entries iter.Seq2[Entry, error], checkpoints []Checkpoint, keys Keys, from Head,
	marks []Mark) (Report, error) {
	v, err := newVerifier(from, keys)
	if err != nil {
		return Report{}, err
	}
	v.expect(marks)
	for _, c := range inOrder(checkpoints) {
		v.checkpoint(c)
	}
	for e, err := range entries {
		if err != nil {
			return v.report, fmt.Errorf("read the audit log after entry %d: %w", v.head.Seq, err)
		}
		v.entry(e)
	}
	return v.end(), nil
}

// Bounds on what a verifier remembers. Beyond them it still finds that something
// is wrong, but names it less exactly.
const (
	maxGaps    = 1000
	maxPending = 100_000
)

// clockSlack is how much earlier an entry may be than the one before it: the clocks of
// two servers are not one. What waits for its turn gets its time when it is written; in
// logs of earlier versions it had the time of before.
const clockSlack = 10 * time.Second

// A verifier takes the lines of a chain one by one.
type verifier struct {
	keys   Keys
	head   Head
	other  string // the hash that the head's entry should have, or may have too
	last   time.Time
	report Report
	// gaps are numbers that were passed over: missing, if they do not come later.
	gaps []gap
	// damaged are entries that cannot be placed, so they are no gap either.
	damaged map[int64]bool
	// pending are checkpoints of entries that are yet to come.
	pending map[int64][]string
	waiting int // checkpoints in pending
	links   links
	erased  map[string]*erasure // by name
}

type gap struct{ from, to int64 }

func newVerifier(from Head, keys Keys) (*verifier, error) {
	switch {
	case from.Org == "":
		return nil, invalid("an audit log is that of one organisation: say which", nil)
	case from.Seq < 0 || from.Seq == math.MaxInt64:
		return nil, invalid("an audit log begins with entry 1 or later", nil)
	case from.Hash == "" && from.Seq > 0:
		return nil, invalid("to begin in the middle of an audit log, the hash of the entry before is needed", nil)
	case from.Hash == "":
		from = Genesis(from.Org)
	case from.Seq == 0 && from.Hash != genesisHash(from.Org):
		return nil, invalid("the hash of the beginning is not that of this organisation's audit log", nil)
	}
	return &verifier{
		keys: keys, head: from, other: from.Hash, report: Report{From: from, Head: from},
		damaged: make(map[int64]bool), pending: make(map[int64][]string),
	}, nil
}

func (v *verifier) entry(e Entry) {
	v.report.Entries++
	if e.Org != v.head.Org {
		v.report.problem(Problem{Kind: Foreign, Seq: e.Seq})
		return
	}
	sum := hashOf(&e)
	if e.Erased != "" {
		sum = e.Hash // which an entry of ErasedKind vouches for
		v.erase(e)
	} else if e.Kind == ErasedKind && sum == e.Hash {
		v.erasedBy(e)
	}
	sound := sum == e.Hash
	next := v.head.Seq + 1
	follows := e.Prev == v.head.Hash || e.Prev == v.other
	at := e.Seq
	if !sound && follows {
		at = next // the number itself may be what was changed
	}
	switch {
	case at < 1 || at == math.MaxInt64:
		v.report.problem(Problem{Kind: Changed, Seq: at})
	case at < next:
		v.late(at, sum, sound)
	case at > next && !sound:
		// Its number cannot be believed, so the chain does not jump to it.
		v.report.problem(Problem{Kind: Changed, Seq: at})
		if len(v.damaged) < maxGaps {
			v.damaged[at] = true
		}
	default:
		switch {
		case at > next:
			v.miss(next, at-1)
		case !sound:
			v.report.problem(Problem{Kind: Changed, Seq: at})
		case !follows:
			v.report.problem(Problem{Kind: Unlinked, Seq: at})
		}
		v.advance(e, at, sum, sound)
	}
}

// advance makes e, which stands at the given place, the head. The next entry may
// hold the hash that e has or the one that it should have: which of them was
// changed does not matter twice.
func (v *verifier) advance(e Entry, at int64, sum string, sound bool) {
	if e.Time.Before(v.last.Add(-clockSlack)) {
		v.report.warning(Problem{Kind: Backwards, Seq: at})
	}
	v.last = e.Time
	v.head.Seq, v.head.Hash, v.other = at, e.Hash, sum
	v.settle(at, sum, sound)
}

// late takes an entry with a number that the chain has passed already.
func (v *verifier) late(at int64, sum string, sound bool) {
	if !v.found(at) {
		v.report.problem(Problem{Kind: Inserted, Seq: at})
		if at == v.head.Seq {
			v.other = sum
		}
		return
	}
	v.report.problem(Problem{Kind: OutOfOrder, Seq: at})
	if !sound {
		v.report.problem(Problem{Kind: Changed, Seq: at})
	}
	v.settle(at, sum, sound)
}

// miss notes that the entries from to to were passed over.
func (v *verifier) miss(from, to int64) {
	for at := range v.damaged {
		if at >= from && at <= to {
			delete(v.damaged, at)
			if at > from {
				v.miss(from, at-1)
			}
			if at < to {
				v.miss(at+1, to)
			}
			return
		}
	}
	if len(v.gaps) == maxGaps {
		v.report.problem(Problem{Kind: Missing, Seq: from, To: to})
		return
	}
	v.gaps = append(v.gaps, gap{from, to})
}

// found reports whether the entry was passed over, and notes that it is there.
func (v *verifier) found(at int64) bool {
	for i, g := range v.gaps {
		if at < g.from || at > g.to {
			continue
		}
		v.gaps = append(v.gaps[:i], v.gaps[i+1:]...)
		if at > g.from {
			v.miss(g.from, at-1)
		}
		if at < g.to {
			v.miss(at+1, g.to)
		}
		return true
	}
	return false
}

// checkpoint takes a checkpoint, before or right after its entry.
func (v *verifier) checkpoint(c Checkpoint) {
	v.report.Checkpoints++
	v.link(c)
	if kind := c.Check(v.keys); kind != "" {
		v.report.problem(Problem{Kind: kind, Seq: c.Seq})
		return
	}
	switch {
	case c.Org != v.head.Org:
		v.report.problem(Problem{Kind: OtherChain, Seq: c.Seq})
	case c.Seq > v.head.Seq:
		if v.waiting == maxPending {
			v.report.problem(Problem{Kind: OutOfOrder, Seq: c.Seq})
			return
		}
		v.waiting++
		v.pending[c.Seq] = append(v.pending[c.Seq], c.Hash)
	case c.Seq == v.head.Seq:
		v.compare(c.Seq, c.Hash, v.other, v.head.Hash == v.other)
	case c.Seq > v.report.From.Seq:
		v.report.problem(Problem{Kind: OutOfOrder, Seq: c.Seq})
	}
}

// settle compares entry at with the checkpoints of it.
func (v *verifier) settle(at int64, sum string, sound bool) {
	for _, hash := range v.pending[at] {
		v.waiting--
		v.compare(at, hash, sum, sound)
	}
	delete(v.pending, at)
}

// compare notes whether a checkpoint with the given hash fits the entry. One of
// an entry that is not sound proves nothing, and that is noted already.
func (v *verifier) compare(at int64, hash, sum string, sound bool) {
	switch {
	case !sound:
	case hash != sum:
		v.report.problem(Problem{Kind: OtherChain, Seq: at})
	case at > v.report.Signed:
		v.report.Signed = at
	}
}

// end returns the report, with what can be known only at the end of the chain.
func (v *verifier) end() Report {
	v.report.Head = v.head
	slices.SortFunc(v.gaps, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
	for _, g := range v.gaps {
		v.report.problem(Problem{Kind: Missing, Seq: g.from, To: g.to})
	}
	v.erasures()
	var last int64
	for at := range v.pending {
		last = max(last, at)
	}
	last = max(last, v.unseen())
	if last > v.head.Seq {
		v.report.problem(Problem{Kind: Truncated, Seq: v.head.Seq, To: last})
	}
	return v.report
}
