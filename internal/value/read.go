package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/jsontree"
	"haft/schema"
)

// Read reads the text that a tool printed as the type that is expected of it.
//
//	""       the text as it is, as a JSON string
//	text     the text without white space around it
//	number   a JSON number, or the only word with digits in the text, with signs
//	         and a unit around the number: "42 items", "took 3.5ms". "1,234" is
//	         refused, since half the world reads it as a fraction
//	boolean  true, false, yes, no, on, off, 1 or 0, in any case
//	json     the whole text, if it is one JSON value; else the content of the only
//	         fence (or the only fence marked json); else the only object or array
//	         within the text, unless something before it begins like JSON and is
//	         broken
//	list     an array, as the whole text, in the only fence, or alone on its lines;
//	         else one item for each line that is not empty, as a string. Marks of
//	         a list (-, *, •, 1., 1)) are taken off if every line has one. Commas
//	         do not separate: they are part of texts.
//
// White space around numbers, booleans and JSON does not matter. Where two values
// could be meant, none is taken. The error is a [*haft.Error] with words for the
// author of the tool, and quotes nothing of the output.
func Read(text string, typ haft.OutputType) (json.RawMessage, error) {
	if !utf8.ValidString(text) {
		return nil, wrong("the output is not valid UTF-8 text")
	}
	if len(text) > schema.MaxBytes {
		return nil, wrong("the output has %d bytes, %d is the most", len(text), schema.MaxBytes)
	}
	trimmed := strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	switch typ {
	case haft.OutputAny:
		return schema.Encode(text)
	case haft.OutputText:
		return schema.Encode(trimmed)
	case haft.OutputNumber:
		return readNumber(trimmed)
	case haft.OutputBoolean:
		return readBoolean(trimmed)
	case haft.OutputJSON:
		if err := Bound([]byte(trimmed)); err != nil {
			return nil, err
		}
		v, err := findJSON([]byte(trimmed))
		if err != nil {
			return nil, err
		}
		return schema.Encode(v)
	case haft.OutputList:
		if err := errors.Join(Bound([]byte(trimmed)), boundLines(trimmed)); err != nil {
			return nil, err
		}
		v, err := readList(trimmed)
		if err != nil {
			return nil, err
		}
		return schema.Encode(v)
	}
	return nil, wrong("there is no such output type")
}

// boundLines bounds the items of a list that has one in each line.
func boundLines(text string) error {
	if strings.Count(text, "\n") < MaxParts {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Err: ErrTooLarge,
		Message: fmt.Sprintf("the output has more than %d lines", MaxParts)}
}

// wrong says what is wrong with the output.
func wrong(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// numberWord is a word that holds one number, with signs before it and a unit behind it.
var numberWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[^\pL\pN]*?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\PN*$`)
})

// readNumber reads a number, or the only number in a text.
func readNumber(text string) (json.RawMessage, error) {
	found := ""
	for word := range strings.FieldsSeq(text) {
		if !strings.ContainsFunc(word, unicode.IsNumber) {
			continue
		}
		if found != "" {
			return nil, wrong("the output should be a number, and holds several")
		}
		found = word
	}
	if len(found) <= MaxDigits {
		if m := numberWord().FindStringSubmatch(found); m != nil {
			if v, err := decode([]byte(m[1])); err == nil {
				if n, ok := v.(json.Number); ok {
					return json.RawMessage(n), nil
				}
			}
		}
	}
	return nil, wrong("the output should be a number, or a text with one number in it")
}

// readBoolean reads a boolean.
func readBoolean(text string) (json.RawMessage, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return json.RawMessage("true"), nil
	case "false", "no", "off", "0":
		return json.RawMessage("false"), nil
	}
	return nil, wrong("the output should be true or false, and nothing else")
}

// findJSON finds the one JSON value in text.
func findJSON(text []byte) (any, error) {
	if len(text) == 0 {
		return nil, wrong("the output should be JSON, and is empty")
	}
	v, whole := decode(text)
	if whole == nil {
		return v, nil
	}
	if v, found, err := fenced(text); found || err != nil {
		return v, err
	}
	places, err := containers(text)
	if err != nil {
		return nil, err
	}
	switch len(places) {
	case 0:
		if s, ok := errors.AsType[*jsontree.SyntaxError](whole); ok {
			line, column := jsontree.Position(text, s.Offset)
			return nil, wrong("the output should be JSON: line %d, column %d: %s", line, column, s.Message)
		}
		return nil, wrong("the output should be JSON")
	case 1:
		return places[0].v, nil
	}
	return nil, wrong("the output holds several JSON values; print one, or put the result into a ```json fence")
}

