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
	Key string `json:"key"`
	// Place links the checkpoint to those before it. Checkpoints of before there
	// were chains of checkpoints have none, and neither has the end of an export.
	Place     *Place `json:"place,omitempty"`
	Signature []byte `json:"signature"`
}

// A Place is the position of a checkpoint in two chains: that of its organisation, and
// that of all organisations of one database. Removing, replacing, moving or replaying a
// checkpoint breaks one of them; removing every checkpoint of an organisation breaks the
// second.
type Place struct {
	// Number counts the checkpoints of the organisation from 1 on, and Prev is the
	// [Checkpoint.ID] of the one before; "" of the first.
	Number int64  `json:"number"`
	Prev   string `json:"prev"`
	// Serial counts the checkpoints of all organisations from 1 on, and Before is
	// the ID of the one before; "" of the first.
	Serial int64  `json:"serial"`
	Before string `json:"before"`
	// Lost is set when a person accepted that the database is older than what was
	// signed. Only then may numbers be left out.
	Lost *Loss `json:"lost,omitempty"`
}

// A Loss is what was signed, and given up by a person who put back an older
// database. Without a head nobody knows what was lost.
type Loss struct {
	// Seq and Hash are of the last entry of the organisation that was signed.
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	// Checkpoint is the ID of the last checkpoint of all organisations.
	Checkpoint string `json:"checkpoint"`
}

// Head returns where the chain stood when c was signed.
func (c Checkpoint) Head() Head { return Head{Org: c.Org, Seq: c.Seq, Hash: c.Hash} }

// ID returns the hash of all of c, its signature too.
func (c Checkpoint) ID() string {
	b := appendText(nil, checkpointIDVersion)
	b = appendText(b, string(signedBytes(c)))
	return hexSum(appendText(b, string(c.Signature)))
}

// Mark returns the place of c in the chain of its organisation. Precondition: c has
// one.
func (c Checkpoint) Mark() Mark {
	return Mark{Org: c.Org, Seq: c.Seq, Hash: c.Hash, Number: c.Place.Number, Checkpoint: c.ID()}
}

// Tip returns the place of c in the chain of all organisations. Precondition: c has
// one.
func (c Checkpoint) Tip() Tip { return Tip{Serial: c.Place.Serial, Checkpoint: c.ID()} }

// A Mark is the last checkpoint of an organisation, and the entry that it is of.
type Mark struct {
	Org  string `json:"org"`
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	// Number is that of the checkpoint, and Checkpoint its ID.
	Number     int64  `json:"number"`
	Checkpoint string `json:"checkpoint"`
}

// Head returns the entry that m is of.
func (m Mark) Head() Head { return Head{Org: m.Org, Seq: m.Seq, Hash: m.Hash} }

// A Tip is the last checkpoint of all organisations. The zero value means that there
// is none.
type Tip struct {
	Serial     int64  `json:"serial"`
	Checkpoint string `json:"checkpoint"`
}

// Sign returns a checkpoint of the chain that ends at h, without a [Place].
func (s *Signer) Sign(h Head, now time.Time) Checkpoint { return s.sign(h, nil, now) }

// SignAfter returns a checkpoint of the chain that ends at h and that follows the
// last of its organisation and the last of all. The zero value of either means that
// there is none.
func (s *Signer) SignAfter(h Head, last Mark, tip Tip, now time.Time) Checkpoint {
	return s.sign(h, &Place{Number: last.Number + 1, Prev: last.Checkpoint, Serial: tip.Serial + 1,
		Before: tip.Checkpoint}, now)
}

// SignLoss is SignAfter for a database that is older than what was signed: the
// checkpoint follows last and tip, which the database has, and its numbers follow
// those of the mark and the tip that were given up.
func (s *Signer) SignLoss(h Head, last, lostMark Mark, tip, lostTip Tip, now time.Time) Checkpoint {
	return s.sign(h, &Place{
		Number: max(last.Number, lostMark.Number) + 1, Prev: last.Checkpoint,
		Serial: max(tip.Serial, lostTip.Serial) + 1, Before: tip.Checkpoint,
		Lost: &Loss{Seq: lostMark.Seq, Hash: lostMark.Hash, Checkpoint: lostTip.Checkpoint},
	}, now)
}

func (s *Signer) sign(h Head, at *Place, now time.Time) Checkpoint {
	c := Checkpoint{Org: h.Org, Seq: h.Seq, Hash: h.Hash, Time: micros(now), Key: s.id, Place: at}
	if c.Hash == "" {
		c.Hash = genesisHash(c.Org)
	}
	c.Signature = ed25519.Sign(s.key(), signedBytes(c))
	return c
}

// Check returns what is wrong with the signature of c: [UnknownKey], [BadSignature]
// or "".
func (c Checkpoint) Check(keys Keys) Kind {
	key, ok := keys.find(c.Key)
	switch {
	case !ok:
		return UnknownKey
	case !ed25519.Verify(key, signedBytes(c), c.Signature):
		return BadSignature
	}
	return ""
}

// Follows reports whether c comes right after the last checkpoint of its organisation,
// and right after the last of all. The zero value of either means that there is none.
// Numbers may be left out only where a person accepted a loss.
func (c Checkpoint) Follows(last Mark, tip Tip) bool {
	return c.followsMark(last) && c.FollowsTip(tip)
}

func (c Checkpoint) followsMark(last Mark) bool {
	p := c.Place
	return p != nil && p.Prev == last.Checkpoint && c.Seq >= last.Seq &&
		(p.Number == last.Number+1 || p.Lost != nil && p.Number > last.Number)
}

// FollowsTip reports whether c comes right after the last checkpoint of all.
func (c Checkpoint) FollowsTip(tip Tip) bool {
	p := c.Place
	return p != nil && p.Before == tip.Checkpoint &&
		(p.Serial == tip.Serial+1 || p.Lost != nil && p.Serial > tip.Serial)
}
