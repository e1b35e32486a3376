package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Format is the name of the form of an export, and FormatChained that of one that has
// checkpoints with a [Place], which earlier versions cannot read.
const (
	Format        = "haft-audit-export-1"
	FormatChained = "haft-audit-export-2"
)

// MaxLine is the longest line of an export, in bytes.
const MaxLine = 4 << 20

// A line is one line of an export. One of Header, Entry, Checkpoint and End is
// there.
type line struct {
	Header *header `json:"header,omitempty"`
	Entry  *Entry  `json:"entry,omitempty"`
	// Raw is the body of the entry if JSON in a line would not keep its bytes.
	Raw        []byte      `json:"raw,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	End        *trailer    `json:"end,omitempty"`
}

type header struct {
	Format string `json:"format"`
	From   Head   `json:"from"`
	// Known is the last checkpoint that was known from outside of the chain.
	Known *Mark `json:"known,omitempty"`
}

type trailer struct {
	Entries     int64 `json:"entries"`
	Checkpoints int64 `json:"checkpoints"`
	Head        Head  `json:"head"`
	// Signed is of Head, if there was a key.
	Signed *Checkpoint `json:"signed,omitempty"`
}

// A coder turns lines into bytes. There is one form of each line only, which
// Read insists on: otherwise a field in other letters, a second field of the
// same name or one that we do not know would be in the file and not in the hash.
type coder struct {
	line, body bytes.Buffer
}

// encode returns the bytes of a line, which are good until the next one. It may
// change l.
func (c *coder) encode(l line) ([]byte, error) {
	if l.Entry != nil {
		e := *l.Entry
		e.Time = micros(e.Time)
		if !c.keeps(e.Body) {
			e.Body, l.Raw = nil, e.Body
		}
		l.Entry = &e
	}
	if l.Checkpoint != nil {
		l.Checkpoint = l.Checkpoint.plain()
	}
	if l.End != nil && l.End.Signed != nil {
		end := *l.End
		end.Signed = end.Signed.plain()
		l.End = &end
	}
	c.line.Reset()
	enc := json.NewEncoder(&c.line)
	// The package escapes <, > and & in a RawMessage too, which would change the
	// bytes of a body.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("encode a line of the audit log: %w", err)
	}
	if c.line.Len() > MaxLine {
		return nil, invalid("an entry of the audit log is longer than 4 MiB", nil)
	}
	return c.line.Bytes(), nil
}

// keeps reports whether body, written as part of a line, comes back byte for
// byte.
func (c *coder) keeps(body []byte) bool {
	if len(body) == 0 {
		return true
	}
	c.body.Reset()
	return utf8.Valid(body) && json.Compact(&c.body, body) == nil && bytes.Equal(c.body.Bytes(), body)
}

// decode reads one line, which encode must give again.
func (c *coder) decode(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return line{}, fmt.Errorf("decode: %w", err)
	}
	if l.Entry != nil && l.Raw != nil {
		l.Entry.Body, l.Raw = l.Raw, nil
	}
	if !l.single() {
		return line{}, errOtherForm
	}
	again, err := c.encode(l)
	if err != nil {
		return line{}, err
	}
	if !bytes.Equal(again, text) {
		return line{}, errOtherForm
	}
	return l, nil
}

// single reports whether l is one thing only. What stands beside it would not be
// looked at.
func (l line) single() bool {
	n := 0
	for _, there := range []bool{l.Header != nil, l.Entry != nil, l.Raw != nil, l.Checkpoint != nil, l.End != nil} {
		if there {
			n++
		}
	}
	return n == 1
}

// plain returns c with its time as it is signed.
func (c *Checkpoint) plain() *Checkpoint {
	p := *c
	p.Time = micros(p.Time)
	return &p
}
