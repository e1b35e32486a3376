package audit

import (
	"fmt"
	"strings"

	"haft"
)

// A Kind sorts what is wrong with a chain.
type Kind string

// What can be wrong with a chain. All but [Backwards], [Restored] and [Erasure] mean that it is
// not what was written.
const (
	// Changed: the content of entry Seq does not fit its hash.
	Changed Kind = "changed"
	// Unlinked: entry Seq does not hold the hash of the entry before it. One of
	// the two was replaced by another that is sound in itself.
	Unlinked Kind = "unlinked"
	// Missing: the entries Seq to To are not there.
	Missing Kind = "missing"
	// OutOfOrder: entry Seq, or the checkpoint of it, comes after a later one.
	OutOfOrder Kind = "out_of_order"
	// Inserted: there is one more entry with the number Seq, or one with a number
	// from before the beginning.
	Inserted Kind = "inserted"
	// Foreign: the entry numbered Seq is of another organisation.
	Foreign Kind = "foreign"
	// Truncated: the chain ends at Seq, and a checkpoint vouches for it up to To.
	Truncated Kind = "truncated"
	// UnknownKey: the checkpoint of entry Seq is signed with a key that is not
	// trusted.
	UnknownKey Kind = "unknown_key"
	// BadSignature: the signature of the checkpoint of entry Seq is wrong.
	BadSignature Kind = "bad_signature"
	// OtherChain: a good signature vouches for another entry Seq than is there:
	// the chain was written anew, or the checkpoint belongs to another one.
	OtherChain Kind = "other_chain"
	// Unchained: the checkpoint of entry Seq does not follow the one before it: a
	// checkpoint was removed, replaced, moved or replayed.
	Unchained Kind = "unchained"
	// HeadMissing: a checkpoint of entry Seq is known from outside of the log, and is
	// not in it.
	HeadMissing Kind = "head_missing"
	// NoHeads: there are chained checkpoints, and the file that says what was signed
	// last is gone or cannot be believed. Seq is 0.
	NoHeads Kind = "no_heads"
	// Uncounted: checkpoint Seq, counted over all organisations, is missing or was
	// replaced.
	Uncounted Kind = "uncounted"
	// Restored: before entry Seq a person put back an older database and gave up what
	// was signed up to entry To. It is said openly, so this is a warning.
	Restored Kind = "restored"
	// BadErasure: entries were erased, from Seq on, and no entry says so, or not of exactly
	// these.
	BadErasure Kind = "bad_erasure"
	// Erasure: entry Seq says that so many entries as To were erased, on purpose and by
	// whom. They cannot be read any more, so this is a warning.
	Erasure Kind = "erasure"
	// Backwards: entry Seq is much earlier than the one before it. Clocks are set,
	// so this is a warning.
	Backwards Kind = "backwards"
)

// A Problem is one thing that is wrong with a chain.
type Problem struct {
	Kind Kind  `json:"kind"`
	Seq  int64 `json:"seq"`
	// To is for [Missing], [Truncated], [Restored] and [Erasure].
	To int64 `json:"to,omitempty"`
}

