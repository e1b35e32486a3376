package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"haft/schema"
)

// arguments puts --args and --arg together.
func (f runFlags) arguments(in io.Reader) ([]byte, error) {
	var text []byte
	var err error
	switch {
	case f.args == "-":
		text, err = io.ReadAll(io.LimitReader(in, schema.MaxBytes+1))
	case strings.HasPrefix(f.args, "@"):
		text, err = readBounded(f.args[1:], schema.MaxBytes)
	default:
		text = []byte(f.args)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the arguments: %w", err))
	}
	if len(f.arg) == 0 {
		return text, nil
	}
	args, err := schema.ReadArguments(text)
	if err != nil {
		return nil, err
	}
	for _, a := range f.arg {
		name, v, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, usage(errors.New("--arg is NAME=VALUE"))
		}
		args.Set(name, argument(v))
	}
	return schema.Encode(args)
}

// argument reads the value of --arg: JSON if it is JSON, else text.
func argument(v string) any {
	if tree, err := schema.Decode([]byte(v)); err == nil {
		return tree
	}
	return v
}

// asDeclared makes text of each --arg that reads as JSON but whose parameter takes
// text and nothing of that kind: a postal code is no number.
func (f runFlags) asDeclared(args []byte, params *schema.Object) ([]byte, error) {
	if params == nil || !f.ambiguous() {
		return args, nil
	}
	tree, err := schema.ReadArguments(args)
	if err != nil {
		return args, nil // the call says what is wrong with them
	}
	properties := params.Object("properties")
	for _, a := range f.arg {
		name, v, _ := strings.Cut(a, "=")
		if properties != nil && takesText(properties.Object(name), argument(v)) {
			tree.Set(name, v)
		}
	}
	return schema.Encode(tree)
}

// ambiguous reports whether an --arg may mean text or something else.
func (f runFlags) ambiguous() bool {
	return slices.ContainsFunc(f.arg, func(a string) bool {
		_, v, _ := strings.Cut(a, "=")
		_, text := argument(v).(string)
		return !text
	})
}

// takesText reports whether a parameter declares text, and not the type of v.
func takesText(s *schema.Object, v any) bool {
	if _, is := v.(string); is {
		return false
	}
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
	for _, list := range []string{"anyOf", "oneOf"} {
		for _, alternative := range s.Array(list) {
			if o, ok := alternative.(*schema.Object); ok {
				types = append(types, declaredTypes(o)...)
			}
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
	return nil
}

// declared is asDeclared for a tool that is kept. What cannot be looked up is left
// as it is: the call says why.
func (f runFlags) declared(ctx context.Context, s *session, name string, args []byte) ([]byte, error) {
	if !f.ambiguous() {
		return args, nil
	}
	t, err := s.Tool(ctx, s.p, name)
	if err != nil {
		return args, nil
	}
	params, err := schema.Decode(t.Version.Parameters)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", name, err)
	}
	object, _ := params.(*schema.Object)
	return f.asDeclared(args, object)
}
