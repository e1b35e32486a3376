package jsontree

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDigits is the longest number that is read, in characters. It is CPython's
// own bound on reading an int.
const MaxDigits = 4300

// Limits bound what is read.
type Limits struct {
	Bytes, Depth int
	// Values is how many values there may be: numbers, texts, literals, lists and objects.
	// Each of them costs some hundred bytes, and may have two of text. 0 means any number.
	Values int
	// AnyNumber accepts numbers that [CheckNumber] refuses.
	AnyNumber bool
}

// A SyntaxError says where a text stops being JSON that we accept.
type SyntaxError struct {
	Offset  int64 // in bytes, from 0
	Message string
}

// Error names the place and the reason, never the text.
func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message) }

// Decode reads text, which is one JSON value; see [DecodePrefix].
func Decode(text []byte, most Limits) (any, error) {
	v, n, err := DecodePrefix(text, most)
	if err != nil {
		return nil, err
	}
	r := textReader{text: text, pos: n}
	if r.space(); r.pos < len(text) {
		return nil, r.fail(r.pos, "expected the end: there is something after the value")
	}
	return v, nil
}

// DecodePrefix reads one JSON value at the start of text, and returns how many bytes it
// has. Objects become [*Object], arrays []any and numbers [json.Number]. It refuses, with a
// [*SyntaxError] that says what was expected where, what two readers would understand
// differently: duplicate keys, invalid UTF-8, half of a surrogate pair, and numbers that
// are no finite float64.
func DecodePrefix(text []byte, most Limits) (v any, n int, err error) {
	if len(text) > most.Bytes {
		return nil, 0,
			&SyntaxError{Message: fmt.Sprintf("the document has %d bytes, %d is the most", len(text), most.Bytes)}
	}
	r := textReader{text: text, most: most}
	r.space()
	v, err = r.value(0)
	if err != nil {
		return nil, 0, err
	}
	return v, r.pos, nil
}

// IsNumber reports whether s is exactly the text of a JSON number that [CheckNumber] accepts.
func IsNumber(s string) bool {
	r := textReader{text: []byte(s)}
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		return false
	}
	_, err := r.number()
	return err == nil && r.pos == len(s)
}

// Position turns an offset into text into a line and a column, both from 1. The
// column counts characters.
func Position(text []byte, offset int64) (line, column int) {
	before := text[:min(max(offset, 0), int64(len(text)))]
	line, start := 1, 0
	for i, c := range before {
		if c == '\n' {
			line, start = line+1, i+1
		}
	}
	return line, utf8.RuneCount(before[start:]) + 1
}

// CheckNumber reports why the text of a JSON number is not one that every reader
// understands alike: it is longer than [MaxDigits], or no finite float64, or so
// small that it would read as zero. It also keeps the exponent small enough for
// exact arithmetic.
func CheckNumber(n string) error {
	if len(n) > MaxDigits {
		return fmt.Errorf("a number has %d characters, %d is the most", len(n), MaxDigits)
	}
	if !strings.ContainsAny(n, ".eE") {
		return nil // whole numbers are exact, however large
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return fmt.Errorf("a number is too large")
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(n), "e")
		if strings.ContainsAny(mantissa, "123456789") {
			return fmt.Errorf("a number is too close to zero")
		}
		if len(n) > len(mantissa)+5 {
			return fmt.Errorf("a number has too large an exponent")
		}
	}
	return nil
}

// textReader is a strict reader of JSON that knows where it is.
type textReader struct {
	text   []byte
	pos    int
	most   Limits
	values int // that were read
}

// fail says what is wrong at offset.
func (r *textReader) fail(offset int, format string, args ...any) error {
	return &SyntaxError{Offset: int64(offset), Message: fmt.Sprintf(format, args...)}
}

// space skips white space.
func (r *textReader) space() {
	for r.pos < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.pos]) >= 0 {
		r.pos++
	}
}

// peek returns the next byte, or 0 at the end.
func (r *textReader) peek() byte {
	if r.pos < len(r.text) {
		return r.text[r.pos]
	}
	return 0
}

