package schema

import (
	"encoding/json"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"haft/internal/jsontree"
)

// typeSet is a set of types of JSON values. Whole numbers and others are kept
// apart: integer is the first, number is both.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeWhole
	typeFraction
	typeString
	typeArray
	typeObject

	typeAny typeSet = 1<<iota - 1
)

// typeOf returns the type of a value, in our form or in that of the library.
func typeOf(v any) typeSet {
	switch v := v.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBoolean
	case json.Number:
		if _, ok := whole(v); ok {
			return typeWhole
		}
		return typeFraction
	case int, int64:
		return typeWhole
	case float64:
		return typeFraction
	case string:
		return typeString
	case []any:
		return typeArray
	case *Object, map[string]any:
		return typeObject
	}
	return 0
}

// typeSets are the sets of the type names of JSON Schema.
var typeSets = map[string]typeSet{"null": typeNull, "boolean": typeBoolean, "integer": typeWhole,
	"number": typeWhole | typeFraction, "string": typeString, "array": typeArray, "object": typeObject}

// typeSetOf turns a set of the library into ours.
func typeSetOf(t jsonschema.Types) typeSet {
	var set typeSet
	for _, name := range t.ToStrings() {
		set |= typeSets[name]
	}
	return set
}

// declare finds the types that s and what it is made of accept.
func (c *Compiled) declare(s *jsonschema.Schema) typeSet {
	f := c.facts[s]
	if f.declared {
		return f.types
	}
	set := typeAny
	if s.Bool != nil && !*s.Bool {
		set = 0
	}
	if s.Types != nil && !s.Types.IsEmpty() {
		set &= typeSetOf(*s.Types)
	}
	if s.Const != nil {
		set &= typeOf(*s.Const)
	}
	if s.Enum != nil {
		var some typeSet
		for _, v := range s.Enum.Values {
			some |= typeOf(v)
		}
		set &= some
	}
	if s.Ref != nil {
		set &= c.declare(s.Ref)
	}
	for _, sub := range s.AllOf {
		set &= c.declare(sub)
	}
	for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(union) == 0 {
			continue
		}
		var some typeSet
		for _, sub := range union {
			some |= c.declare(sub)
		}
		set &= some
	}
	f.types, f.declared = set, true
	return set
}

// whole returns the digits of n if it is a whole number: 5.0 and 5e0 are 5.
func whole(n json.Number) (json.Number, bool) {
	if !strings.ContainsAny(string(n), ".eE") {
		if n == "-0" {
			return "0", true
		}
		return n, true
	}
	if jsontree.CheckNumber(string(n)) != nil {
		return n, false
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok || !r.IsInt() {
		return n, false
	}
	return json.Number(r.Num().String()), true
}

// coerce converts v to the one type that is declared, if nothing is lost:
//
//	declared            given                      becomes
//	integer             5.0, 5e0                   5
//	integer             "5"                        5
//	number              "2.50"                     2.50, digit for digit
//	boolean             "true", "false"            true, false
//	array, object       their JSON text            the array or object
//	any of these|null   "null"                     null
//
// A value that a declared type accepts is never touched: "1.10" and "null" stay
// strings where a string may stand. If several types remain, as in integer or
// boolean, nothing is guessed. A string must be exactly the JSON text: "05",
// " 5 ", "0x5", "+5", "True" and "1e400" are left for Check to refuse. Nothing
// becomes a string, since 1.10 and "1.10" differ in what they say.
func coerce(declared typeSet, v any, maxDepth int) any {
	if declared == typeAny || declared == 0 {
		return v
	}
	if declared&typeOf(v) != 0 {
		if n, ok := v.(json.Number); ok && declared&typeFraction == 0 {
			n, _ = whole(n)
			return n
		}
		return v
	}
	s, ok := v.(string)
	if !ok {
		return v
	}
	if s == "null" && declared&typeNull != 0 {
		return nil
	}
	switch declared &^ typeNull {
	case typeWhole, typeFraction, typeWhole | typeFraction:
		return coerceNumber(declared, s)
	case typeBoolean:
		if s == "true" || s == "false" {
			return s == "true"
		}
	case typeArray, typeObject:
		return coerceContainer(declared, s, maxDepth)
	}
	return s
}

// coerceNumber reads s as a number, or returns it.
func coerceNumber(declared typeSet, s string) any {
	if !jsontree.IsNumber(s) {
		return s
	}
	n := json.Number(s)
	if declared&typeOf(n) == 0 {
		return s
	}
	if declared&typeFraction == 0 {
		n, _ = whole(n)
	}
	return n
}

// coerceContainer reads s as an array or object, or returns it.
func coerceContainer(declared typeSet, s string, maxDepth int) any {
	text := strings.TrimSpace(s)
	v, n, err := jsontree.DecodePrefix([]byte(text), jsontree.Limits{Bytes: MaxBytes, Depth: maxDepth})
	if err != nil || n != len(text) || declared&typeOf(v) == 0 || v == nil {
		return s
	}
	return v
}