// String says in a sentence what is wrong.
func (p Problem) String() string {
	switch p.Kind {
	case Changed:
		return fmt.Sprintf("entry %d was changed: its content does not fit its hash", p.Seq)
	case Unlinked:
		return fmt.Sprintf("entry %d does not follow on the one before it: one of the two was replaced", p.Seq)
	case Missing:
		if p.To <= p.Seq {
			return fmt.Sprintf("entry %d is missing", p.Seq)
		}
		return fmt.Sprintf("entries %d to %d are missing", p.Seq, p.To)
	case OutOfOrder:
		return fmt.Sprintf("entry %d, or its checkpoint, is out of order", p.Seq)
	case Inserted:
		return fmt.Sprintf("an entry numbered %d was inserted", p.Seq)
	case Foreign:
		return fmt.Sprintf("an entry of another organisation, numbered %d, is in the chain", p.Seq)
	case Truncated:
		return fmt.Sprintf("the chain ends at entry %d, but a checkpoint vouches for it up to entry %d", p.Seq, p.To)
	case UnknownKey:
		return fmt.Sprintf("the checkpoint of entry %d is signed with a key that is not trusted", p.Seq)
	case BadSignature:
		return fmt.Sprintf("the signature of the checkpoint of entry %d is wrong", p.Seq)
	case OtherChain:
		return fmt.Sprintf("a checkpoint vouches for another entry %d: the chain was written anew, or the "+
			"checkpoint is of another chain", p.Seq)
	case Unchained:
		return fmt.Sprintf("the checkpoint of entry %d does not follow the checkpoint before it: one was removed, "+
			"replaced or replayed", p.Seq)
	case HeadMissing:
		return fmt.Sprintf("entry %d was signed, and that checkpoint is not in the log: entries were written anew "+
			"or checkpoints removed", p.Seq)
	case NoHeads:
		return "the file audit.head in the data directory, which says up to which entries was signed, is missing or " +
			"cannot be believed"
	case Uncounted:
		return fmt.Sprintf("checkpoint %d, counted over all organisations, is missing or was replaced: entries of "+
			"some organisation may be gone", p.Seq)
	case Restored:
		return fmt.Sprintf("before entry %d an older database was put back on purpose, and what was signed up to "+
			"entry %d was given up", p.Seq, p.To)
	case BadErasure:
		return fmt.Sprintf("the content of entry %d is gone, and no entry says that just this was erased: repeat "+
			"haft erase if it was stopped", p.Seq)
	case Erasure:
		return fmt.Sprintf("%d entries were erased on purpose, as entry %d says: haft audit show --kind %s", p.To,
			p.Seq, ErasedKind)
	case Backwards:
		return fmt.Sprintf("entry %d is more than %v earlier than the one before it: a clock was set, or those of "+
			"two servers differ", p.Seq, clockSlack)
	}
	return fmt.Sprintf("entry %d: %s", p.Seq, string(p.Kind))
}

// maxListed bounds the problems, and the warnings, that a report lists.
const maxListed = 100

// A Report says what was found in a chain.
type Report struct {
	// From is where the look at the chain began and Head where it ended.
	From Head `json:"from"`
	Head Head `json:"head"`
	// Entries and Checkpoints count what was looked at, sound or not.
	Entries     int64 `json:"entries"`
	Checkpoints int64 `json:"checkpoints"`
	// Signed is the number of the last entry for which a good signature vouches;
	// 0 means none. It says nothing if there are problems.
	Signed int64 `json:"signed"`
	// Problems are what is wrong, and Warnings what is odd: the first 100 each.
	Problems []Problem `json:"problems,omitempty"`
	Warnings []Problem `json:"warnings,omitempty"`
	// Unlisted counts the problems and warnings after those.
	Unlisted int64 `json:"unlisted,omitempty"`
}

// Sound reports whether nothing is wrong. It does not ask for signatures: see
// Signed.
func (r Report) Sound() bool { return len(r.Problems) == 0 }

// Err returns nil for a sound chain, and otherwise an error that names the first
// few problems.
func (r Report) Err() error {
	if r.Sound() {
		return nil
	}
	const few = 3
	var text strings.Builder
	for i, p := range r.Problems[:min(few, len(r.Problems))] {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(p.String())
	}
	if more := len(r.Problems) - few; more > 0 {
		text.WriteString("; and more")
	}
	return &haft.Error{Code: haft.CodeConflict, Message: "the audit log was tampered with or damaged: " + text.String()}
}

// Add adds what was found by other means than the chain itself.
func (r *Report) Add(p Problem) { r.problem(p) }

func (r *Report) problem(p Problem) { r.list(&r.Problems, p) }
func (r *Report) warning(p Problem) { r.list(&r.Warnings, p) }

func (r *Report) list(to *[]Problem, p Problem) {
	if len(*to) < maxListed {
		*to = append(*to, p)
		return
	}
	r.Unlisted++
}
