package schema

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// knownTypes are the type names of JSON Schema.
var knownTypes = []string{"string", "number", "integer", "boolean", "null", "array", "object"}

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

// inPlaceKeywords are the keywords whose schemas are about the same value as the schema
// they stand in, and not about a part of it.
var inPlaceKeywords = []string{"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"}

// A sub is a schema within a schema.
type sub struct {
	keyword string
	step    string // what it adds to a path, such as .properties.a or .anyOf[0]
	value   any
}

// subs yields the schemas directly within o, in order.
func subs(o *Object) iter.Seq[sub] {
	return func(yield func(sub) bool) {
		for _, k := range o.Keys() {
			kind := nestings[k]
			switch v := o.Value(k).(type) {
			case *Object:
				switch kind {
				case oneSchema:
					if !yield(sub{k, "." + k, v}) {
						return
					}
				case schemaByKey:
					for _, name := range v.Keys() {
						if !yield(sub{k, "." + k + "." + name, v.Value(name)}) {
							return
						}
					}
				}
			case []any:
				if kind != schemaList && k != "items" {
					continue
				}
				for i := range v {
					if !yield(sub{k, "." + k + "[" + strconv.Itoa(i) + "]", v[i]}) {
						return
					}
				}
			case bool:
				if kind == oneSchema && !yield(sub{k, "." + k, v}) {
					return
				}
			}
		}
	}
}

// mapSubs copies o, with f applied to the schemas directly within it. Other
// values are cloned.
func mapSubs(o *Object, f func(keyword string, v any) (any, error)) (*Object, error) {
	c := &Object{}
	for _, k := range o.Keys() {
		v, err := mapValue(k, o.Value(k), f)
		if err != nil {
			return nil, err
		}
		c.Set(k, v)
	}
	return c, nil
}

// mapValue is mapSubs for the value of one keyword.
func mapValue(k string, v any, f func(keyword string, v any) (any, error)) (any, error) {
	kind := nestings[k]
	switch v := v.(type) {
	case *Object:
		switch kind {
		case oneSchema:
			return f(k, v)
		case schemaByKey:
			m := &Object{}
			for _, name := range v.Keys() {
				s, err := f(k, v.Value(name))
				if err != nil {
					return nil, err
				}
				m.Set(name, s)
			}
			return m, nil
		}
	case []any:
		if kind == schemaList || k == "items" {
			list := make([]any, len(v))
			for i := range v {
				s, err := f(k, v[i])
				if err != nil {
					return nil, err
				}
				list[i] = s
			}
			return list, nil
		}
	case bool:
		if kind == oneSchema {
			return f(k, v)
		}
	}
	return Clone(v), nil
}

// typesOf returns the type names that o declares, or nil.
func typesOf(o *Object) []string {
	switch t := o.Value("type").(type) {
	case string:
		return []string{t}
	case []any:
		var names []string
		for _, v := range t {
			if s, ok := v.(string); ok {
				names = append(names, s)
			}
		}
		return names
	}
	return nil
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
		return valueType(o.Value("const"))
	}
	name := ""
	for i, v := range o.Array("enum") {
		t := valueType(v)
		if i > 0 && t != name {
			return ""
		}
		name = t
	}
	return name
}

// valueType returns the JSON Schema type of a value of a tree.
func valueType(v any) string {
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
