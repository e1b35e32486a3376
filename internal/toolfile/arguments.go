package toolfile

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"haft/schema"
)

// Arguments are arguments of a tool that are given one by one, each as NAME=VALUE. VALUE is JSON,
// or text where the tool takes text.
type Arguments []string

// AddTo adds the arguments to those of a JSON document.
func (a Arguments) AddTo(text []byte) ([]byte, error) {
	args, err := schema.ReadArguments(text)
	if err != nil {
		return nil, err
	}
	for _, pair := range a {
		name, v, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, wrong(errors.New("--arg is NAME=VALUE"))
		}
		args.Set(name, argument(v))
	}
	return schema.Encode(args)
}

// argument reads a value: JSON if it is JSON, else text.
func argument(v string) any {
	if tree, err := schema.Decode([]byte(v)); err == nil {
		return tree
	}
	return v
}

// AsDeclared makes text of each argument that reads as JSON but whose parameter takes
// text and not the type of that JSON: a postal code is not a number.
func (a Arguments) AsDeclared(args []byte, params *schema.Object) ([]byte, error) {
	if params == nil || !a.Ambiguous() {
		return args, nil
	}
	tree, err := schema.ReadArguments(args)
	if err != nil {
		return args, nil // the call says what is wrong with them
	}
	properties := params.Object("properties")
	for _, pair := range a {
		name, v, _ := strings.Cut(pair, "=")
		if properties != nil && takesText(properties.Object(name), argument(v)) {
			tree.Set(name, v)
		}
	}
	return schema.Encode(tree)
}

// Ambiguous reports whether an argument may mean text or something else.
func (a Arguments) Ambiguous() bool {
	return slices.ContainsFunc(a, func(pair string) bool {
		_, v, _ := strings.Cut(pair, "=")
		_, text := argument(v).(string)
		return !text
	})
}

// takesText reports whether a parameter declares text, and not the type of v.
func takesText(s *schema.Object, v any) bool {
	types := declaredTypes(s)
	return slices.Contains(types, "string") && !slices.ContainsFunc(typesOf(v),
		func(t string) bool { return slices.Contains(types, t) })
}

// declaredTypes lists the types that a schema names, in its alternatives too.
func declaredTypes(s *schema.Object) []string {
	if s == nil {
		return nil
	}
	var types []string
	for _, t := range append(s.Array("type"), s.Value("type")) {
		if name, ok := t.(string); ok {
			types = append(types, name)
		}
	}
	for _, alternative := range slices.Concat(s.Array("anyOf"), s.Array("oneOf")) {
		if o, ok := alternative.(*schema.Object); ok {
			types = append(types, declaredTypes(o)...)
		}
	}
	return types
}

// typesOf lists the types of JSON Schema that a value has.
func typesOf(v any) []string {
	switch v.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"boolean"}
	case json.Number:
		return []string{"number", "integer"}
	case []any:
		return []string{"array"}
	case *schema.Object:
		return []string{"object"}
	}
	return []string{"string"}
}
