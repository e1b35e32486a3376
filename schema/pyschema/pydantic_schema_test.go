package pyschema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"haft/schema"
)

// An essence boils a schema down to what it demands, so that schemas that are
// written in different ways can be compared.
type essence struct{ root *schema.Object }

// maxUnrolled is how deep recursive types are compared.
const maxUnrolled = 4

// compared are the keywords that must be equal as they are.
var compared = []string{
	"type", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems",
}

// arguments returns the essence of the schema of a tool's parameters. null is
// left out there, as it stands for "not given".
func (e essence) arguments() map[string]any {
	out := map[string]any{"required": e.names(e.root)}
	properties := e.root.Object("properties")
	for _, k := range properties.Keys() {
		out["."+k] = withoutNull(e.of(properties.Value(k), 0))
	}
	return out
}

// withoutNull takes null out of an essence, unless nothing else is in it.
func withoutNull(s map[string]any) map[string]any {
	if all, ok := s["anyOf"].(map[string]any); ok {
		var rest []map[string]any
		for _, one := range all {
			if one := withoutNull(one.(map[string]any)); one["type"] != "null" {
				rest = append(rest, one)
			}
		}
		return join(rest)
	}
	if values, ok := s["enum"].([]string); ok && len(values) > 1 {
		return map[string]any{"enum": slices.DeleteFunc(slices.Clone(values),
			func(v string) bool { return v == "null" })}
	}
	return s
}

// names returns the required properties in order of the alphabet.
func (e essence) names(s *schema.Object) []string {
	names := []string{}
	for _, n := range s.Array("required") {
		names = append(names, fmt.Sprint(n))
	}
	slices.Sort(names)
	return names
}

// of returns the essence of a schema.
func (e essence) of(v any, depth int) map[string]any {
	out := map[string]any{}
	s, ok := v.(*schema.Object)
	if !ok || depth > maxUnrolled {
		return out
	}
	for s.Has("$ref") {
		s = e.root.Object("$defs").Object(strings.TrimPrefix(s.String("$ref"), "#/$defs/"))
	}
	if branches := append(slices.Clone(s.Array("anyOf")), s.Array("oneOf")...); len(branches) > 0 {
		return e.union(branches, depth)
	}
	if s.Has("enum") || s.Has("const") {
		values := s.Array("enum")
		if s.Has("const") {
			values = []any{s.Value("const")}
		}
		var texts []string
		for _, v := range values {
			texts = append(texts, plainText(v))
		}
		slices.Sort(texts)
		return map[string]any{"enum": slices.Compact(texts)}
	}
	for _, k := range compared {
		if s.Has(k) {
			out[k] = plainText(s.Value(k))
		}
	}
	maps.DeleteFunc(out, func(k string, v any) bool {
		return v == "0" && strings.HasPrefix(k, "min") &&
			k != "minimum"
	})
	agreeOnWords(s, out)
	if s.Has("properties") {
		out["required"] = e.names(s)
		for _, k := range s.Object("properties").Keys() {
			out["."+k] = e.of(s.Object("properties").Value(k), depth+1)
		}
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if inner := e.of(s.Value(k), depth+1); len(inner) > 0 {
			out[k] = inner
		} else if s.Value(k) == false && k != "items" {
			out[k] = "none"
		}
	}
	for i, p := range s.Array("prefixItems") {
		out[fmt.Sprint("item", i)] = e.of(p, depth+1)
	}
	return out
}

// agreeOnWords drops what the two sides say in different words: the format of
// bytes, decimals and UUIDs, and the length of URLs.
func agreeOnWords(s *schema.Object, out map[string]any) {
	switch {
	case s.String("format") == "byte" || s.String("format") == "binary":
		out["format"] = "bytes"
	case strings.HasPrefix(s.String("format"), "uuid"):
		out["format"] = "uuid"
	case s.String("format") == "decimal":
		delete(out, "pattern")
		delete(out, "format")
	case s.String("format") == "uri":
		delete(out, "maxLength")
		delete(out, "minLength")
	}
}

// union returns the essence of alternatives.
func (e essence) union(branches []any, depth int) map[string]any {
	var all []map[string]any
	for _, b := range branches {
		all = append(all, e.of(b, depth))
	}
	return join(all)
}

// join makes one essence of alternatives, those within alternatives too, each once
// and in no order.
func join(branches []map[string]any) map[string]any {
	all := map[string]any{}
	for _, one := range branches {
		if inner, ok := one["anyOf"].(map[string]any); ok {
			maps.Copy(all, inner)
			continue
		}
		if len(one) == 0 {
			return one // anything at all
		}
		key, err := json.Marshal(one)
		if err != nil {
			panic(err) // it is made of texts
		}
		all[string(key)] = one
	}
	if len(all) == 1 {
		for _, only := range all {
			return only.(map[string]any)
		}
	}
	return map[string]any{"anyOf": all}
}

// plainText returns a value as a text in which equal numbers are equal.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			return n.RatString()
		}
	case nil:
		return "null"
	}
	text, err := schema.Encode(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
