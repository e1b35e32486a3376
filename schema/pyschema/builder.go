package pyschema

import (
	"cmp"
	"context"
	"errors"

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

// The state of one derivation, which its parts share: what is left of the bounds, and the
// first problem. Nothing is built after a problem.
type state struct {
	depth, nodes, steps int
	err                 error
}

// fail keeps the first problem, and returns a schema in the place of the one that has it.
func (st *state) fail(err error) *schema.Object {
	if st.err == nil {
		st.err = err
	}
	return &schema.Object{}
}

// describe gives s a description. An empty one changes nothing.
func (st *state) describe(s *schema.Object, text string) *schema.Object {
	st.nodes += len(text) / textPerNode
	schema.Describe(s, text)
	return s
}

// A builder turns annotations into one schema document. Classes are written out
// where they are used, as models read that best; those that contain themselves go
// to $defs. If that grows too large, a second builder shares every class.
type builder struct {
	ctx     context.Context // lives as long as one call of Derive
	m       *module
	resolve Resolver

	state   *state
	defs    *definitions
	classes *classReader
	consts  *evaluator
	meta    *metaReader

	lists map[*statement][]field    // fields of classes
	texts map[string]string         // descriptions of parameters that the function itself may lack
	found map[string]*schema.Object // imported types
}

func newBuilder(ctx context.Context, m *module, resolve Resolver, share bool) *builder {
	st := &state{steps: maxSteps}
	consts := newEvaluator(m, st)
	return &builder{ctx: ctx, m: m, resolve: resolve, state: st, defs: newDefinitions(st, share),
		classes: consts.classes, consts: consts, meta: &metaReader{m: m, consts: consts},
		lists: map[*statement][]field{}, found: map[string]*schema.Object{}}
}

// fail is [state.fail].
func (b *builder) fail(err error) *schema.Object { return b.state.fail(err) }

// typ returns the schema of an annotation as seen from within class in.
func (b *builder) typ(e *expr, in *statement) *schema.Object {
	if b.state.err != nil {
		return &schema.Object{}
	}
	b.state.nodes++
	if b.state.nodes > maxNodes {
		return b.fail(errTooLarge)
	}
	b.state.depth++
	defer func() { b.state.depth-- }()
	if e == nil {
		return b.fail(place{}.fault("a type is missing"))
	}
	if b.state.depth > maxDepth {
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
		return b.defs.define(d, d.Name, e, func() *schema.Object { return b.class(d, e) })
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
		return b.defs.define(key, name, e, func() *schema.Object { return b.typeOfCall(value, in) })
	}
	s := b.defs.define(key, name, e, func() *schema.Object { return b.typ(value, in) })
	if b.state.err != nil && (value == nil || value.Kind == "const" && value.Type != "str" || value.Kind == "other" ||
		value.Kind == "dict") {
		b.state.err = e.fault("%s is a value, not a type", name)
	}
	return s
}
