package audit

import (
	"strconv"
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

// sentences say what is wrong, by kind. {seq} and {to} are the numbers of the problem.
var sentences = map[Kind]string{
	Changed:    "entry {seq} was changed: its content does not fit its hash",
	Unlinked:   "entry {seq} does not follow on the one before it: one of the two was replaced",
	Missing:    "entries {seq} to {to} are missing",
	OutOfOrder: "entry {seq}, or its checkpoint, is out of order",
	Inserted:   "an entry numbered {seq} was inserted",
	Foreign:    "an entry of another organisation, numbered {seq}, is in the chain",
	Truncated:  "the chain ends at entry {seq}, but a checkpoint vouches for it up to entry {to}",
	UnknownKey: "the checkpoint of entry {seq} is signed with a key that is not trusted",

	BadSignature: "the signature of the checkpoint of entry {seq} is wrong",
	OtherChain: "a checkpoint vouches for another entry {seq}: the chain was written anew, or the checkpoint is of " +
		"another chain",
	Unchained: "the checkpoint of entry {seq} does not follow the checkpoint before it: one was removed, replaced or " +
		"replayed",
	HeadMissing: "entry {seq} was signed, and that checkpoint is not in the log: entries were written anew or " +
		"checkpoints removed",
	NoHeads: "the file audit.head in the data directory, which says up to which entries was signed, is missing or " +
		"cannot be believed",
	Uncounted: "checkpoint {seq}, counted over all organisations, is missing or was replaced: entries of some " +
		"organisation may be gone",
	Restored: "before entry {seq} an older database was put back on purpose, and what was signed up to entry {to} " +
		"was given up",
	BadErasure: "the content of entry {seq} is gone, and no entry says that just this was erased: repeat haft erase " +
		"if it was stopped",
	Erasure: "{to} entries were erased on purpose, as entry {seq} says: haft audit show --kind " + ErasedKind,
	Backwards: "entry {seq} is more than 10s earlier than the one before it: a clock was set, or those of two " +
		"servers differ",
}

// String says in a sentence what is wrong.
func (p Problem) String() string {
	text := sentences[p.Kind]
	switch {
	case p.Kind == Missing && p.To <= p.Seq:
		text = "entry {seq} is missing"
	case text == "":
		text = "entry {seq}: " + string(p.Kind)
	}
	return strings.NewReplacer("{seq}", strconv.FormatInt(p.Seq, 10), "{to}", strconv.FormatInt(p.To, 10)).Replace(text)
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
	var texts []string
	for _, p := range r.Problems[:min(few, len(r.Problems))] {
		texts = append(texts, p.String())
	}
	if len(r.Problems) > few {
		texts = append(texts, "and more")
	}
	return &haft.Error{Code: haft.CodeConflict,
		Message: "the audit log was tampered with or damaged: " + strings.Join(texts, "; ")}
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
