package chain

import (
	"bytes"
	"encoding/json"

	"haft/internal/jsontree"
)

const (
	// MaxArgs bounds the arguments of a step, in bytes, before and after values were put in.
	MaxArgs = 8 << 20
	// maxDepth bounds the nesting of arguments, inputs and values.
	maxDepth = 128
)

// template is the arguments of a step: a tree in which a [*reference] or a [literal] stands
// in the place of each object that wrote one.
type template struct {
	tree       any
	references []*reference
	literals   int
}

// literal is a value in which nothing is replaced.
type literal struct{ value any }

// decode reads JSON of which the caller has bounded the size.
func decode(what string, text []byte) (any, error) {
	tree, err := jsontree.Decode(text, jsontree.Limits{Bytes: len(text), Depth: maxDepth, AnyNumber: true})
	if err != nil {
		return nil, wrong("%s: %s", what, err)
	}
	return tree, nil
}

// parseTemplate reads the arguments of a step.
func parseTemplate(args json.RawMessage) (*template, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if len(args) > MaxArgs {
		return nil, wrong("the arguments have %d bytes, %d is the most", len(args), MaxArgs)
	}
	tree, err := decode("the arguments", args)
	if err != nil {
		return nil, err
	}
	if _, ok := tree.(*jsontree.Object); !ok {
		return nil, wrong("the arguments are not an object")
	}
	t := &template{}
	t.tree, err = t.compile(tree)
	return t, err
}

// compile replaces the objects of a tree that stand for something else.
func (t *template) compile(v any) (_ any, err error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = t.compile(v[i]); err != nil {
				return nil, err
			}
		}
	case *jsontree.Object:
		switch {
		case v.Has("$literal") && v.Len() > 1:
			return nil, wrong("an object with $literal has no other key")
		case v.Has("$literal"):
			t.literals++
			return literal{v.Value("$literal")}, nil
		case v.Has("$from"):
			return t.reference(v)
		}
		for _, key := range v.Keys() {
			inner, err := t.compile(v.Value(key))
			if err != nil {
				return nil, err
			}
			v.Set(key, inner)
		}
	}
	return v, nil
}

// reference reads an object with the key $from.
func (t *template) reference(o *jsontree.Object) (*reference, error) {
	if o.Len() > 2 || o.Len() == 2 && !o.Has("default") {
		return nil, wrong("an object with $from has no other key but default; {\"$literal\": …} stands for an object " +
			"as it is")
	}
	if _, ok := o.Value("$from").(string); !ok {
		return nil, wrong("$from is not a text")
	}
	ref, err := parseReference(o.String("$from"))
	if err != nil {
		return nil, err
	}
	if o.Has("default") {
		before := len(t.references) + t.literals
		def, err := t.compile(o.Value("default"))
		switch {
		case err != nil:
			return nil, err
		case len(t.references)+t.literals > before:
			return nil, wrong("a default is taken as it is and holds neither $from nor $literal")
		}
		if ref.def, err = jsontree.Encode(def); err != nil {
			return nil, err
		}
	}
	if t.references = append(t.references, &ref); len(t.references) > MaxReferences {
		return nil, wrong("there are more than %d references", MaxReferences)
	}
	return &ref, nil
}

// fill returns the arguments with the values that lookup gives.
func (t *template) fill(lookup func(*reference) (json.RawMessage, error)) (json.RawMessage, error) {
	size := 0
	tree, err := replace(t.tree, func(ref *reference) (json.RawMessage, error) {
		raw, err := lookup(ref)
		if size += len(raw); size > MaxArgs && err == nil {
			err = wrong("the arguments have more than %d bytes", MaxArgs)
		}
		return raw, err
	})
	if err != nil {
		return nil, err
	}
	out, err := jsontree.Encode(tree)
	switch {
	case err != nil:
		return nil, err
	case len(out) > MaxArgs:
		return nil, wrong("the arguments have more than %d bytes", MaxArgs)
	case out[0] != '{':
		return nil, wrong("the arguments are not an object")
	}
	return out, nil
}

// replace copies a tree with the values of its references.
func replace(v any, lookup func(*reference) (json.RawMessage, error)) (_ any, err error) {
	switch v := v.(type) {
	case literal:
		return v.value, nil
	case *reference:
		return lookup(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = replace(v[i], lookup); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *jsontree.Object:
		o := &jsontree.Object{}
		for _, key := range v.Keys() {
			inner, err := replace(v.Value(key), lookup)
			if err != nil {
				return nil, err
			}
			o.Set(key, inner)
		}
		return o, nil
	}
	return v, nil
}
