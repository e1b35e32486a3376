package toolrule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCallArgs bounds the arguments of a call, as in all other packages.
const maxCallArgs = 8 << 20

// prefill are the arguments that rules set for one tool.
type prefill struct {
	args    map[string]json.RawMessage
	sources []string
}

// fill notes that a rule sets arguments.
func (s *State) fill(tool string, args map[string]json.RawMessage, source string) {
	if len(args) == 0 {
		return
	}
	p := s.prefill[tool]
	if p == nil {
		p = &prefill{args: map[string]json.RawMessage{}}
		s.prefill[tool] = p
	}
	maps.Copy(p.args, args)
	if !slices.Contains(p.sources, source) {
		p.sources = append(p.sources, source)
	}
}

// Prefill returns the arguments that rules set for a call of the tool now, and
// which rules they are, such as "InitToolRule(search)" or
// "ChildToolRule(search->fetch)". It returns nil if there are none, and for tools
// that are not allowed.
func (s *State) Prefill(tool string) (args map[string]json.RawMessage, source string) {
	p := s.prefill[tool]
	if _, ok := slices.BinarySearch(s.Allowed, tool); !ok || p == nil {
		return nil, ""
	}
	return maps.Clone(p.args), strings.Join(p.sources, ", ")
}

// Prefilled returns args with those of [State.Prefill] put over them, or args
// unchanged if there are none.
//
// The prefilled arguments are held against parameters, the tool's JSON Schema:
// each must be a property, and fit its type, enum, const, anyOf and oneOf as far
// as that can be seen without going deeper. Whether the whole fits is for the
// validation that follows. The error is a [*haft.Error] with [haft.CodeInvalid]
// and words for the one who set the rules.
func (s *State) Prefilled(tool string, args, parameters json.RawMessage) (json.RawMessage, error) {
	over, source := s.Prefill(tool)
	if len(over) == 0 {
		return args, nil
	}
	if why := unfit(tool, over, parameters); len(why) > 0 {
		return nil, wrong("Invalid prefilled tool arguments from tool rules (source=%s): %s", source,
			strings.Join(why, "; "))
	}
	merged, err := members(args)
	if err != nil {
		return nil, err
	}
	maps.Copy(merged, over)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(merged); err != nil {
		return nil, fmt.Errorf("write arguments: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// members reads an object. It refuses what two readers could read differently.
func members(args json.RawMessage) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(args)) == 0 {
		return all, nil
	}
	if len(args) > maxCallArgs {
		return nil, wrong("the arguments have %d bytes, %d is the most", len(args), maxCallArgs)
	}
	if !utf8.Valid(args) || !json.Valid(args) {
		return nil, wrong("the arguments are not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, wrong("the arguments are not an object")
	}
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if _, twice := all[key]; twice || err != nil || !ok {
			return nil, wrong("an argument is there twice")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, wrong("the arguments are not JSON")
		}
		all[key] = raw
	}
	return all, nil
}

// unfit says which prefilled arguments cannot be those of the tool.
func unfit(tool string, over map[string]json.RawMessage, parameters json.RawMessage) []string {
	var schema, properties map[string]json.RawMessage
	if len(parameters) > 0 && json.Unmarshal(parameters, &schema) != nil ||
		schema["properties"] != nil && json.Unmarshal(schema["properties"], &properties) != nil {
		return []string{fmt.Sprintf("The schema of tool '%s' cannot be read.", tool)}
	}
	var why []string
	for _, key := range slices.Sorted(maps.Keys(over)) {
		property, ok := properties[key]
		if !ok {
			why = append(why, fmt.Sprintf("Unknown argument '%s' for tool '%s'.", short(key), tool))
		} else if !accepts(property, over[key], 0) {
			why = append(why, fmt.Sprintf("Invalid value for argument '%s' of tool '%s'.", short(key), tool))
		}
	}
	return why
}

// accepts reports whether a schema accepts a value, by const, enum, anyOf, oneOf
// and type, and without looking into the value. A schema that says none of them
// accepts it. One that cannot be read accepts nothing.
func accepts(schema, value json.RawMessage, depth int) bool {
	if string(bytes.TrimSpace(schema)) == "true" {
		return true
	}
	// A struct would do, if its fields were not matched in any case.
	var s map[string]json.RawMessage
	if depth > 8 || json.Unmarshal(schema, &s) != nil || s == nil {
		return false
	}
	if c, ok := s["const"]; ok && !same(c, value) {
		return false
	}
	one := func(keyword string, fits func(json.RawMessage) bool) bool {
		raw, ok := s[keyword]
		if !ok {
			return true
		}
		var all []json.RawMessage
		return json.Unmarshal(raw, &all) == nil && slices.ContainsFunc(all, fits)
	}
	deeper := func(u json.RawMessage) bool { return accepts(u, value, depth+1) }
	if !one("enum", func(e json.RawMessage) bool { return same(e, value) }) || !one("anyOf", deeper) ||
		!one("oneOf", deeper) {
		return false
	}
	types, ok := s["type"]
	return !ok || typed(types, value)
}

// typed reports whether a value is of a type, or of one of a list of types.
func typed(types, value json.RawMessage) bool {
	var names []string
	if json.Unmarshal(types, &names) != nil {
		var one string
		if json.Unmarshal(types, &one) != nil {
			return false
		}
		names = []string{one}
	}
	return slices.ContainsFunc(names, func(name string) bool { return is(name, bytes.TrimSpace(value)) })
}

// is reports whether a value is of a type. A boolean is no number.
func is(name string, value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch first := value[0]; name {
	case "string":
		return first == '"'
	case "object":
		return first == '{'
	case "array":
		return first == '['
	case "boolean":
		return first == 't' || first == 'f'
	case "null":
		return first == 'n'
	case "number":
		return isNumber(string(value))
	case "integer":
		n, ok := number(value)
		return ok && n.IsInt()
	}
	return false
}

// number reads a number exactly. One with an exponent that would make it huge is
// not read.
func number(value []byte) (*big.Rat, bool) {
	text := string(value)
	if !isNumber(text) || len(text) > maxOutput {
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exp, "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// same reports whether two values are equal, whatever their spelling.
func same(a, b json.RawMessage) bool {
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && equal(x, y)
}

// decode reads a value with its numbers as they are written.
func decode(raw json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// equal compares decoded values. Numbers are compared by value.
func equal(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		y, ok := y.(json.Number)
		if !ok {
			return false
		}
		m, okM := number([]byte(x))
		n, okN := number([]byte(y))
		return x == y || okM && okN && m.Cmp(n) == 0
	case []any:
		y, ok := y.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := y.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	}
	switch y.(type) {
	case []any, map[string]any:
		return false
	}
	return x == y
}
