package audit

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
)

// An Entry is one thing that was done, or refused.
type Entry struct {
	Org string `json:"org"`
	// Seq counts the entries of the organisation from 1 on, without a gap.
	Seq int64 `json:"seq"`
	// Time is in UTC and whole microseconds once the entry is linked.
	Time time.Time `json:"time"`
	// Kind says what happened, such as "call.started".
	Kind  string         `json:"kind"`
	Actor haft.Principal `json:"actor"`
	Call  haft.CallID    `json:"call,omitempty"`
	Tool  string         `json:"tool,omitempty"`
	// Digest is of the version of the tool.
	Digest string `json:"digest,omitempty"`
	// Body has what there is to say about this Kind, as JSON. Its bytes are part
	// of the hash: who keeps an entry keeps them as they are, unformatted.
	Body json.RawMessage `json:"body,omitempty"`
	// Erased names the erasure that took the content of the entry: all but Org, Seq, Time,
	// Prev and Hash is empty then. An entry of the kind [ErasedKind] has to say so.
	Erased string `json:"erased,omitempty"`
	// Prev is the Hash of the entry before, or that of [Genesis].
	Prev string `json:"prev"`
	Hash string `json:"hash"`
}

// Head returns where the chain stands after e.
func (e Entry) Head() Head { return Head{Org: e.Org, Seq: e.Seq, Hash: e.Hash} }

// A Head is the end of a chain, to which the next entry is linked. One without a
// Hash means the beginning of the chain.
type Head struct {
	Org  string `json:"org"`
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Genesis returns the head of the empty chain of org. It differs from
// organisation to organisation, so that no chain can pass for another's.
func Genesis(org string) Head {
	return Head{Org: org, Hash: genesisHash(org)}
}

// Link puts e after prev: it fills Seq, Prev and Hash, and makes of the other
// fields what will come back from a store unchanged (time in whole microseconds,
// text in valid UTF-8). An entry without an organisation gets that of prev.
//
// It panics if e is of another organisation than prev: that entry must not be
// kept in this chain, and no answer of Link could be right.
func Link(prev Head, e Entry) Entry {
	e = e.Valid()
	if e.Org == "" {
		e.Org = prev.Org
	}
	if prev.Org != "" && prev.Org != e.Org {
		panic("audit: an entry of one organisation is linked to the chain of another")
	}
	e.Time = micros(e.Time)
	if prev.Hash == "" {
		prev = Genesis(e.Org)
	}
	e.Seq, e.Prev = prev.Seq+1, prev.Hash
	e.Hash = hashOf(&e)
	return e
}

// Valid returns e with valid UTF-8 in all text but Body.
func (e Entry) Valid() Entry {
	e.Org, e.Kind = valid(e.Org), valid(e.Kind)
	e.Tool, e.Digest, e.Call = valid(e.Tool), valid(e.Digest), haft.CallID(valid(string(e.Call)))
	e.Actor.Org, e.Actor.User, e.Actor.Agent = valid(e.Actor.Org), valid(e.Actor.User), valid(e.Actor.Agent)
	e.Actor.Roles, e.Actor.Scope = validAll(e.Actor.Roles), validAll(e.Actor.Scope)
	return e
}

// micros returns t as it is hashed: what is smaller than a microsecond is not,
// and must therefore not be kept either.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// valid returns s with the replacement character for what is not UTF-8: JSON
// would put it there, and the hash would no longer fit.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// validAll does not write to list, which is its caller's.
func validAll(list []string) []string {
	for i, s := range list {
		if utf8.ValidString(s) {
			continue
		}
		fixed := append([]string(nil), list...)
		for j := i; j < len(fixed); j++ {
			fixed[j] = valid(fixed[j])
		}
		return fixed
	}
	return list
}
