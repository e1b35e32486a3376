package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// nesting says how the value of a keyword holds schemas.
type nesting int

const (
	notSchema   nesting = iota
	oneSchema           // a schema
	schemaList          // a list of schemas
	schemaByKey         // an object whose values are schemas
)

// nestings lists the keywords that hold schemas, of all drafts. The value of items
// may also be a list, in drafts before 2020-12.
var nestings = map[string]nesting{
	"items": oneSchema, "additionalItems": oneSchema, "unevaluatedItems": oneSchema, "contains": oneSchema,
	"additionalProperties": oneSchema, "unevaluatedProperties": oneSchema, "propertyNames": oneSchema,
	"not": oneSchema, "if": oneSchema, "then": oneSchema, "else": oneSchema,
	"anyOf": schemaList, "oneOf": schemaList, "allOf": schemaList, "prefixItems": schemaList,
	"properties": schemaByKey, "patternProperties": schemaByKey, "dependentSchemas": schemaByKey,
	"$defs": schemaByKey, "definitions": schemaByKey,
}

// inPlace are the keywords whose schemas are about the same value as the schema they
// stand in, and not about a part of it.
var inPlace = []string{"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"}

// A sub is a schema within a schema.
type sub struct {
	keyword string
	name    string // of a schema that has one
	step    string // what it adds to a path, such as .properties.a or .anyOf[0]
	value   any
}

// subs returns the schemas directly within o, in order.
func subs(o *Object) []sub {
	var all []sub
	for _, k := range o.Keys() {
		mapNested(k, o.Value(k), func(s sub) any {
			all = append(all, s)
			return nil
		})
	}
	return all
}

// mapSubs copies o, with f applied to the schemas directly within it. Other
// values are cloned.
func mapSubs(o *Object, f func(sub) any) *Object {
	c := &Object{}
	for _, k := range o.Keys() {
		v, ok := mapNested(k, o.Value(k), f)
		if !ok {
			v = Clone(o.Value(k))
		}
		c.Set(k, v)
	}
	return c
}

// mapNested applies f to the schemas in the value of keyword k. It reports whether
// the value is one that holds schemas.
func mapNested(k string, value any, f func(sub) any) (any, bool) {
	kind := nestings[k]
	switch v := value.(type) {
	case *Object:
		switch kind {
		case oneSchema:
			return f(sub{k, "", "." + k, v}), true
		case schemaByKey:
			m := &Object{}
			for _, name := range v.Keys() {
				m.Set(name, f(sub{k, name, "." + k + "." + name, v.Value(name)}))
			}
			return m, true
		}
	case []any:
		if kind == schemaList || k == "items" {
			list := make([]any, len(v))
			for i := range v {
				list[i] = f(sub{k, "", "." + k + "[" + strconv.Itoa(i) + "]", v[i]})
			}
			return list, true
		}
	case bool:
		if kind == oneSchema {
			return f(sub{k, "", "." + k, v}), true
		}
	}
	return nil, false
}

// MapKeyword applies f to the schemas in the value of a keyword, and to their names
// where they have some. It reports whether the value is one that holds schemas.
func MapKeyword(keyword string, value any, f func(name string, v any) any) (any, bool) {
	return mapNested(keyword, value, func(s sub) any { return f(s.name, s.value) })
}

// typesOf returns the type names that o declares, or nil.
func typesOf(o *Object) []string {
	if t, ok := o.Value("type").(string); ok {
		return []string{t}
	}
	return names(o.Array("type"))
}

// isType reports whether o says that its values may be of the named type. A
// schema that has no type but the keywords of one counts as that type.
func isType(o *Object, name string) bool {
	if o.Has("type") {
		return slices.Contains(typesOf(o), name)
	}
	switch name {
	case "object":
		return o.Has("properties") || o.Has("additionalProperties")
	case "array":
		return o.Has("items") || o.Has("prefixItems")
	}
	return false
}

// inferType returns the type that o means without saying so, or "".
func inferType(o *Object) string {
	if o.Has("type") {
		return ""
	}
	switch {
	case o.Has("properties"), o.Has("additionalProperties"), o.Has("patternProperties"):
		return "object"
	case o.Has("items"), o.Has("prefixItems"):
		return "array"
	case o.Has("const"):
		return TypeName(o.Value("const"))
	}
	name := ""
	for i, v := range o.Array("enum") {
		t := TypeName(v)
		if i > 0 && t != name {
			return ""
		}
		name = t
	}
	return name
}

// TypeName returns the JSON Schema type of a value of a tree. A number is an integer
// if it is written as one.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case *Object:
		return "object"
	case []any:
		return "array"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	case int, int64:
		return "integer"
	}
	return "number"
}

// names returns the strings of a list, such as that of required.
func names(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// anys is the inverse of names.
func anys(list []string) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
