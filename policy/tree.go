package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds on values that are judged. They are those of the rest of the house.
const (
	MaxArgs   = 8 << 20  // bytes of arguments
	MaxValue  = 64 << 20 // bytes of a result
	maxLevels = 128      // of nesting
)

// object is a JSON object in the order of its text.
type object struct {
	keys   []string
	values []any
}

// readArgs reads the arguments of a call, which are an object. No arguments are
// an empty one.
func readArgs(raw json.RawMessage) (*object, error) {
	if len(raw) == 0 {
		return &object{}, nil
	}
	tree, err := readTree(raw, MaxArgs)
	if err != nil {
		return nil, err
	}
	o, ok := tree.(*object)
	if !ok {
		return nil, wrong("the arguments are not an object")
	}
	return o, nil
}

// readTree reads JSON. It refuses what two readers could read differently: a key
// that comes twice, text that is not UTF-8.
func readTree(raw json.RawMessage, most int) (any, error) {
	switch {
	case len(raw) > most:
		return nil, wrong("the value has %d bytes, %d is the most", len(raw), most)
	case !utf8.Valid(raw):
		return nil, wrong("the value is not text in UTF-8")
	case !json.Valid(raw):
		return nil, wrong("the value is not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	tree, err := readNode(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, wrong("something follows the value")
	}
	return tree, nil
}

// readNode reads one value.
func readNode(dec *json.Decoder, depth int) (any, error) {
	if depth > maxLevels {
		return nil, wrong("the value nests deeper than %d", maxLevels)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, wrong("the value is not JSON")
	}
	switch t {
	case json.Delim('['):
		all := []any{}
		for dec.More() {
			v, err := readNode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err = dec.Token()
		return all, err
	case json.Delim('{'):
		return readObject(dec, depth)
	}
	return t, nil
}

// readObject reads an object whose { is read.
func readObject(dec *json.Decoder, depth int) (any, error) {
	o := &object{}
	seen := map[string]struct{}{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, wrong("the value is not JSON")
		}
		key, ok := t.(string)
		if _, twice := seen[key]; twice || !ok {
			return nil, wrong("a key is there twice")
		}
		seen[key] = struct{}{}
		v, err := readNode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		o.keys, o.values = append(o.keys, key), append(o.values, v)
	}
	_, err := dec.Token()
	return o, err
}

// writeTree writes a tree that was read.
func writeTree(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeScalar(b, key); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeTree(b, v.values[i]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case []any:
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeTree(b, v[i]); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	return writeScalar(b, v)
}

// writeScalar writes a value without parts, and <, > and & as they are.
func writeScalar(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}

// native turns a tree into what CEL knows. Whole numbers are int where they fit
// into 64 bits; other numbers are double.
func native(v any) any {
	switch v := v.(type) {
	case *object:
		m := make(map[string]any, len(v.keys))
		for i, key := range v.keys {
			m[key] = native(v.values[i])
		}
		return m
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = native(v[i])
		}
		return all
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(v.String(), 64) // out of range gives an infinity, which compares as it should
		return f
	}
	return v
}

// A place is a pattern of JSON Pointers: "/headers/*" is every header. It means
// what it points to and everything below.
type place []string

// parsePlace reads "/a/b", or "a" for "/a".
func parsePlace(text string) (place, error) {
	if !strings.HasPrefix(text, "/") {
		if strings.ContainsAny(text, "/~") || text == "" {
			return nil, wrong("a place is the name of an argument or a JSON Pointer such as /headers/*")
		}
		return place{text}, nil
	}
	parts := strings.Split(text[1:], "/")
	for i, p := range parts {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(p); strings.Contains(rest, "~") {
			return nil, wrong("in a JSON Pointer ~ is written ~0 and / is written ~1")
		}
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

// covers reports whether the way leads to the place or below it.
func (p place) covers(way []string) bool {
	if len(way) < len(p) {
		return false
	}
	for i, part := range p {
		if part != "*" && part != way[i] {
			return false
		}
	}
	return true
}

// String writes the place as [parsePlace] reads it.
func (p place) String() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return b.String()
}

// pointer writes a way as a JSON Pointer, fit for a message: long keys are cut.
func pointer(way []string) string {
	shown := make(place, len(way))
	for i, part := range way {
		shown[i] = short(part)
	}
	return shown.String()
}
