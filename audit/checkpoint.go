package audit

import (
	"crypto/ed25519"
	"time"
)

// A Checkpoint vouches for a chain up to one entry: its Hash, signed.
type Checkpoint struct {
	Org  string `json:"org"`
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	// Time is when it was signed, in UTC and whole microseconds.
	Time time.Time `json:"time"`
	// Key is the id of the key, see [KeyID].
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// Head returns where the chain stood when c was signed.
func (c Checkpoint) Head() Head { return Head{Org: c.Org, Seq: c.Seq, Hash: c.Hash} }

// Sign returns a checkpoint of the chain that ends at h.
func (s *Signer) Sign(h Head, now time.Time) Checkpoint {
	c := Checkpoint{Org: h.Org, Seq: h.Seq, Hash: h.Hash, Time: micros(now), Key: s.id}
	if c.Hash == "" {
		c.Hash = genesisHash(c.Org)
	}
	c.Signature = ed25519.Sign(s.key(), signedBytes(c))
	return c
}

// check returns what is wrong with the signature of c, or "".
func (c Checkpoint) check(keys Keys) Kind {
	key, ok := keys.find(c.Key)
	switch {
	case !ok:
		return UnknownKey
	case !ed25519.Verify(key, signedBytes(c), c.Signature):
		return BadSignature
	}
	return ""
}