// value reads the value that starts here.
func (r *textReader) value(depth int) (any, error) {
	if depth > r.most.Depth {
		return nil, r.fail(r.pos, "it is nested deeper than %d", r.most.Depth)
	}
	if r.values++; r.most.Values > 0 && r.values > r.most.Values {
		return nil, r.fail(r.pos, "it has more than %d values in all", r.most.Values)
	}
	switch c := r.peek(); {
	case c == '{':
		o := &Object{}
		return o, r.elements('}', "a key", func() error { return r.member(o, depth) })
	case c == '[':
		list := []any{}
		err := r.elements(']', "a value", func() error {
			v, err := r.value(depth + 1)
			list = append(list, v)
			return err
		})
		return list, err
	case c == '"':
		return r.string()
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	for _, w := range words {
		if strings.HasPrefix(string(r.text[r.pos:min(len(r.text), r.pos+len(w.text))]), w.text) {
			if w.hint != "" {
				return nil, r.fail(r.pos, "%s", w.hint)
			}
			r.pos += len(w.text)
			return w.value, nil
		}
	}
	return nil, r.expected("a value")
}

// words are the literals of JSON, and those of other languages that models write
// instead.
var words = []struct {
	text  string
	value any
	hint  string
}{
	{"true", true, ""},
	{"false", false, ""},
	{"null", nil, ""},
	{"True", nil, "expected true, written in lower case"},
	{"False", nil, "expected false, written in lower case"},
	{"None", nil, "expected null, which JSON has for None"},
	{"undefined", nil, "expected null, which JSON has for undefined"},
	{"NaN", nil, "NaN is not a JSON number"},
	{"Infinity", nil, "Infinity is not a JSON number"},
	{"'", nil, "expected a double quote: JSON has no single quotes"},
	{"//", nil, "expected a value: JSON has no comments"},
	{"/*", nil, "expected a value: JSON has no comments"},
}

// expected says what should have been here.
func (r *textReader) expected(what string) error {
	if r.pos >= len(r.text) {
		return r.fail(r.pos, "expected %s, but the text ends", what)
	}
	return r.fail(r.pos, "expected %s", what)
}

// elements reads the elements of an object or an array up to its closing bracket. what
// names one of them.
func (r *textReader) elements(closing byte, what string, element func() error) error {
	r.pos++
	r.space()
	if r.peek() == closing {
		r.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		r.space()
		switch r.peek() {
		case ',':
			r.pos++
			r.space()
			if r.peek() == closing {
				return r.fail(r.pos, "expected %s: no comma may stand before %c", what, closing)
			}
		case closing:
			r.pos++
			return nil
		default:
			return r.expected("a comma or " + string(closing))
		}
	}
}

// member reads one key and its value.
func (r *textReader) member(o *Object, depth int) error {
	at := r.pos
	if r.peek() != '"' {
		return r.expected("a key in double quotes")
	}
	key, err := r.string()
	if err != nil {
		return err
	}
	if o.Has(key) {
		return r.fail(at, "a key stands twice in one object")
	}
	r.space()
	if r.peek() != ':' {
		return r.expected("a colon after the key")
	}
	r.pos++
	r.space()
	v, err := r.value(depth + 1)
	if err != nil {
		return err
	}
	o.Set(key, v)
	return nil
}

// number reads a number.
func (r *textReader) number() (json.Number, error) {
	start := r.pos
	digits := func() bool {
		from := r.pos
		for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
			r.pos++
		}
		return r.pos > from
	}
	if r.peek() == '-' {
		r.pos++
	}
	zero := r.peek() == '0'
	first := r.pos
	if !digits() {
		return "", r.expected("a digit")
	}
	if zero && r.pos > first+1 {
		return "", r.fail(first, "a number must not start with 0")
	}
	if r.peek() == '.' {
		r.pos++
		if !digits() {
			return "", r.expected("a digit after the point")
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		if !digits() {
			return "", r.expected("a digit of the exponent")
		}
	}
	n := string(r.text[start:r.pos])
	if err := CheckNumber(n); err != nil && !r.most.AnyNumber {
		return "", r.fail(start, "%s", err)
	}
	return json.Number(n), nil
}

// string reads a string.
func (r *textReader) string() (string, error) {
	start := r.pos
	r.pos++
	from := r.pos
	var b []byte // what came before from, if anything had to be unescaped
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; {
		case c == '"':
			s := string(append(b, r.text[from:r.pos]...))
			r.pos++
			return s, nil
		case c == '\\':
			b = append(b, r.text[from:r.pos]...)
			ch, err := r.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, ch)
			from = r.pos
		case c == '\n' || c == '\r':
			return "", r.fail(r.pos, `a line break within a string must be written as \n`)
		case c < ' ':
			return "", r.fail(r.pos, `a control character within a string must be written as \u00XX`)
		case c < utf8.RuneSelf:
			r.pos++
		default:
			ch, size := utf8.DecodeRune(r.text[r.pos:])
			if ch == utf8.RuneError && size == 1 {
				return "", r.fail(r.pos, "a string is not valid UTF-8")
			}
			r.pos += size
		}
	}
	return "", r.fail(start, "expected a closing double quote: a string that begins here does not end")
}

// escapes are the escapes of one letter.
var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape sequence.
func (r *textReader) escape() (rune, error) {
	start := r.pos
	r.pos++
	c := r.peek()
	r.pos++
	if ch, ok := escapes[c]; ok {
		return ch, nil
	}
	if c != 'u' {
		return 0, r.fail(start, `expected one of "\/bfnrtu after a backslash`)
	}
	ch, ok := r.hex()
	if !ok {
		return 0, r.fail(start, `expected four hexadecimal digits after \u`)
	}
	if !utf16.IsSurrogate(ch) {
		return ch, nil
	}
	if r.peek() == '\\' && r.pos+1 < len(r.text) && r.text[r.pos+1] == 'u' {
		r.pos += 2
		if low, ok := r.hex(); ok {
			if pair := utf16.DecodeRune(ch, low); pair != utf8.RuneError {
				return pair, nil
			}
		}
	}
	return 0, r.fail(start, "half of a surrogate pair is not a character")
}

// hex reads four hexadecimal digits.
func (r *textReader) hex() (rune, bool) {
	if r.pos+4 > len(r.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(r.text[r.pos:r.pos+4]), 16, 32)
	if err != nil || strings.ContainsAny(string(r.text[r.pos:r.pos+4]), "+-_") {
		return 0, false
	}
	r.pos += 4
	return rune(n), true
}
