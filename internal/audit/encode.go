package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// The names that stand first in what is hashed or signed, so that nothing made
// for one purpose can be used for another. A change of the encoding is a change
// of the number; a test pins the result.
const (
	entryVersion        = "haft-audit-1"
	actorVersion        = "haft-audit-actor-1" // before what principals have had since
	genesisVersion      = "haft-audit-genesis-1"
	checkpointVersion   = "haft-audit-checkpoint-1"
	placedVersion       = "haft-audit-checkpoint-2" // with a Place
	checkpointIDVersion = "haft-audit-checkpoint-id-1"
	headsVersion        = "haft-audit-heads-1"
)

// hashOf returns the hash of everything in e but Hash itself.
//
// The encoding is a sequence of fields in a fixed order: text is its length in 8
// bytes and then itself, a number is 8 bytes, a list is its length and its
// texts. So each byte belongs to one field only. The body comes in by its own
// digest: it is the one field that can be large, and this way the rest is put
// together on the stack.
func hashOf(e *Entry) string {
	var stack [1024]byte
	b := appendText(stack[:0], entryVersion)
	b = appendText(b, e.Org)
	b = appendNumber(b, e.Seq)
	b = appendTime(b, e.Time)
	b = appendText(b, e.Kind)
	b = appendText(b, e.Actor.Org)
	b = appendText(b, e.Actor.User)
	b = appendText(b, e.Actor.Agent)
	b = appendList(b, e.Actor.Roles)
	// A scope that is nil permits all and an empty one nothing.
	if e.Actor.Scope == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = appendList(b, e.Actor.Scope)
	}
	b = appendText(b, string(e.Call))
	b = appendText(b, e.Tool)
	b = appendText(b, e.Digest)
	body := sha256.Sum256(e.Body)
	b = append(b, body[:]...)
	b = appendText(b, e.Prev)
	// What principals have had since. Entries from before have neither, and keep
	// their hashes.
	if e.Actor.Credential != "" || e.Actor.Actions != nil {
		b = appendText(b, actorVersion)
		b = appendText(b, e.Actor.Credential)
		if e.Actor.Actions == nil {
			return hexSum(append(b, 0))
		}
		b = append(b, 1)
		b = binary.BigEndian.AppendUint64(b, uint64(len(e.Actor.Actions)))
		for _, a := range e.Actor.Actions {
			b = appendText(b, string(a))
		}
	}
	return hexSum(b)
}

func genesisHash(org string) string {
	return hexSum(appendText(appendText(nil, genesisVersion), org))
}

// signedBytes returns what the signature of c is over.
func signedBytes(c Checkpoint) []byte {
	version := checkpointVersion
	if c.Place != nil {
		version = placedVersion
	}
	b := appendText(nil, version)
	b = appendText(b, c.Org)
	b = appendNumber(b, c.Seq)
	b = appendText(b, c.Hash)
	b = appendTime(b, c.Time)
	b = appendText(b, c.Key)
	if c.Place != nil {
		b = appendPlace(b, *c.Place)
	}
	return b
}

func appendPlace(b []byte, p Place) []byte {
	b = appendNumber(b, p.Number)
	b = appendText(b, p.Prev)
	b = appendNumber(b, p.Serial)
	b = appendText(b, p.Before)
	if p.Lost == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = appendNumber(b, p.Lost.Seq)
	b = appendText(b, p.Lost.Hash)
	return appendText(b, p.Lost.Checkpoint)
}

// headsBytes returns what the signature of h is over.
func headsBytes(h Heads) []byte {
	b := appendText(make([]byte, 0, 256+len(h.Marks)*256), headsVersion)
	b = appendNumber(b, h.Tip.Serial)
	b = appendText(b, h.Tip.Checkpoint)
	b = appendTime(b, h.Time)
	b = appendText(b, h.Key)
	b = appendNumber(b, int64(len(h.Marks)))
	for _, m := range h.Marks {
		b = appendText(b, m.Org)
		b = appendNumber(b, m.Seq)
		b = appendText(b, m.Hash)
		b = appendNumber(b, m.Number)
		b = appendText(b, m.Checkpoint)
	}
	return b
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

func appendList(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func appendNumber(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

func appendTime(b []byte, t time.Time) []byte { return appendNumber(b, t.UnixMicro()) }
