package yamltree

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/flagvalue"
)

// unmarshaler is the type of values that read JSON themselves.
var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// into reads a node into what to points to.
func (r *reader) into(n *node, to any) { r.value(n, reflect.ValueOf(to).Elem(), "the file") }

// value reads a node into v. What is its place, for messages.
func (r *reader) value(n *node, v reflect.Value, what string) {
	if r.err != nil {
		return
	}
	t := v.Type()
	switch {
	case t == reflect.TypeFor[haft.Millis]() || t == reflect.TypeFor[time.Duration]():
		r.duration(n, v, what)
	case n.kind == aScalar && n.text == "null" && t.Kind() != reflect.Slice:
		r.leaf(n, v, what) // RawMessage takes null, others stay as they are
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		r.value(n, v.Elem(), what)
	case reflect.PointerTo(t).Implements(unmarshaler):
		r.leaf(n, v, what)
	case t.Kind() == reflect.Struct:
		r.object(n, v, what)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		r.dictionary(n, v, what)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		r.list(n, v, what)
	case t.Kind() == reflect.String && n.kind == aScalar && n.text != "null":
		v.SetString(n.text)
	case t.Kind() == reflect.Int64 && n.kind == aScalar && strings.HasPrefix(string(n.raw), `"`):
		var size flagvalue.Size
		if size.Set(n.text) != nil {
			r.fail(n, "%s is a number, or a size such as 64MiB", what)
			return
		}
		v.SetInt(int64(size))
	default:
		r.leaf(n, v, what)
	}
}

// leaf reads a node as JSON.
func (r *reader) leaf(n *node, v reflect.Value, what string) {
	err := json.Unmarshal(n.json(), v.Addr().Interface())
	if err == nil {
		return
	}
	if haft.CodeOf(err) == haft.CodeInvalid {
		r.fail(n, "%s: %s", what, haft.MessageOf(err))
		return
	}
	r.fail(n, "%s must be %s", what, typeName(v.Type()))
}

// typeName says what a type is in YAML.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2026-01-02T03:04:05Z"
	}
	return "another kind of value"
}

// duration reads 1.5s, or a number of milliseconds.
func (r *reader) duration(n *node, v reflect.Value, what string) {
	var ms haft.Millis
	if d, err := time.ParseDuration(n.text); err == nil && n.kind == aScalar {
		ms = haft.Millis(d)
	} else if json.Unmarshal(n.json(), &ms) != nil {
		r.fail(n, "%s must be a time such as 500ms, 2s or 1m", what)
	}
	if ms < 0 {
		r.fail(n, "%s must not be negative", what)
	}
	v.SetInt(int64(ms))
}

// object reads a mapping into a struct.
func (r *reader) object(n *node, v reflect.Value, what string) {
	if n.kind != aMapping {
		r.fail(n, "%s must be a mapping", what)
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Type == reflect.TypeFor[Pos]() {
			v.Field(i).Set(reflect.ValueOf(Pos{n.line, n.column}))
		}
	}
	fields := fieldsOf(v)
	for i, key := range n.keys {
		field, ok := fields[key.text]
		if !ok {
			known := make([]string, 0, len(fields))
			for name := range fields {
				known = append(known, name)
			}
			slices.Sort(known)
			r.fail(key, "%s has no field %q; it has %s", what, short(key.text), strings.Join(known, ", "))
			return
		}
		r.value(n.items[i], field, key.text)
	}
}

// fieldsOf returns the fields of a struct by their names in documents, those of embedded structs too.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, ok := f.Tag.Lookup("json")
		if !ok {
			tag = f.Tag.Get("yaml")
		}
		name, rest, _ := strings.Cut(tag, ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Type.Kind() == reflect.Struct && (f.Anonymous && name == "" || strings.Contains(rest, "inline")):
			for inner, field := range fieldsOf(v.Field(i)) {
				if _, taken := fields[inner]; !taken {
					fields[inner] = field
				}
			}
		case name != "":
			fields[name] = v.Field(i)
		}
	}
	return fields
}

// dictionary reads a mapping into a map.
func (r *reader) dictionary(n *node, v reflect.Value, what string) {
	if n.kind != aMapping {
		r.fail(n, "%s must be a mapping", what)
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.keys)))
	for i, key := range n.keys {
		item := reflect.New(v.Type().Elem()).Elem()
		r.value(n.items[i], item, key.text)
		v.SetMapIndex(reflect.ValueOf(key.text).Convert(v.Type().Key()), item)
	}
}

// list reads a list. One value stands for a list of one.
func (r *reader) list(n *node, v reflect.Value, what string) {
	items := n.items
	switch {
	case n.kind == aScalar && n.text == "null":
		return
	case n.kind != aList:
		items = []*node{n}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		r.value(item, v.Index(i), what)
	}
}

// A Pos is where a value of a document begins. A struct with a field of this type, without a tag, is given it.
type Pos struct{ Line, Column int }
