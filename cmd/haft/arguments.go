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

// argumentFlags are the flags that have the arguments of a call.
type argumentFlags struct {
	document string   // --args
	pairs    []string // --arg
}

func (f *argumentFlags) flags() []flag {
	return []flag{
		{&f.document, "args", "the arguments as `JSON`, @FILE, or - for standard input"},
		{&f.pairs, "arg", "one argument, `NAME=VALUE`; VALUE is JSON, or text where the tool takes text"},
	}
}

// read puts --args and --arg together.
func (f argumentFlags) read(in io.Reader) ([]byte, error) {
	text, err := readGiven(in, f.document)
	if err != nil || len(f.pairs) == 0 {
		return text, err
	}
	args, err := schema.ReadArguments(text)
	if err != nil {
		return nil, err
	}
	for _, pair := range f.pairs {
		name, v, ok := strings.Cut(pair, "=")
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
// text and not the type of that JSON: a postal code is not a number.
func (f argumentFlags) asDeclared(args []byte, params *schema.Object) ([]byte, error) {
	if params == nil || !f.ambiguous() {
		return args, nil
	}
	tree, err := schema.ReadArguments(args)
	if err != nil {
		return args, nil // the call says what is wrong with them
	}
	properties := params.Object("properties")
	for _, pair := range f.pairs {
		name, v, _ := strings.Cut(pair, "=")
		if properties != nil && takesText(properties.Object(name), argument(v)) {
			tree.Set(name, v)
		}
	}
	return schema.Encode(tree)
}

// ambiguous reports whether an --arg may mean text or something else.
func (f argumentFlags) ambiguous() bool {
	return slices.ContainsFunc(f.pairs, func(pair string) bool {
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

// readFor reads the arguments of a call of a kept tool. If the tool cannot be looked up they are
// left as they are: the call says why.
func (f argumentFlags) readFor(ctx context.Context, s *session, tool string) ([]byte, error) {
	args, err := f.read(s.in)
	if err != nil || !f.ambiguous() {
		return args, err
	}
	t, err := s.Tool(ctx, s.p, tool)
	if err != nil {
		return args, nil
	}
	params, err := schema.Decode(t.Version.Parameters)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", tool, err)
	}
	object, _ := params.(*schema.Object)
	return f.asDeclared(args, object)
}
