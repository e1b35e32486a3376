package pyschema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"haft/schema"
)

// The bounds on what one source can make us build.
const (
	maxDepth = 48      // of types, classes and constants in each other
	maxNodes = 5_000   // subschemas of one schema
	maxSteps = 500_000 // constants and fields looked at

	// Text costs, too: one step or node stands for so many bytes.
	textPerStep = 16
	textPerNode = 200
)

// errTooLarge says that the schema outgrew maxNodes.
var errTooLarge = errors.New("the schema becomes too large")

// A builder turns annotations into one schema document. Classes are written out
// where they are used, as models read that best; those that contain themselves go
// to $defs. If that grows too large, a second builder shares every class.
type builder struct {
	ctx     context.Context // lives as long as one call of Derive
	m       *module
	resolve Resolver
	share   bool

	defs  *schema.Object
	taken map[string]bool        // names in defs, also those to come
	done  map[any]string         // what is in defs, by declaration
	open  map[any]*unfinished    // what is being built
	texts map[*statement]docText // documentation of classes
	kinds map[*statement]kind
	lists map[*statement][]field    // fields of classes
	found map[string]*schema.Object // imported types

	depth, nodes, steps int

	err error // the first problem; nothing is built after it
}

// fail keeps the first problem, and returns a schema in the place of the one that has it.
func (b *builder) fail(err error) *schema.Object {
	if b.err == nil {
		b.err = err
	}
	return &schema.Object{}
}

// unfinished is a type that is being built; name is its place in $defs once it
// was met inside of itself.
type unfinished struct{ name string }

func newBuilder(ctx context.Context, m *module, resolve Resolver, share bool) *builder {
	return &builder{
		ctx: ctx, m: m, resolve: resolve, share: share, defs: &schema.Object{}, taken: map[string]bool{},
		done: map[any]string{}, open: map[any]*unfinished{}, texts: map[*statement]docText{},
		kinds: map[*statement]kind{},
		lists: map[*statement][]field{}, found: map[string]*schema.Object{}, steps: maxSteps,
	}
}

// typ returns the schema of an annotation as seen from within class in.
func (b *builder) typ(e *expr, in *statement) *schema.Object {
	if b.err != nil {
		return &schema.Object{}
	}
	b.nodes++
	if b.nodes > maxNodes {
		return b.fail(errTooLarge)
	}
	b.depth++
	defer func() { b.depth-- }()
	if e == nil {
		return b.fail(place{}.fault("a type is missing"))
	}
	if b.depth > maxDepth {
		return b.fail(e.fault("the type is nested too deeply"))
	}
	switch e.Kind {
	case "const":
		if e.Type == "none" {
			return schema.Obj("type", "null")
		}
		if e.Type == "str" && e.Parsed != nil {
			return b.typ(e.Parsed, in)
		}
		if e.Type == "str" {
			return b.fail(e.fault("the text cannot be read as a type; for a fixed set of values write Literal[…]"))
		}
		return b.fail(e.fault("a constant is not a type; for a fixed set of values write Literal[…]"))
	case "binop":
		if e.Name == "BitOr" {
			return b.union(alternatives(e, 0), in)
		}
	case "name", "attr":
		return b.reference(e, nil, in)
	case "sub":
		if e.Value != nil && e.Value.Kind != "name" && e.Value.Kind != "attr" {
			break
		}
		args := e.Args
		if args == nil {
			args = []*expr{}
		}
		return b.reference(e, args, in)
	case "call":
		return b.typeOfCall(e, in)
	case "list", "tuple":
		return b.fail(e.fault("%s is not a type; write list[…] or tuple[…]", e.show()))
	case "large":
		return b.fail(e.fault("the type is too deep or too large"))
	}
	return b.fail(e.fault("this is not a type that can be read without running the code: %s",
		cmp.Or(e.Source, e.show())))
}

// alternatives returns a, b and c of a | b | c.
func alternatives(e *expr, depth int) []*expr {
	if e == nil || e.Kind != "binop" || e.Name != "BitOr" || depth > maxDepth {
		return []*expr{e}
	}
	var all []*expr
	for _, a := range e.Args {
		all = append(all, alternatives(a, depth+1)...)
	}
	return all
}

// reference returns the schema of a name, with the arguments that stand behind
// it in brackets; args is nil where there are no brackets.
func (b *builder) reference(e *expr, args []*expr, in *statement) *schema.Object {
	name := e
	if e.Kind == "sub" {
		name = e.Value
	}
	got := b.m.resolve(name, in)
	switch {
	case got.value != nil:
		return b.aliased(got.value, got.value, name.show(), e, args, got.in)
	case got.def != nil:
		return b.declared(got.def, e, args)
	case got.full != "":
		return b.knownType(got.full, e, args, in)
	}
	if len(b.m.stars) > 0 {
		return b.fail(e.fault("the type %s is not defined here; it may come from the import of * from %s: import it "+
			"by name",
			name.show(), b.m.stars[len(b.m.stars)-1]))
	}
	return b.fail(e.fault("the type %s is not defined", name.show()))
}

