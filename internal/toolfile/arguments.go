package toolfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"haft/schema"
)

// Arguments are arguments of a tool that are given one by one, each as NAME=VALUE. VALUE is JSON,
// or text where the tool takes text. @FILE is the content of a file, and @@ a text that begins with
// @. A name that is given again makes a list, where the tool takes one.
type Arguments []string

// Resolve reads the files that arguments name. It replaces them in place, so that copies of the list
// have them too.
func (a Arguments) Resolve() error {
	for i, pair := range a {
		name, v, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return wrong(errors.New("--arg is NAME=VALUE: it does not begin with a name and ="))
		}
		file, isFile := strings.CutPrefix(v, "@")
		switch {
		case strings.HasPrefix(file, "@"):
			a[i] = name + "=" + file
		case isFile:
			raw, err := ReadBounded(file, schema.MaxBytes)
			if err != nil {
				return wrong(fmt.Errorf("--arg %s=@FILE: %w; a text that begins with @ is written with @@", name, err))
			}
			if !utf8.Valid(raw) {
				return wrong(fmt.Errorf("--arg %s=@FILE: the file is no text: hand it to the tool with --file", name))
			}
			a[i] = name + "=" + string(raw)
		}
	}
	return nil
}

// AddTo adds the arguments to those of a JSON document. Those with the same name become a list.
func (a Arguments) AddTo(text []byte) ([]byte, error) {
	args, err := schema.ReadArguments(text)
	if err != nil {
		return nil, err
	}
	for name, texts := range a.byName() {
		list := make([]any, len(texts))
		for i, v := range texts {
			list[i] = argument(v)
		}
		args.Set(name, single(list))
	}
	return schema.Encode(args)
}

// byName returns the texts of each argument, in the order in which the names are given first.
func (a Arguments) byName() iter.Seq2[string, []string] {
	var names []string
	texts := map[string][]string{}
	for _, pair := range a {
		name, v, _ := strings.Cut(pair, "=")
		if texts[name] == nil {
			names = append(names, name)
		}
		texts[name] = append(texts[name], v)
	}
	return func(yield func(string, []string) bool) {
		for _, name := range names {
			if !yield(name, texts[name]) {
				return
			}
		}
	}
}

// single returns the only item of a list, or the list if it has several.
func single(list []any) any {
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// argument reads a value: JSON if it is JSON, else text.
func argument(v string) any {
	if tree, err := schema.Decode([]byte(v)); err == nil {
		return tree
	}
	return v
}

// AsDeclared makes text of each argument that reads as JSON but whose parameter takes
// text and not the type of that JSON: a postal code is not a number. It refuses an argument that is
// given again and whose parameter takes no list.
func (a Arguments) AsDeclared(args []byte, params *schema.Object) ([]byte, error) {
	if params == nil || !a.Ambiguous() {
		return args, nil
	}
	tree, err := schema.ReadArguments(args)
	if err != nil {
		return args, nil // the call says what is wrong with them
	}
	properties := params.Object("properties")
	if properties == nil {
		return args, nil
	}
	for name, texts := range a.byName() {
		declared := properties.Object(name)
		if declared == nil {
			continue
		}
		if len(texts) > 1 {
			array := arrayOf(declared, 0)
			if array == nil && len(declaredTypes(declared)) > 0 {
				return nil, wrong(fmt.Errorf("--arg %s is given %d times, and the parameter takes no list: give it "+
					"once",
					name, len(texts)))
			}
			declared = array
		}
		list := make([]any, len(texts))
		for i, v := range texts {
			list[i] = argument(v)
			item := declared
			if len(texts) > 1 && declared != nil {
				item = declared.Object("items")
			}
			if takesText(item, list[i]) {
				list[i] = v
			}
		}
		tree.Set(name, single(list))
	}
	return schema.Encode(tree)
}

// arrayOf returns the alternative of a schema that is an array, or nil.
func arrayOf(s *schema.Object, depth int) *schema.Object {
	const deepest = 8
	if s == nil || depth > deepest || s.String("type") == "array" {
		return s
	}
	for _, alternative := range slices.Concat(s.Array("anyOf"), s.Array("oneOf")) {
		if o, ok := alternative.(*schema.Object); ok {
			if array := arrayOf(o, depth+1); array != nil && array.String("type") == "array" {
				return array
			}
		}
	}
	return nil
}

// Ambiguous reports whether an argument may mean text or something else, or a list.
func (a Arguments) Ambiguous() bool {
	for _, texts := range a.byName() {
		if len(texts) > 1 {
			return true
		}
		if _, text := argument(texts[0]).(string); !text {
			return true
		}
	}
	return false
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
