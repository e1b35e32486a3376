package jsontree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// An Object is a JSON object that remembers the order of its keys. The zero
// value is an empty object.
type Object struct {
	keys   []string
	values map[string]any
}

// New makes an Object of alternating keys and values. It panics if a key is not
// a string: that is a mistake of the programmer.
func New(pairs ...any) *Object {
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
func (o *Object) MarshalJSON() ([]byte, error) { return Encode(o) }

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

// All yields v and every value within it, parents before their children, with the
// path of keys and indexes to each. The path is valid until the next value.
func All(v any) iter.Seq2[[]string, any] {
	return func(yield func([]string, any) bool) { yieldAll(nil, v, yield) }
}

// yieldAll reports whether to go on.
func yieldAll(at []string, v any, yield func([]string, any) bool) bool {
	if !yield(at, v) {
		return false
	}
	switch v := v.(type) {
	case *Object:
		for _, k := range v.keys {
			if !yieldAll(append(at, k), v.values[k], yield) {
				return false
			}
		}
	case []any:
		for i := range v {
			if !yieldAll(append(at, strconv.Itoa(i)), v[i], yield) {
				return false
			}
		}
	}
	return true
}

// At returns the value that a path of keys and indexes leads to.
func At(v any, path []string) (any, bool) {
	for _, step := range path {
		switch node := v.(type) {
		case *Object:
			if !node.Has(step) {
				return nil, false
			}
			v = node.values[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) || step != strconv.Itoa(i) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// Set puts a value where a path of keys and indexes leads, in place of the one that is there. It
// reports whether there is one.
func Set(v any, path []string, value any) bool {
	if _, ok := At(v, path); !ok || len(path) == 0 {
		return false
	}
	last := len(path) - 1
	switch parent, _ := At(v, path[:last]); node := parent.(type) {
	case *Object:
		node.Set(path[last], value)
	case []any:
		i, _ := strconv.Atoi(path[last]) // At has read it
		node[i] = value
	}
	return true
}

// Plain turns a tree into maps, slices, int64 and float64. A whole number beyond 64
// bits becomes a float64, as in most languages, and one beyond its range an infinity.
func Plain(v any) any {
	switch v := v.(type) {
	case *Object:
		m := make(map[string]any, v.Len())
		for _, k := range v.keys {
			m[k] = Plain(v.values[k])
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = Plain(v[i])
		}
		return list
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(v.String(), 64) // out of range it is an infinity
		return f
	}
	return v
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
