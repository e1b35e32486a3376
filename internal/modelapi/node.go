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

// The bounds of one list and one object. Those of vendors have far fewer elements; values in
// skipped parts are not counted.
const (
	maxElements = 10_000
	maxKeys     = 1_000
)

// A node is one value of a document that is valid JSON in UTF-8, and where it
// stands, such as choices[0].message. The zero node is an absent value.
type node struct {
	at  string
	raw json.RawMessage
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
		return node{}, errStreamed("")
	case !utf8.Valid(raw):
		return node{}, invalid("", "it is not UTF-8")
	case !json.Valid(raw):
		return node{}, invalid("", "it is not JSON")
	}
	return node{raw: raw}, nil
}

// errStreamed refuses a piece of a stream.
func errStreamed(at string) error {
	return invalid(at, "this is a piece of a stream; put the pieces together and send the whole answer")
}

// present reports whether the node is a value that is not null.
func (n node) present() bool { return len(n.raw) > 0 && n.raw[0] != 'n' }

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
	return o, n.each(func(dec *json.Decoder) error {
		if len(o.fields) == maxKeys {
			return invalid(n.at, "the object has more than %d keys", maxKeys)
		}
		token, err := dec.Token()
		key, _ := token.(string)
		if _, twice := o.fields[key]; twice {
			return invalid(n.at, "a key stands there twice")
		}
		value := node{at: dot + key}
		if len(key) > 100 { // a key that is not used, and too long to name
			value.at = n.at
		}
		if err == nil {
			err = dec.Decode(&value.raw)
		}
		o.fields[key] = value
		return err
	})
}

// list returns the elements of a list. An absent one has none.
func (n node) list() ([]node, error) {
	if !n.present() {
		return nil, nil
	}
	if !n.is('[') {
		return nil, invalid(n.at, "a list is needed here")
	}
	var all []node
	err := n.each(func(dec *json.Decoder) error {
		if len(all) == maxElements {
			return invalid(n.at, "the list has more than %d elements", maxElements)
		}
		all = append(all, node{at: fmt.Sprintf("%s[%d]", n.at, len(all))})
		return dec.Decode(&all[len(all)-1].raw)
	})
	return all, err
}

// each calls read for each element of an object or a list.
func (n node) each(read func(*json.Decoder) error) error {
	dec := json.NewDecoder(bytes.NewReader(n.raw))
	_, err := dec.Token() // the bracket
	for err == nil && dec.More() {
		err = read(dec)
	}
	if err != nil && haft.CodeOf(err) != haft.CodeInvalid { // not reached: the text is valid JSON
		return invalid(n.at, "it cannot be read")
	}
	return err
}

// only returns the only element of a list, or an absent node for none.
func (n node) only(what string) (node, error) {
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
		return "", invalid(n.at, "%s", syntaxMessage(err))
	case len(s) > most:
		return "", invalid(n.at, "the text has %d bytes, %d is the most", len(s), most)
	}
	return s, nil
}

// field returns a field, or an absent node where there is none or null.
func (o object) field(names ...string) node {
	for _, name := range names {
		if n := o.fields[name]; n.present() {
			return n
		}
	}
	return node{at: strings.TrimPrefix(o.at+"."+names[0], ".")}
}

// has reports whether there is a field that is not null.
func (o object) has(names ...string) bool { return o.field(names...).present() }

// word returns the text of a field, or "" where it is none. It is for fields that
// only sort an object.
func (o object) word(names ...string) string {
	n := o.field(names...)
	if !n.is('"') || len(n.raw) > 200 {
		return ""
	}
	s, _ := text(n.raw) // "" if it cannot be read
	return s
}

// text reads a JSON string exactly: half of a surrogate pair, which encoding/json
// would silently replace, is an error.
func text(raw []byte) (string, error) {
	v, err := jsontree.Decode(raw, jsontree.Limits{Bytes: MaxBytes})
	s, _ := v.(string) // raw begins with a quote
	return s, err
}

// syntaxMessage returns what a reader of JSON says, without where.
func syntaxMessage(err error) string {
	if s, ok := errors.AsType[*jsontree.SyntaxError](err); ok {
		return s.Message
	}
	return "it cannot be read"
}