// declared returns the schema of something that the source declares.
func (b *builder) declared(d *statement, e *expr, args []*expr) *schema.Object {
	switch d.Is {
	case "class":
		if len(args) > 0 || d.Generic {
			return b.fail(e.fault("%s is generic, which a schema cannot express: declare a class with concrete types",
				d.Name))
		}
		return b.define(d, d.Name, e, func() *schema.Object { return b.class(d, e) })
	case "alias":
		if d.Generic {
			return b.fail(e.fault("the type %s has type parameters, which a schema cannot express: write concrete "+
				"types", d.Name))
		}
		return b.aliased(d, d.Value, d.Name, e, args, nil)
	case "assign":
		if d.Value == nil {
			return b.fail(e.fault("%s has no value and is not a type", d.Name))
		}
		return b.aliased(d, d.Value, d.Name, e, args, nil)
	}
	return b.fail(e.fault("%s is not a type", d.Name))
}

// aliased returns the schema of what a name was assigned.
func (b *builder) aliased(key any, value *expr, name string, e *expr, args []*expr,
	in *statement) *schema.Object {
	if len(args) > 0 {
		// List = list; List[int]
		if target := b.m.resolve(value, in); target.full != "" && value.Kind != "sub" {
			return b.knownType(target.full, e, args, in)
		}
		return b.fail(e.fault("%s is a generic alias, which a schema cannot express: write concrete types", name))
	}
	if value != nil && value.Kind == "call" {
		if tagOf(b.m.resolve(value.Value, in).full) == "typevar" {
			return b.fail(e.fault("%s is a type variable, which a schema cannot express: write a concrete type", name))
		}
		return b.define(key, name, e, func() *schema.Object { return b.typeOfCall(value, in) })
	}
	s := b.define(key, name, e, func() *schema.Object { return b.typ(value, in) })
	if b.err != nil && (value == nil || value.Kind == "const" && value.Type != "str" || value.Kind == "other" ||
		value.Kind == "dict") {
		b.err = e.fault("%s is a value, not a type", name)
	}
	return s
}

// define builds a named type once for every place where it is used. A type that
// contains itself, or every type if b shares, goes to $defs.
func (b *builder) define(key any, name string, e *expr, build func() *schema.Object) *schema.Object {
	if def, ok := b.done[key]; ok {
		return ref(def)
	}
	if u, ok := b.open[key]; ok {
		if u.name == "" {
			u.name = b.freeName(name)
		}
		return ref(u.name)
	}
	u := &unfinished{}
	b.open[key] = u
	s := build()
	delete(b.open, key)
	if b.err != nil {
		return s
	}
	if u.name == "" && b.share && (s.Has("properties") || s.Has("enum") && !s.Has("$ref")) {
		u.name = b.freeName(name)
	}
	if u.name == "" {
		return s
	}
	if circular(s, ref(u.name).String("$ref")) {
		return b.fail(e.fault("the type %s is defined by itself alone", name))
	}
	b.done[key] = u.name
	b.defs.Set(u.name, s)
	return ref(u.name)
}

// freeName finds a free name in $defs.
func (b *builder) freeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '.' || r == '/' || r == '~' || r == '%' || r == '#' {
			return '_'
		}
		return r
	}, name)
	free := name
	for i := 2; b.taken[free]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	b.taken[free] = true
	return free
}

// ref returns a reference into $defs.
func ref(name string) *schema.Object { return schema.Obj("$ref", "#/$defs/"+name) }

// circular reports whether s is target itself, with nothing in between that
// a value could be made of.
func circular(s *schema.Object, target string) bool {
	if s.String("$ref") == target {
		return true
	}
	return slices.ContainsFunc(s.Array("anyOf"), func(a any) bool {
		o, ok := a.(*schema.Object)
		return ok && circular(o, target)
	})
}

// finish adds $defs to a document that refers to them.
func (b *builder) finish(s *schema.Object) *schema.Object {
	if b.defs.Len() > 0 {
		s.Set("$defs", b.defs)
	}
	return s
}

// describe gives s a description. An empty one changes nothing.
func (b *builder) describe(s *schema.Object, text string) *schema.Object {
	b.nodes += len(text) / textPerNode
	schema.Describe(s, text)
	return s
}
