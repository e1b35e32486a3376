package bashschema

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"haft/schema"
)

// The bounds on the parser of shell. It descends without one of its own, and Go
// ends the whole process at 1 GB of stack.
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

// A meter gives the parser its text in small pieces, and ends it when it has
// gone too deep or taken too long: the reader is the only thing of ours that the
// parser calls, and it calls it from wherever it is.
type meter struct {
	ctx  context.Context
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

// checkSyntax reads the whole script as Bash does, without running it, and
// returns what is wrong with it: a *schema.SourceError, or the end of ctx.
func checkSyntax(ctx context.Context, src string) (err error) {
	defer func() {
		if recover() != nil { // the parser's fault: Bash will say what is wrong
			err = nil
		}
	}()
	text := withoutHead(src)
	m := &meter{ctx: ctx, text: text, end: time.Now().Add(parseTime)}
	_, bad := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(m, "")
	if bad == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &schema.SourceError{Message: "syntax error: " + strings.TrimSpace(bad.Error())}
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.Is(bad, errDeep), errors.Is(bad, errLong):
		e.Message = "the script cannot be read: " + bad.Error()
		e.Line, e.Column = strings.Count(text[:len(text)-len(m.text)], "\n")+1, 1
	case errors.As(bad, &parse) && unsure(parse.Text):
		return nil
	case errors.As(bad, &parse):
		e.Message = "syntax error: " + parse.Text
		e.Line, e.Column = int(parse.Pos.Line()), int(parse.Pos.Col())
		if at := int(parse.Pos.Offset()); at <= len(text) { // columns are counted in characters
			e.Column = utf8.RuneCountInString(text[strings.LastIndexByte(text[:at], '\n')+1:at]) + 1
		}
	case errors.As(bad, &lang):
		return nil // of another shell, which Bash may know by now
	}
	return e
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
