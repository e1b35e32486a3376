package audit

import "time"

// A Checkpoint vouches for a chain up to one entry: its Hash, signed.
type Checkpoint struct {
	Org  string    `json:"org"`
	Seq  int64     `json:"seq"`
	Hash string    `json:"hash"`
	Time time.Time `json:"time"`
	// Key is the id of the key, see [KeyID].
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// Head returns where the chain stood when c was signed.
func (c Checkpoint) Head() Head { return Head{Org: c.Org, Seq: c.Seq, Hash: c.Hash} }
