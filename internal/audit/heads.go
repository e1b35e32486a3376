package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// HeadsFormat is the name of the form of [Heads] in a file.
const HeadsFormat = "haft-audit-heads-1"

// MaxHeads bounds a file of [Heads], in bytes, and maxMarks the lines of a sink that are
// of one organisation.
const (
	MaxHeads = 512 << 20
	maxMarks = 10_000_000
)

// Heads say what was signed last: the last checkpoint of all, and the last one of
// every organisation. They are kept outside of the database, so that a database that
// was cut, rewritten or replaced by an older one does not fit them.
type Heads struct {
	Format string    `json:"format"`
	Tip    Tip       `json:"tip"`
	Time   time.Time `json:"time"`
	Key    string    `json:"key"`
	// Marks are in the order of their organisations.
	Marks     []Mark `json:"heads"`
	Signature []byte `json:"signature"`
}

// SignHeads signs what was signed last. It sorts marks.
func (s *Signer) SignHeads(tip Tip, marks []Mark, now time.Time) Heads {
	slices.SortFunc(marks, func(a, b Mark) int { return strings.Compare(a.Org, b.Org) })
	h := Heads{Format: HeadsFormat, Tip: tip, Time: micros(now), Key: s.id, Marks: marks}
	h.Signature = ed25519.Sign(s.key(), headsBytes(h))
	return h
}

// ParseHeads reads what Encode wrote, and checks the signature.
func ParseHeads(data []byte, keys Keys) (Heads, error) {
	var h Heads
	if len(data) > MaxHeads {
		return h, invalid("the file of the heads of the audit log is longer than 512 MiB", nil)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, invalid("the file of the heads of the audit log is damaged", err)
	}
	if h.Format != HeadsFormat {
		return h, invalid("the file is not one of the heads of an audit log, or of a later version of haft", nil)
	}
	key, ok := keys.find(h.Key)
	switch {
	case !ok:
		return h, invalid("the heads of the audit log are signed with a key that is not trusted", nil)
	case !ed25519.Verify(key, headsBytes(h), h.Signature):
		return h, invalid("the signature of the heads of the audit log is wrong: the file was changed", nil)
	}
	for i := 1; i < len(h.Marks); i++ {
		if h.Marks[i-1].Org >= h.Marks[i].Org {
			return h, invalid("the heads of the audit log are not in order", nil)
		}
	}
	return h, nil
}

// Encode writes h for [ParseHeads].
func (h Heads) Encode() ([]byte, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(h); err != nil {
		return nil, fmt.Errorf("encode the heads of the audit log: %w", err)
	}
	return b.Bytes(), nil
}

// Find returns the mark of an organisation.
func (h Heads) Find(org string) (Mark, bool) {
	i, ok := slices.BinarySearchFunc(h.Marks, org, func(m Mark, org string) int { return strings.Compare(m.Org, org) })
	if !ok {
		return Mark{}, false
	}
	return h.Marks[i], true
}

// A CheckpointLine is one line of what an external sink is sent.
type CheckpointLine struct {
	Checkpoint *Checkpoint `json:"checkpoint"`
}

// ReadMarks reads what was signed of an organisation from a file that is kept outside
// of the database: one of [Heads], or the lines of a sink, each a [CheckpointLine].
// Every line of the organisation counts: a chain that leaves out one of them was cut or
// rewritten. A line that cannot be verified is an error. It is also an error if the file
// says nothing of the organisation, since it would prove nothing.
func ReadMarks(r io.Reader, org string, keys Keys) ([]Mark, error) {
	in := bufio.NewReader(r)
	begin, err := in.Peek(1)
	if errors.Is(err, io.EOF) || len(begin) == 0 {
		return nil, invalid("the file of heads is empty", nil)
	}
	first, err := in.Peek(len(`{"format"`))
	if err == nil && string(first) == `{"format"` {
		data, err := io.ReadAll(io.LimitReader(in, MaxHeads+1))
		if err != nil {
			return nil, fmt.Errorf("read the heads of the audit log: %w", err)
		}
		h, err := ParseHeads(data, keys)
		if err != nil {
			return nil, err
		}
		if m, ok := h.Find(org); ok {
			return []Mark{m}, nil
		}
		return nil, invalid("the file of heads says nothing about this organisation", nil)
	}
	return readLines(in, org, keys)
}

// readLines reads the lines of a sink.
func readLines(r io.Reader, org string, keys Keys) ([]Mark, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var marks []Mark
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l CheckpointLine
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case n > 1 && !json.Valid(lines.Bytes()):
			continue // a crash cut it off; the next line has it again
		case err != nil || l.Checkpoint == nil || l.Checkpoint.Place == nil:
			return nil, invalid(fmt.Sprintf("line %d of the heads is no checkpoint", n), err)
		}
		if l.Checkpoint.Org != org {
			continue
		}
		if kind := l.Checkpoint.Check(keys); kind != "" {
			return nil, invalid(fmt.Sprintf("line %d of the heads: %s", n, Problem{Kind: kind, Seq: l.Checkpoint.Seq}),
				nil)
		}
		if len(marks) == maxMarks {
			return nil, invalid("the heads have more than 10,000,000 lines of this organisation", nil)
		}
		marks = append(marks, l.Checkpoint.Mark())
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the lines of the heads: %w", err)
	}
	if len(marks) == 0 {
		return nil, invalid("the file of heads says nothing about this organisation", nil)
	}
	return marks, nil
}
