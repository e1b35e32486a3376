package audit

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// An Extract says what of a chain to export.
type Extract struct {
	// From is the head after which the entries begin, as in [Verify].
	From Head
	// Checkpoints that are known of the chain; those from before From are left
	// out.
	Checkpoints []Checkpoint
	// Marks are checkpoints of the chain that are known from outside of it: it must
	// have all of them, or else it is not signed. The last is written to the header,
	// so that who reads the export finds that too.
	Marks []Mark
	// Keys are trusted. That of Signer is too.
	Keys Keys
	// Signer signs the end of a chain that is sound; nil means nobody does.
	Signer *Signer
	// Time is when the export is made. It is written only under a signature.
	Time time.Time
}

// Export writes a chain to w, a JSON value in each line:
//
//	{"header": …}      the format, the organisation, where it begins, and perhaps
//	                   the last checkpoint that was known from outside
//	{"entry": …}       an entry, and after it the checkpoints of it:
//	{"checkpoint": …}
//	{"end": …}         how many there were, the last hash, perhaps a signature
//
// It verifies what it writes. A chain that is not sound is written all the same,
// as evidence, but not signed. An error means that the export is not whole.
func Export(w io.Writer, entries iter.Seq2[Entry, error], x Extract) (Report, error) {
	keys := make(Keys, len(x.Keys)+1)
	for id, key := range x.Keys {
		keys[id] = key
	}
	if x.Signer != nil {
		keys[x.Signer.ID()] = x.Signer.Public()
	}
	v, err := newVerifier(x.From, keys)
	if err != nil {
		return Report{}, err
	}
	v.expect(x.Marks)
	out := exporter{w: w, v: v, rest: inOrder(x.Checkpoints)}
	out.rest = slices.DeleteFunc(out.rest, func(c Checkpoint) bool { return c.Seq < v.head.Seq })
	head := header{Format: Format, From: v.head}
	if len(x.Marks) > 0 {
		head.Known = &x.Marks[len(x.Marks)-1]
	}
	if head.Known != nil || slices.ContainsFunc(out.rest, func(c Checkpoint) bool { return c.Place != nil }) {
		head.Format = FormatChained
	}
	out.write(line{Header: &head})
	out.checkpoints(v.head.Seq)
	for e, err := range entries {
		if err != nil {
			return v.report, fmt.Errorf("read the audit log after entry %d: %w", v.head.Seq, err)
		}
		v.entry(e)
		out.write(line{Entry: &e})
		out.checkpoints(v.head.Seq)
		if out.err != nil {
			return v.report, out.err
		}
	}
	for len(out.rest) > 0 { // of entries that are not there any more
		out.checkpoints(out.rest[0].Seq)
	}
	report := v.end()
	end := trailer{Entries: report.Entries, Checkpoints: report.Checkpoints, Head: report.Head}
	if x.Signer != nil && report.Sound() {
		c := x.Signer.Sign(report.Head, x.Time)
		end.Signed = &c
		report.Signed = c.Seq
	}
	out.write(line{End: &end})
	return report, out.err
}

// An exporter writes lines until one fails.
type exporter struct {
	w    io.Writer
	v    *verifier
	rest []Checkpoint // not written yet, in order
	code coder
	err  error
}

// checkpoints writes those of entries up to seq.
func (x *exporter) checkpoints(seq int64) {
	for len(x.rest) > 0 && x.rest[0].Seq <= seq {
		x.v.checkpoint(x.rest[0])
		x.write(line{Checkpoint: &x.rest[0]})
		x.rest = x.rest[1:]
	}
}

func (x *exporter) write(l line) {
	if x.err != nil {
		return
	}
	text, err := x.code.encode(l)
	if err != nil {
		x.err = err
		return
	}
	if _, err := x.w.Write(text); err != nil {
		x.err = fmt.Errorf("write the export of the audit log: %w", err)
	}
}