// fence is a Markdown fence that begins and ends on lines of its own, with the
// word behind its beginning.
var fence = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?ms)^[ \t]*```[ \t]*([A-Za-z0-9_+-]*)[ \t]*\r?\n(.*?)^[ \t]*```[ \t]*\r?$")
})

// fenced reads the only fence, or the only one marked json.
func fenced(text []byte) (v any, found bool, err error) {
	all := fence().FindAllSubmatch(text, 100)
	if len(all) > 1 {
		var marked [][][]byte
		for _, m := range all {
			if bytes.EqualFold(m[1], []byte("json")) {
				marked = append(marked, m)
			}
		}
		if len(marked) != 1 {
			return nil, false, wrong("the output holds several fences; mark one of them as ```json")
		}
		all = marked
	}
	if len(all) == 0 || len(all[0][1]) > 0 && !bytes.EqualFold(all[0][1], []byte("json")) {
		return nil, false, nil
	}
	v, err = decode(all[0][2])
	if err != nil {
		return nil, false, wrong("the fence in the output should hold JSON: %s", haft.MessageOf(err))
	}
	return v, true, nil
}

// A place is where an object or array stands in a text.
type place struct {
	v          any
	start, end int
}

// containers finds the objects and arrays of text that are not within others. It
// stops after the second.
func containers(text []byte) ([]place, error) {
	var found []place
	// Text that looks like JSON for long and then is not could be read again
	// and again.
	budget := int64(4*len(text) + 1<<20)
	for i := 0; i < len(text) && len(found) < 2; i++ {
		if text[i] != '{' && text[i] != '[' {
			continue
		}
		v, n, err := jsontree.DecodePrefix(text[i:], limits())
		if err == nil {
			found = append(found, place{v, i, i + n})
			i += n - 1
			continue
		}
		if s, ok := errors.AsType[*jsontree.SyntaxError](err); ok {
			if meantAsJSON(text[i:]) {
				line, column := jsontree.Position(text, int64(i)+s.Offset)
				return nil, wrong("the output holds broken JSON: line %d, column %d: %s", line, column, s.Message)
			}
			budget -= s.Offset
		}
		if budget--; budget < 0 {
			return nil, wrong("the output holds too much that begins like JSON and is not")
		}
	}
	return found, nil
}

// meantAsJSON reports whether text, which begins with a bracket and is not JSON,
// was meant as JSON: then a value within it is not what the tool wanted to say.
// "[INFO]", "[2026-01-31]" and "{name}" are not.
func meantAsJSON(text []byte) bool { return begun().Match(text[:min(len(text), 200)]) }

// begun is how objects and arrays begin, but words in brackets do not.
var begun = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:\{\s*"|\[\s*["\[{]|\[\s*(?:-?[0-9][-+.eE0-9]*|true|false|null)\s*,)`)
})

// mark is what stands before the items of a list.
var mark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[-*•]|\d{1,9}[.)])[ \t]+`) })

// readList reads a list.
func readList(text string) ([]any, error) {
	if text == "" {
		return []any{}, nil
	}
	if v, err := decode([]byte(text)); err == nil {
		if list, ok := v.([]any); ok {
			return list, nil
		}
		if _, ok := v.(*schema.Object); ok {
			return nil, wrong("the output should be a list, and is an object")
		}
	}
	if v, found, err := fenced([]byte(text)); err != nil {
		return nil, err
	} else if list, ok := v.([]any); found && ok {
		return list, nil
	} else if found {
		return nil, wrong("the fence in the output should hold a list")
	}
	if list, ok := arrayOnItsLines([]byte(text)); ok {
		return list, nil
	}
	var items []any
	marked := true
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			items = append(items, line)
			marked = marked && mark().MatchString(line)
		}
	}
	if marked {
		for i, item := range items {
			items[i] = mark().ReplaceAllString(item.(string), "")
		}
	}
	return items, nil
}

// arrayOnItsLines finds the only array of text that shares no line with anything
// else.
func arrayOnItsLines(text []byte) ([]any, bool) {
	places, err := containers(text)
	if err != nil || len(places) != 1 {
		return nil, false
	}
	list, ok := places[0].v.([]any)
	before, after := text[:places[0].start], text[places[0].end:]
	before = before[bytes.LastIndexByte(before, '\n')+1:]
	after, _, _ = bytes.Cut(after, []byte("\n"))
	return list, ok && len(bytes.TrimSpace(before)) == 0 && len(bytes.TrimSpace(after)) == 0
}
