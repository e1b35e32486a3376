package bashschema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"haft/schema"
)

// The bounds on a header.
const (
	maxParams   = 256
	maxProblems = 20
	maxArrays   = 8 // arrays of arrays
)

// Config says how a header is read. Its zero value wants a name in the header,
// and every description.
type Config struct {
	schema.Options
	// DefaultName is the name of a tool whose header gives none, such as that
	// of its file.
	DefaultName string
}

// A Result is what a header says about its tool.
type Result struct {
	schema.Signature
	// Output is how the output of the script is read: json, text, number,
	// boolean or list, or "" where the header does not say.
	Output string
}

// Variable returns the name of the environment variable that carries an
// argument.
func Variable(parameter string) string { return "ARG_" + strings.ToUpper(parameter) }

// paramName is what can be part of the name of a variable.
var paramName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })

// toolName is what every vendor of models accepts.
var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`) })

// Derive reads the header of a script, and looks for syntax errors in the rest.
//
// What is wrong with it is told all at once: the error joins one
// [*schema.SourceError] for every problem. Any other error is not the source's.
func Derive(ctx context.Context, source []byte, config Config) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	src := strings.TrimPrefix(string(source), "\ufeff")
	if err := checkText(src); err != nil {
		return nil, err
	}
	h := &header{opts: config, seen: map[string]string{}}
	h.lines = commentLines(src)
	r := h.read()
	var bad *schema.SourceError
	if err := checkSyntax(ctx, src); errors.As(err, &bad) {
		bad.Function = h.name
		h.errs = append(h.errs, bad)
	} else if err != nil {
		return nil, err
	}
	if len(h.errs) > 0 {
		slices.SortStableFunc(h.errs, func(a, b *schema.SourceError) int { return cmp.Compare(a.Line, b.Line) })
		var all []error
		for _, e := range h.errs {
			all = append(all, e)
		}
		return nil, errors.Join(all...)
	}
	return r, nil
}

// checkText refuses what is no text, or too much of it.
func checkText(src string) error {
	bad := func(at int, message string) error {
		before := src[:at]
		line := strings.Count(before, "\n") + 1
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		return &schema.SourceError{Line: line, Column: column, Message: message}
	}
	switch {
	case len(src) > schema.MaxSource:
		return bad(schema.MaxSource, fmt.Sprintf("the source has %d bytes, %d is the most", len(src), schema.MaxSource))
	case strings.TrimSpace(src) == "":
		return bad(0, "the source is empty")
	}
	for i, r := range src {
		if r == 0 {
			return bad(i, "the source is not text: it has a zero byte")
		}
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], "\ufffd") {
			return bad(i, "the source is not text in UTF-8")
		}
	}
	return nil
}

// A line is one line of the header without its mark.
type line struct {
	number int // from 1
	column int // where its text begins in the source, from 1
	indent int // blanks after the "#", a tab as many as 8
	text   string
}

// commentLines returns the first block of comment lines.
func commentLines(src string) []line {
	var lines []line
	number := 0
	for text := range strings.Lines(src) {
		number++
		text = strings.TrimRight(text, " \t\r\n")
		trimmed := strings.TrimLeft(text, " \t")
		switch {
		case number == 1 && strings.HasPrefix(text, "#!"), strings.HasPrefix(trimmed, "# shellcheck "):
			continue
		case trimmed == "" && len(lines) == 0:
			continue
		case !strings.HasPrefix(trimmed, "#"):
			return lines
		}
		body := strings.TrimPrefix(trimmed, "#")
		inner := strings.TrimLeft(body, " \t")
		blanks := body[:len(body)-len(inner)]
		lines = append(lines, line{number: number, column: len(text) - len(inner) + 1,
			indent: len(blanks) + 7*strings.Count(blanks, "\t"), text: inner})
	}
	return lines
}

// A header reads lines into a result.
type header struct {
	opts  Config
	lines []line
	name  string
	seen  map[string]string // variables, by the parameter that has them
	errs  []*schema.SourceError
}

// fail notes a problem.
func (h *header) fail(l line, column int, param, message string) {
	if len(h.errs) < maxProblems {
		h.errs = append(h.errs, &schema.SourceError{Line: l.number, Column: column, Function: h.name, Parameter: param,
			Message: message})
	}
}

// read reads the whole header.
func (h *header) read() *Result {
	r := &Result{}
	h.name = h.opts.Function
	sections := h.split()
	if h.name == "" {
		h.name = h.opts.DefaultName
	}
	at := line{number: 1}
	if len(h.lines) > 0 {
		at = h.lines[0]
	}
	switch {
	case h.name == "":
		h.fail(at, 1, "", "the tool has no name: write # tool: name at the head of the script")
	case !toolName().MatchString(h.name):
		h.fail(at, 1, "", "the name of the tool must be of letters, digits, _ and -, at most 64")
	}
	r.Name = h.name
	r.Description = paragraphs(sections[""])
	if r.Description == "" && !h.opts.DescriptionsOptional {
		h.fail(at, 1, "", "the tool has no description: write a comment at the head of the script")
	}
	r.Parameters = h.parameters(sections["args"])
	h.returns(sections["returns"], r)
	return r
}

// headings are the lines that begin a section.
var headings = map[string]string{"args": "args", "arguments": "args", "parameters": "args", "returns": "returns",
	"return": "returns", "output": "returns"}

// split sorts the lines into sections and takes the name out.
func (h *header) split() map[string][]line {
	sections := map[string][]line{}
	section := ""
	for _, l := range h.lines {
		word, rest, found := strings.Cut(l.text, ":")
		key := strings.ToLower(word)
		if found && key == "tool" && section == "" && l.indent <= 1 {
			if h.opts.Function == "" {
				h.name = strings.TrimSpace(rest)
			} else if name := strings.TrimSpace(rest); name != h.opts.Function {
				h.fail(l, l.column, "", "the header says that the tool is called something else")
			}
			continue
		}
		if next, ok := headings[key]; ok && found && strings.TrimSpace(rest) == "" && l.indent <= 1 {
			section = next
			if _, twice := sections[section]; twice {
				h.fail(l, l.column, "", "this section stands twice")
			}
			sections[section] = []line{}
			continue
		}
		if section != "" && l.text != "" && l.indent <= 1 {
			h.fail(l, l.column, "", "a line of a section must be indented")
			continue
		}
		sections[section] = append(sections[section], l)
	}
	return sections
}

// paragraphs joins lines to text.
func paragraphs(lines []line) string {
	var all []string
	var now []string
	for _, l := range append(lines, line{}) {
		if l.text != "" {
			now = append(now, l.text)
			continue
		}
		if len(now) > 0 {
			all = append(all, strings.Join(now, " "))
		}
		now = nil
	}
	return strings.Join(all, "\n\n")
}

// returns reads "json: what it is".
func (h *header) returns(lines []line, r *Result) {
	for len(lines) > 0 && lines[0].text == "" {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return
	}
	word, rest, found := strings.Cut(lines[0].text, ":")
	switch strings.TrimSpace(word) {
	case "json":
	case "text":
		r.Returns = schema.Obj("type", "string")
	case "number":
		r.Returns = schema.Obj("type", "number")
	case "boolean":
		r.Returns = schema.Obj("type", "boolean")
	case "list":
		r.Returns = schema.Obj("type", "array", "items", schema.Obj())
	default:
		found = false
	}
	if !found {
		h.fail(lines[0], lines[0].column, "", "Returns must begin with json:, text:, number:, boolean: or list:")
		return
	}
	r.Output = strings.TrimSpace(word)
	lines[0].text = strings.TrimSpace(rest)
	r.ReturnsText = paragraphs(lines)
}
