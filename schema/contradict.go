package schema

import (
	"slices"
	"strings"
)

// Contradict reports whether no value has a type of both schemas. A schema that does not name its
// types contradicts nothing, and null does not count.
func Contradict(a, b *Object) bool {
	left, right := namedTypes(a, 0), namedTypes(b, 0)
	return len(left) > 0 && len(right) > 0 &&
		!slices.ContainsFunc(left, func(t string) bool { return slices.Contains(right, t) })
}

// maxAlternatives is how deep alternatives of types are looked at.
const maxAlternatives = 8

// namedTypes lists the types that a schema names. It is empty if one of its alternatives names none.
func namedTypes(o *Object, depth int) []string {
	if o == nil || depth > maxAlternatives {
		return nil
	}
	var types []string
	for _, t := range append(o.Array("type"), o.Value("type")) {
		if name, ok := t.(string); ok && name != "null" {
			types = append(types, name)
		}
	}
	for _, a := range slices.Concat(o.Array("anyOf"), o.Array("oneOf")) {
		alternative, _ := a.(*Object)
		inner := namedTypes(alternative, depth+1)
		if len(inner) == 0 && (alternative == nil || alternative.String("type") != "null") {
			return nil
		}
		types = append(types, inner...)
	}
	return types
}

// WordTypes returns a schema of the types that a docstring names in words, such as "int or None",
// or nil if it does not know one of the words.
func WordTypes(text string) *Object {
	text = strings.ToLower(text)
	if in, ok := strings.CutPrefix(text, "optional["); ok {
		text = strings.TrimSuffix(in, "]")
	}
	text = strings.NewReplacer(" or ", "|", ",", "|").Replace(withoutBrackets(text))
	var types []any
	for word := range strings.SplitSeq(text, "|") {
		switch strings.Trim(word, " `.*") {
		case "optional", "required", "none", "null", "":
		case "int", "integer":
			types = append(types, "integer")
		case "float", "double":
			types = append(types, "number")
		case "number":
			types = append(types, "number", "integer")
		case "str", "string", "text":
			types = append(types, "string")
		case "bool", "boolean":
			types = append(types, "boolean")
		case "list", "array", "tuple", "set":
			types = append(types, "array")
		case "dict", "dictionary", "object":
			types = append(types, "object")
		default:
			return nil
		}
	}
	if len(types) == 0 {
		return nil
	}
	return Obj("type", types)
}

// withoutBrackets returns a text without what stands in square brackets.
func withoutBrackets(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth = max(depth-1, 0)
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}
