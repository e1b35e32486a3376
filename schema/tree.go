package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The bounds on JSON from outside.
const (
	MaxBytes = 8 << 20 // of one document
	MaxDepth = 128     // of nesting
	// MaxValues is how many values arguments have: numbers, texts, literals, lists
	// and objects. Each of them costs some hundred bytes, and may have two of text.
	MaxValues = 100_000
)

// An Object is a JSON object that remembers the order of its keys. The zero
// value is an empty object.
type Object struct {
	keys   []string
	values map[string]any
}

// Obj makes an Object of alternating keys and values. It panics if a key is not
// a string: that is a mistake of the programmer.
func Obj(pairs ...any) *Object {
	o := &Object{}
	for i := 0; i < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// Len returns the number of keys.
func (o *Object) Len() int { return len(o.keys) }

// Keys returns the keys in order. The caller must not change the slice.
func (o *Object) Keys() []string { return o.keys }

// Has reports whether key is there.
func (o *Object) Has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// Value returns the value of key, or nil.
func (o *Object) Value(key string) any { return o.values[key] }

// Object returns the value of key if it is an object, or nil.
func (o *Object) Object(key string) *Object {
	v, _ := o.values[key].(*Object)
	return v
}

// Array returns the value of key if it is an array, or nil.
func (o *Object) Array(key string) []any {
	v, _ := o.values[key].([]any)
	return v
}

// String returns the value of key if it is a string, or "".
func (o *Object) String(key string) string {
	v, _ := o.values[key].(string)
	return v
}

// Set gives key a value, at the end if it is new. It returns o.
func (o *Object) Set(key string, value any) *Object {
	if o.values == nil {
		o.values = make(map[string]any)
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
	return o
}

// Delete removes key.
func (o *Object) Delete(key string) {
	if _, ok := o.values[key]; !ok {
		return
	}
	delete(o.values, key)
	o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
}

// MarshalJSON writes the keys in order.
func (o *Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, o); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeJSON writes v without escaping <, > and &, which models read better as
// they are. It goes through trees itself: encoding/json would read again, at
// every level, what [Object.MarshalJSON] wrote.
func writeJSON(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case *Object:
		if v != nil {
			return writeObject(b, v)
		}
	case []any:
		return writeArray(b, v)
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}

func writeObject(b *bytes.Buffer, o *Object) error {
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeJSON(b, k); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := writeJSON(b, o.values[k]); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
	}
	b.WriteByte('}')
	return nil
}

// writeArray writes a list, a nil one as [].
func writeArray(b *bytes.Buffer, list []any) error {
	b.WriteByte('[')
	for i := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeJSON(b, list[i]); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

// Encode writes a tree as compact JSON.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Clone copies a tree deeply.
func Clone(v any) any {
	switch v := v.(type) {
	case *Object:
		c := &Object{}
		for _, k := range v.keys {
			c.Set(k, Clone(v.values[k]))
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = Clone(v[i])
		}
		return c
	}
	return v
}

// A SyntaxError says where a text stops being JSON that we accept.
type SyntaxError struct {
	Offset  int64 // in bytes, from 0
	Message string
}

// Error names the place and the reason, never the text.
func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message) }

// Decode reads one JSON document. Objects become [*Object], arrays []any and
// numbers [json.Number]. It refuses duplicate keys, which two readers would
// understand differently, and documents beyond [MaxBytes] or [MaxDepth], with a
// [*SyntaxError].
func Decode(text []byte) (any, error) {
	if len(text) > MaxBytes {
		return nil, &SyntaxError{Message: fmt.Sprintf("the document has %d bytes, %d is the most", len(text), MaxBytes)}
	}
	d := decoder{json.NewDecoder(bytes.NewReader(text))}
	d.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &SyntaxError{d.InputOffset(), "there is something after the end"}
	}
	return v, nil
}

// decoder builds trees from tokens.
type decoder struct{ *json.Decoder }

// value reads the next value, which is depth containers deep.
func (d decoder) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, &SyntaxError{d.InputOffset(), fmt.Sprintf("it is nested deeper than %d", MaxDepth)}
	}
	t, err := d.Token()
	if err != nil {
		return nil, d.syntax(err)
	}
	switch t {
	case json.Delim('{'):
		return d.object(depth)
	case json.Delim('['):
		return d.array(depth)
	}
	return t, nil
}

// object reads the rest of an object.
func (d decoder) object(depth int) (*Object, error) {
	o := &Object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, d.syntax(err)
		}
		key, _ := t.(string) // the decoder accepts nothing else here
		if o.Has(key) {
			return nil, &SyntaxError{d.InputOffset(), "a key stands twice in one object"}
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, d.syntax(err)
	}
	return o, nil
}

// array reads the rest of an array.
func (d decoder) array(depth int) ([]any, error) {
	a := []any{}
	for d.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, d.syntax(err)
	}
	return a, nil
}

// syntax turns an error of the decoder into ours, which quotes nothing.
func (d decoder) syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{d.InputOffset(), "it ends too early"}
	}
	return &SyntaxError{d.InputOffset(), "it is not JSON"}
}
