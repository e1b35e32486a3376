package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"haft/internal/jsontree"
)

// maxEncodings is how often arguments may be a JSON string within a string.
const maxEncodings = 3

// fence is how Markdown marks the beginning and the end of code.
var fence = []byte("```")

// ReadArguments reads the arguments of a call as models write them:
//
//   - a JSON object;
//   - a JSON string that holds one, at most three times over;
//   - one of these in a Markdown fence (``` or ```json). Text around the fence is
//     passed over if there is exactly one fence;
//   - nothing, white space or null, which mean no arguments.
//
// A byte order mark is passed over. Nothing is repaired: what is broken is a
// [*haft.Error] that says where and what was expected there, and quotes nothing.
// Duplicate keys, nesting deeper than [MaxDepth], more than [MaxBytes] or
// [MaxValues], and numbers that [jsontree.CheckNumber] refuses are errors.
func ReadArguments(text []byte) (*Object, error) {
	if len(text) > MaxBytes {
		return nil, invalid("the arguments have %d bytes, %d is the most", len(text), MaxBytes)
	}
	inside := ""
	for range maxEncodings + 1 {
		v, at, err := readArguments(text)
		if err != nil {
			return nil, argumentsError(text, inside, err)
		}
		switch v := v.(type) {
		case nil:
			return &Object{}, nil
		case *Object:
			return v, nil
		case string:
			text = []byte(v)
			inside = " within the string that holds them"
		default:
			kind := article(strings.Replace(TypeName(v), "integer", "number", 1))
			return nil, argumentsError(text, inside,
				&SyntaxError{Offset: int64(at), Message: "expected an object, this is " + kind})
		}
	}
	return nil, invalid("the arguments are a string within a string more than %d times over; send an object",
		maxEncodings)
}

// readArguments reads the one value in text, and says where it begins.
func readArguments(text []byte) (v any, at int, err error) {
	start := 0
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		start = len("\ufeff")
	}
	start = skipSpace(text, start)
	if start == len(text) {
		return nil, start, nil
	}
	open := bytes.Index(text, fence)
	if c := text[start]; c == '{' || c == '"' || c == '[' || open < 0 {
		v, end, err := decodeAt(text, start)
		if err != nil {
			return nil, 0, err
		}
		if end != len(text) {
			return nil, 0, &SyntaxError{Offset: int64(end),
				Message: "expected the end: there is something after the value"}
		}
		return v, start, nil
	}
	return readFenced(text, open)
}

// readFenced reads the value within the only fence of text, which begins at open.
// The value is read as JSON and not searched for its end: fences may stand within
// its strings.
func readFenced(text []byte, open int) (any, int, error) {
	start := open + len(fence)
	if word := text[start:]; len(word) >= 4 && bytes.EqualFold(word[:4], []byte("json")) {
		start += 4
	}
	start = skipSpace(text, start)
	end := start
	var v any
	if !bytes.HasPrefix(text[start:], fence) {
		var err error
		if v, end, err = decodeAt(text, start); err != nil {
			return nil, 0, err
		}
	}
	if !bytes.HasPrefix(text[end:], fence) {
		return nil, 0, &SyntaxError{Offset: int64(end), Message: "expected ``` to close the fence"}
	}
	end += len(fence)
	if more := bytes.Index(text[end:], fence); more >= 0 {
		return nil, 0, &SyntaxError{Offset: int64(end + more),
			Message: "expected no second fence: nobody can know which one holds the arguments"}
	}
	return v, start, nil
}

// decodeAt reads the value at start and returns where what follows it begins,
// white space passed over.
func decodeAt(text []byte, start int) (any, int, error) {
	v, n, err := jsontree.DecodePrefix(text[start:],
		jsontree.Limits{Bytes: MaxBytes, Depth: MaxDepth, Values: MaxValues})
	if err != nil {
		if s, ok := errors.AsType[*SyntaxError](err); ok {
			s.Offset += int64(start)
		}
		return nil, 0, err
	}
	return v, skipSpace(text, start+n), nil
}

// skipSpace returns where white space that begins at i ends.
func skipSpace(text []byte, i int) int {
	return len(text) - len(bytes.TrimLeft(text[i:], " \t\r\n"))
}

// argumentsError says where arguments are broken.
func argumentsError(text []byte, inside string, err error) error {
	s, ok := errors.AsType[*SyntaxError](err)
	if !ok {
		return fmt.Errorf("read arguments: %w", err)
	}
	line, column := jsontree.Position(text, s.Offset)
	if !utf8.Valid(text) {
		s = &SyntaxError{Offset: s.Offset, Message: s.Message + "; the text is not valid UTF-8"}
	}
	e := invalid("the arguments are not a JSON object:%s line %d, column %d (byte %d): %s", inside, line, column,
		s.Offset, s.Message)
	e.Err = s
	return e
}

// ArgumentsObject returns arguments that came in another form than an object, such as the text of one
// as models write it, as an object. An object is returned as it is, and nil for what cannot be read.
func ArgumentsObject(text []byte) []byte {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] == '{' {
		return text
	}
	tree, err := ReadArguments(text)
	if err != nil {
		return nil
	}
	object, err := Encode(tree)
	if err != nil {
		return nil
	}
	return object
}
