package modelapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/jsontree"
)

// The bounds of one list and one object. Those of vendors have far fewer; the
// texts and numbers within what is passed over are not counted.
const (
	maxElements = 10_000
	maxKeys     = 1_000
)

// A node is one value of a document that is valid JSON in UTF-8, and where it
// stands, such as choices[0].message. It is a part of the text, not a copy. The
// zero node is an absent value.
type node struct {
	at  string
	raw []byte
}

// An object is the fields of a node. Those that are null are absent.
type object struct {
	at     string
	fields map[string]node
}

// invalid says what is wrong at a place.
func invalid(at, format string, args ...any) error {
	if at == "" {
		at = "the answer of the model"
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: at + ": " + fmt.Sprintf(format, args...)}
}

// read checks that raw can be taken apart, and returns it as a node.
func read(raw []byte) (node, error) {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	switch {
	case len(raw) > MaxBytes:
		return node{}, invalid("", "it has %d bytes, %d is the most", len(raw), MaxBytes)
	case len(raw) == 0:
		return node{}, invalid("", "it is empty")
	case bytes.HasPrefix(raw, []byte("data:")) || bytes.HasPrefix(raw, []byte("event:")):
		return node{}, streamed("")
	case !utf8.Valid(raw):
		return node{}, invalid("", "it is not UTF-8")
	case !json.Valid(raw):
		return node{}, invalid("", "it is not JSON")
	}
	return node{raw: raw}, nil
}

// streamed refuses a piece of a stream.
func streamed(at string) error {
	return invalid(at, "this is a piece of a stream; put the pieces together and send the whole answer")
}

// there reports whether the node is a value that is not null.
func (n node) there() bool { return len(n.raw) > 0 && n.raw[0] != 'n' }

// is reports whether the node begins like an object, a list or a string: {, [ or ".
func (n node) is(c byte) bool { return len(n.raw) > 0 && n.raw[0] == c }

// object returns the fields of an object. A key that stands there twice is
// refused, because another reader may take the other one.
func (n node) object() (object, error) {
	o := object{at: n.at, fields: map[string]node{}}
	if !n.is('{') {
		return o, invalid(n.at, "an object is needed here")
	}
	dot := n.at
	if dot != "" {
		dot += "."
	}
	for i := space(n.raw, 1); n.raw[i] != '}'; {
		if len(o.fields) == maxKeys {
			return o, invalid(n.at, "the object has more than %d keys", maxKeys)
		}
		end := valueEnd(n.raw, i)
		key, err := text(n.raw[i:end])
		if err != nil {
			return o, invalid(n.at, "a key is no text: %s", complaint(err))
		}
		i = space(n.raw, space(n.raw, end)+1) // the colon
		end = valueEnd(n.raw, i)
		value := node{at: dot + key, raw: n.raw[i:end]}
		if len(key) > 100 { // a key that nobody asks for, and no place to name
			value.at = n.at
		}
		if _, twice := o.fields[key]; twice {
			return o, invalid(n.at, "a key stands there twice")
		}
		o.fields[key] = value
		if i = space(n.raw, end); n.raw[i] == ',' {
			i = space(n.raw, i+1)
		}
	}
	return o, nil
}

// list returns the elements of a list. An absent one has none.
func (n node) list() ([]node, error) {
	if !n.there() {
		return nil, nil
	}
	if !n.is('[') {
		return nil, invalid(n.at, "a list is needed here")
	}
	var all []node
	for i := space(n.raw, 1); n.raw[i] != ']'; {
		if len(all) == maxElements {
			return nil, invalid(n.at, "the list has more than %d elements", maxElements)
		}
		end := valueEnd(n.raw, i)
		all = append(all, node{at: fmt.Sprintf("%s[%d]", n.at, len(all)), raw: n.raw[i:end]})
		if i = space(n.raw, end); n.raw[i] == ',' {
			i = space(n.raw, i+1)
		}
	}
	return all, nil
}

// one returns the only element of a list, or an absent node for none.
func (n node) one(what string) (node, error) {
	all, err := n.list()
	switch {
	case err != nil:
		return node{}, err
	case len(all) == 0:
		return node{}, nil
	case len(all) > 1:
		return node{}, invalid(n.at, "there are %d %s; send the one to go on with", len(all), what)
	}
	return all[0], nil
}

// text returns the text of a string of at most most bytes.
func (n node) text(most int) (string, error) {
	if !n.is('"') {
		return "", invalid(n.at, "a text is needed here")
	}
	s, err := text(n.raw)
	switch {
	case err != nil:
		return "", invalid(n.at, "%s", complaint(err))
	case len(s) > most:
		return "", invalid(n.at, "the text has %d bytes, %d is the most", len(s), most)
	}
	return s, nil
}

// field returns a field, or an absent node where there is none or null.
func (o object) field(names ...string) node {
	for _, name := range names {
		if n := o.fields[name]; n.there() {
			return n
		}
	}
	return node{at: strings.TrimPrefix(o.at+"."+names[0], ".")}
}

// has reports whether there is a field that is not null.
func (o object) has(names ...string) bool { return o.field(names...).there() }

// word returns the text of a field, or "" where it is none. It is for fields that
// only sort an object.
func (o object) word(names ...string) string {
	n := o.field(names...)
	if !n.is('"') || len(n.raw) > 200 {
		return ""
	}
	s, err := text(n.raw)
	if err != nil {
		return ""
	}
	return s
}

// text reads a JSON string exactly: half of a surrogate pair, which encoding/json
// would silently replace, is an error.
func text(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	v, _, err := jsontree.DecodePrefix(raw, jsontree.Limits{Bytes: MaxBytes})
	if err != nil {
		return "", fmt.Errorf("read a text: %w", err)
	}
	s, _ := v.(string) // raw begins with a quote
	return s, nil
}

// complaint returns what a reader of JSON says, without where.
func complaint(err error) string {
	if s, ok := errors.AsType[*jsontree.SyntaxError](err); ok {
		return s.Message
	}
	return "it cannot be read"
}

// space returns where white space that begins at i ends.
func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns where the value that begins at i ends. The text is valid JSON.
func valueEnd(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = quoteEnd(raw, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // the end of what holds a number or a word
			}
			depth--
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// quoteEnd returns where the closing quote is of the string that begins at i.
func quoteEnd(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i
}
