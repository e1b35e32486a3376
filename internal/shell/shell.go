// Package shell reads scripts of Bash without running them. It is the one place
// that gives source to mvdan.cc/sh, whose parser has no bounds of its own.
package shell

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds on the parser. It descends without one of its own, and Go ends the
// whole process at 1 GB of stack.
const (
	maxFrames = 4_000 // calls inside each other: some 500 levels of shell
	parseTime = 2 * time.Second
	chunk     = 512 // bytes that the parser gets at once
)

// Why the parser was stopped.
var (
	errDeep = errors.New("commands are nested too deep")
	errLong = errors.New("it takes too long to read")
)

// A SyntaxError says why a script cannot be read.
type SyntaxError struct {
	Line, Column int // from 1, the column in characters; 0 if it is not known
	Message      string
	// Unsure says that Bash may read the script nevertheless.
	Unsure bool
}

// Error returns the message.
func (e *SyntaxError) Error() string { return e.Message }

// A meter gives the parser its text in small pieces, and ends it when it has
// gone too deep or taken too long: the reader is the only thing of ours that the
// parser calls, and it calls it from wherever it is.
type meter struct {
	ctx  context.Context // of the one parse that it is for
	text string
	end  time.Time
}

// Read gives the next piece, or says why there is none.
func (m *meter) Read(b []byte) (int, error) {
	var pc [1]uintptr
	switch {
	case m.ctx.Err() != nil:
		return 0, m.ctx.Err()
	case runtime.Callers(maxFrames, pc[:]) > 0:
		return 0, errDeep
	case time.Now().After(m.end):
		return 0, errLong
	case m.text == "":
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), chunk)], m.text)
	m.text = m.text[n:]
	return n, nil
}

// Parse reads a whole script. Its error is a [*SyntaxError], or the end of ctx.
func Parse(ctx context.Context, source string) (file *syntax.File, err error) {
	defer func() {
		if recover() != nil { // the fault of the parser
			file, err = nil, &SyntaxError{Line: 1, Column: 1, Message: "the script cannot be read", Unsure: true}
		}
	}()
	text := withoutHead(source)
	m := &meter{ctx: ctx, text: text, end: time.Now().Add(parseTime)}
	file, bad := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(m, "")
	if bad == nil {
		return file, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e := &SyntaxError{Message: "syntax error: " + strings.TrimSpace(bad.Error())}
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.Is(bad, errDeep), errors.Is(bad, errLong):
		e.Message = "the script cannot be read: " + bad.Error()
		e.Line, e.Column = strings.Count(text[:len(text)-len(m.text)], "\n")+1, 1
	case errors.As(bad, &parse):
		e.Message = "syntax error: " + parse.Text
		e.Unsure = unsure(parse.Text)
		e.Line, e.Column = int(parse.Pos.Line()), int(parse.Pos.Col())
		if at := int(parse.Pos.Offset()); at <= len(text) { // columns are counted in characters
			e.Column = utf8.RuneCountInString(text[strings.LastIndexByte(text[:at], '\n')+1:at]) + 1
		}
	case errors.As(bad, &lang):
		e.Unsure = true // of another shell, which Bash may know by now
	}
	return nil, e
}

// withoutHead returns src with nothing on the lines of its first comments, which
// may be many: the parser descends for each line of a block of them.
func withoutHead(src string) string {
	n := 0
	for line := range strings.Lines(src) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			break
		}
		n += len(line)
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, src[:n]) + src[n:]
}

// unsure knows the problems that may be none: "((" begins arithmetic or a
// subshell in a subshell, and only Bash reads both ways.
func unsure(problem string) bool {
	for _, s := range []string{"arithm", "((", "followed by an expression", "expression to follow"} {
		if strings.Contains(problem, s) {
			return true
		}
	}
	return false
}
