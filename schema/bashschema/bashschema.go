package bashschema

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

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
// All problems are reported at once: the error joins one
// [*schema.SourceError] for every problem. Any other error is not the source's.
func Derive(ctx context.Context, source []byte, config Config) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := schema.CheckSource(source, false); err != nil {
		return nil, err
	}
	src := strings.TrimPrefix(string(source), "\ufeff")
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
	if err := schema.JoinSourceErrors(h.errs); err != nil {
		return nil, err
	}
	return r, nil
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
	// undocumented are the descriptions that are missing, where they are optional.
	undocumented []*schema.SourceError
}

// fail notes a problem.
func (h *header) fail(l line, column int, param, message string) {
	if len(h.errs) < maxProblems {
		h.errs = append(h.errs, &schema.SourceError{Line: l.number, Column: column, Function: h.name, Parameter: param,
			Message: message})
	}
}

// undescribed notes a missing description, with the line to write.
func (h *header) undescribed(l line, column int, param, message, write string) {
	e := &schema.SourceError{Line: l.number, Column: column, Function: h.name, Parameter: param, Message: message,
		Write: write}
	switch {
	case h.opts.DescriptionsOptional:
		h.undocumented = append(h.undocumented, e)
	case len(h.errs) < maxProblems:
		h.errs = append(h.errs, e)
	}
}

// read reads the whole header.
func (h *header) read() *Result {
	r := &Result{}
	h.name = h.opts.Function
	sections := h.split()
	h.name = cmp.Or(h.name, h.opts.DefaultName)
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
	if r.Description == "" {
		h.undescribed(at, 1, "", "the tool has no description: write a comment at the head of the script",
			"# What the tool does.")
	}
	if r.Parameters = h.parameters(sections["args"]); r.Parameters != nil {
		schema.NoteFiles(r.Parameters)
	}
	h.returns(sections["returns"], r)
	r.Undocumented = h.undocumented
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
	first := slices.IndexFunc(lines, func(l line) bool { return l.text != "" })
	if first < 0 {
		return
	}
	lines = lines[first:]
	word, rest, found := strings.Cut(lines[0].text, ":")
	switch word = strings.TrimSpace(word); word {
	case "json":
	case "text":
		r.Returns = schema.Obj("type", "string")
	case "number", "boolean":
		r.Returns = schema.Obj("type", word)
	case "list":
		r.Returns = schema.Obj("type", "array", "items", schema.Obj())
	default:
		found = false
	}
	if !found {
		h.fail(lines[0], lines[0].column, "", "Returns must begin with json:, text:, number:, boolean: or list:")
		return
	}
	r.Output = word
	lines[0].text = strings.TrimSpace(rest)
	r.ReturnsText = paragraphs(lines)
}
