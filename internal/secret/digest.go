package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// A Digester makes digests that identify values without showing them. It is safe for concurrent use.
type Digester struct {
	key  []byte
	macs sync.Pool // of *mac
}

// NewDigester returns a Digester with a key, without which nobody can try out guesses; an empty one means plain
// digests.
func NewDigester(key []byte) *Digester { return &Digester{key: key} }

// mac makes digests with the key, one after the other.
type mac struct {
	hash hash.Hash
	buf  []byte
}

// Digest identifies a value of some kind, in JSON; none is an empty object.
func (d *Digester) Digest(kind string, value []byte) string {
	if len(value) == 0 {
		value = []byte("{}")
	}
	var text [len("hmac-sha256:") + 2*sha256.Size]byte
	if len(d.key) == 0 {
		sum := sha256.Sum256(value)
		return string(hex.AppendEncode(append(text[:0], "sha256:"...), sum[:]))
	}
	m, ok := d.macs.Get().(*mac)
	if ok {
		m.hash.Reset() // which is cheaper than to begin with the key again
	} else {
		m = &mac{hash: hmac.New(sha256.New, d.key)}
	}
	defer d.macs.Put(m)
	m.buf = append(append(m.buf[:0], kind...), 0)
	m.hash.Write(m.buf) // hash.Hash never fails
	m.hash.Write(value)
	m.buf = m.hash.Sum(m.buf[:0])
	return string(hex.AppendEncode(append(text[:0], "hmac-sha256:"...), m.buf))
}

// Binds is the digest that ties an approval to a version and its arguments.
func (d *Digester) Binds(version string, args []byte) string {
	return d.Digest("binds", append([]byte(version+"\x00"), args...))
}
