package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"slices"
)

// ErasedKind is the kind of the entry that says that others were erased. Its body is an
// [Erased].
const ErasedKind = "data.erased"

// maxErasures bounds the erasures that a verifier remembers; those beyond are a problem.
const maxErasures = 10_000

// Erased is the body of the entry that says that others were erased. It comes before they
// are, so that an erasure that was stopped is noticed.
type Erased struct {
	// ID is what the erased entries are marked with.
	ID string `json:"erasure"`
	// Entries is how many there are, and Digest that of their hashes, see [Eraser].
	Entries int64  `json:"entries"`
	Digest  string `json:"digest"`
}

// An Eraser counts and digests entries that are to be erased, in the order of their numbers.
// The zero value is ready.
type Eraser struct {
	sum     hash.Hash
	entries int64
}

// Add adds an entry.
func (x *Eraser) Add(e Entry) {
	if x.sum == nil {
		x.sum = sha256.New()
	}
	x.sum.Write(appendText(appendNumber(nil, e.Seq), e.Hash)) // never fails
	x.entries++
}

// Erased returns what the entry has to say.
func (x *Eraser) Erased(id string) Erased {
	digest := ""
	if x.sum != nil {
		digest = hex.EncodeToString(x.sum.Sum(nil))
	}
	return Erased{ID: id, Entries: x.entries, Digest: digest}
}

// Tombstone returns what stays of an entry that is erased.
func (e Entry) Tombstone(erasure string) Entry {
	return Entry{Org: e.Org, Seq: e.Seq, Time: e.Time, Kind: "erased", Erased: erasure, Prev: e.Prev, Hash: e.Hash}
}

// An erasure is what a verifier has seen of one.
type erasure struct {
	Eraser
	first int64 // of the entries
	by    int64 // the entry that says so
	said  Erased
}

// erasureOf returns what is known of an erasure, or nil if there are too many.
func (v *verifier) erasureOf(id string) *erasure {
	x := v.erased[id]
	if x == nil && len(v.erased) < maxErasures {
		if v.erased == nil {
			v.erased = make(map[string]*erasure)
		}
		x = &erasure{}
		v.erased[id] = x
	}
	return x
}

// erase notes an entry that was erased.
func (v *verifier) erase(e Entry) {
	x := v.erasureOf(e.Erased)
	// Whatever stands in an erased entry is vouched for by nobody.
	rest := e
	rest.Hash = ""
	stone := e.Tombstone(e.Erased)
	stone.Hash = ""
	if x == nil || hashOf(&rest) != hashOf(&stone) {
		v.report.problem(Problem{Kind: BadErasure, Seq: e.Seq})
		return
	}
	if x.first == 0 {
		x.first = e.Seq
	}
	x.Add(e)
}

// erasedBy notes what an entry says of an erasure. The first one counts.
func (v *verifier) erasedBy(e Entry) {
	var said Erased
	if json.Unmarshal(e.Body, &said) != nil || said.ID == "" {
		return
	}
	if x := v.erasureOf(said.ID); x != nil && x.by == 0 {
		x.said, x.by = said, e.Seq
	}
}

// erasures notes which erasures are what an entry says. Where the chain begins in the middle,
// the entries of an erasure may be before that.
func (v *verifier) erasures() {
	for _, id := range slices.Sorted(maps.Keys(v.erased)) {
		switch x := v.erased[id]; {
		case x.entries == 0 && (x.said.Entries == 0 || v.report.From.Seq > 0):
		case x.Erased(id) == x.said:
			v.report.warning(Problem{Kind: Erasure, Seq: x.by, To: x.entries})
		default:
			v.report.problem(Problem{Kind: BadErasure, Seq: max(x.first, 1)})
		}
	}
}
