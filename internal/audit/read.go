package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

var (
	errOtherForm = errors.New("the line is not in the form in which it is written")
	errCut       = errors.New("the file ends within a line")
)

// Read verifies an export of the chain of org, and gives each entry to visit, if
// that is not nil, as it comes. Nothing about an entry is certain before Read has
// returned a sound report, and nothing about the end of the chain unless the
// report says that it is Signed.
//
// A file that is not an export, or not a whole one, is an error, which names the
// line. So is a line in any other form than Export writes, even if it means the
// same: what is in the file and not in the chain would be believed by whoever
// reads it. What is wrong with the chain itself is in the report.
//
// The chain must have all of marks, which are known from elsewhere; see [VerifyMarks].
func Read(r io.Reader, org string, keys Keys, marks []Mark, visit func(Entry) error) (Report, error) {
	in := reader{lines: bufio.NewScanner(r), org: org, keys: keys, marks: marks, visit: visit}
	in.lines.Buffer(nil, MaxLine)
	in.lines.Split(wholeLines)
	for in.lines.Scan() {
		in.number++
		l, err := in.code.decode(in.lines.Bytes())
		if err != nil {
			return in.report, in.wrong("is not as it was written", err)
		}
		if err := in.take(l); err != nil {
			return in.report, err
		}
	}
	switch err := in.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		in.number++
		return in.report, in.wrong("is longer than 4 MiB", err)
	case errors.Is(err, errCut):
		in.number++
		return in.report, in.wrong("is cut off", err)
	case err != nil:
		return in.report, fmt.Errorf("read the export of the audit log: %w", err)
	case !in.ended:
		return in.report, invalid("the export is cut off: its last line is missing", nil)
	}
	return in.report, nil
}

// A reader takes the lines of an export.
type reader struct {
	lines  *bufio.Scanner
	org    string
	keys   Keys
	marks  []Mark
	visit  func(Entry) error
	code   coder
	number int
	v      *verifier // nil before the header
	ended  bool
	// chained says that something had a place in the chain of checkpoints, and said
	// that the header announced it.
	chained, said bool
	report        Report
}

func (in *reader) take(l line) error {
	switch {
	case in.ended:
		return in.wrong("comes after the end", nil)
	case in.v == nil:
		return in.begin(l)
	case l.Header != nil:
		return in.wrong("is a second header", nil)
	case l.Entry != nil:
		in.v.entry(*l.Entry)
		in.report = in.v.report
		if in.visit == nil {
			return nil
		}
		return in.visit(*l.Entry)
	case l.Checkpoint != nil:
		in.v.checkpoint(*l.Checkpoint)
		in.chained = in.chained || l.Checkpoint.Place != nil
		return nil
	case l.End != nil:
		return in.end(*l.End)
	}
	return in.wrong("is empty", nil)
}

func (in *reader) begin(l line) error {
	switch {
	case l.Header == nil || l.Header.Format != Format && l.Header.Format != FormatChained:
		return invalid("this is not an export of an audit log, or one of a later version", nil)
	case l.Header.From.Org != in.org:
		return invalid("this is the audit log of another organisation", nil)
	case l.Header.Known != nil && (l.Header.Known.Org != in.org ||
		l.Header.Known.Seq <= l.Header.From.Seq && l.Header.From.Seq > 0):
		return in.wrong("knows a checkpoint of another chain", nil)
	}
	var err error
	in.v, err = newVerifier(l.Header.From, in.keys)
	if err == nil && in.v.head != l.Header.From {
		return in.wrong("does not say where the chain begins", nil)
	}
	if err != nil {
		return err
	}
	in.v.expect(in.marks)
	in.chained, in.said = l.Header.Known != nil, l.Header.Format == FormatChained
	if l.Header.Known != nil {
		in.v.expect([]Mark{*l.Header.Known})
	}
	return nil
}

func (in *reader) end(t trailer) error {
	in.ended = true
	if in.chained != in.said {
		return in.wrong("ends an export of another format than the first line names", nil)
	}
	in.report = in.v.end()
	if t.Entries != in.report.Entries || t.Checkpoints != in.report.Checkpoints {
		return in.wrong("counts other lines than there are", nil)
	}
	if t.Head != in.report.Head {
		return in.wrong("names another end of the chain", nil)
	}
	if t.Signed == nil {
		return nil
	}
	if t.Signed.Head() != t.Head {
		return in.wrong("is signed for another end of the chain", nil)
	}
	if kind := t.Signed.Check(in.keys); kind != "" {
		in.report.problem(Problem{Kind: kind, Seq: t.Signed.Seq})
		return nil
	}
	in.report.Signed = t.Head.Seq
	return nil
}

func (in *reader) wrong(what string, cause error) error {
	return invalid(fmt.Sprintf("line %d of the export %s", in.number, what), cause)
}

// wholeLines is a [bufio.SplitFunc] that keeps the end of the line and insists on
// it.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errCut
	}
	return 0, nil, nil
}
