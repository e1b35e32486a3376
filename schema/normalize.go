package schema

import (
	"fmt"
	"slices"
	"strconv"

	"haft"
	"haft/internal/jsontree"
)

// The bounds on a schema whose references are inlined: two references to a
// schema with two references, and so on, double it at every step.
const (
	maxNodes    = 50_000
	maxExpanded = MaxBytes // bytes of text in it
)

// NormalizeOptions steer [Normalize].
type NormalizeOptions struct {
	// Strict also converts the result as [Strict] does, where that is possible.
	Strict bool
}

// Normalize brings the parameters of a tool that others wrote, such as a tool of
// an MCP server, into the form that vendors understand best:
//
//   - it is an object schema with type, properties and required;
//   - references are inlined. A schema that contains itself stays in $defs, which
//     is where #/definitions and other places move to;
//   - objects that name their properties are closed, unless they said otherwise
//     or are one part of a composition; objects that name none stay free-form;
//   - true and false are written as {} and {"not": {}}, missing types are
//     inferred, and options of anyOf that say the same are there once.
//
// Normalizing twice is the same as once. An [*haft.Error] says what is wrong with
// the schema, and its argument is never changed.
func Normalize(root any, opts NormalizeOptions) (*Object, error) {
	if root == true {
		root = &Object{}
	}
	o, ok := root.(*Object)
	if !ok {
		return nil, badSchema("root", "the schema of parameters must be an object")
	}
	if why := tooLarge(o); why != "" {
		return nil, badSchema("root", why)
	}
	g, err := newGraph(o)
	if err != nil {
		return nil, err
	}
	n := &normalizer{root: o, graph: g, defs: map[string]string{}, taken: map[string]bool{},
		aboutProperties: map[*Object]bool{}}
	n.nameDefinitions()
	result := n.document()
	if n.err != nil {
		return nil, n.err
	}
	if opts.Strict {
		result, _ = Strict(result)
	}
	return result, nil
}

// badSchema is the error of a schema that cannot be used.
func badSchema(path, problem string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "schema: " + short(path) + ": " + problem}
}

// normalizer is one run of [Normalize].
type normalizer struct {
	root *Object
	graph
	defs            map[string]string // canonical reference → name in $defs, for those that stay
	taken           map[string]bool   // names in $defs
	aboutProperties map[*Object]bool  // schemas of the root that are about properties
	nodes           int
	bytes           int
	err             error // the first problem; nothing is built after it
}

// fail keeps the first problem, and returns a schema in the place of the one that has it.
func (n *normalizer) fail(problem string) *Object {
	if n.err == nil {
		n.err = badSchema("root", problem)
	}
	return &Object{}
}

// failDeep refuses a schema that is nested too deep.
func (n *normalizer) failDeep() *Object {
	return n.fail(fmt.Sprintf("it is nested deeper than %d when its references are inlined", MaxDepth))
}

// nameDefinitions names the definitions of the root, and those that references which
// stay lead to.
func (n *normalizer) nameDefinitions() {
	for _, ref := range n.definitionRefs() {
		n.nameDefinition(ref, lastStep(ref))
	}
	for _, ref := range n.order {
		if n.recursive[ref] && ref != "#" {
			n.nameDefinition(ref, lastStep(ref))
		}
	}
}

// definitionRefs returns references to the definitions of the root, in their order.
func (n *normalizer) definitionRefs() []string {
	var refs []string
	for _, k := range []string{"$defs", "definitions"} {
		if defs := n.root.Object(k); defs != nil {
			for _, name := range defs.Keys() {
				refs = append(refs, canonical([]string{k, name}))
			}
		}
	}
	return refs
}

// nameDefinition finds a name in $defs for a reference.
func (n *normalizer) nameDefinition(ref, want string) {
	if _, ok := n.defs[ref]; ok {
		return
	}
	name := want
	for i := 2; n.taken[name]; i++ {
		name = want + "_" + strconv.Itoa(i)
	}
	n.taken[name] = true
	n.defs[ref] = name
}

// lastStep names a reference by where it leads.
func lastStep(ref string) string {
	steps, _ := pointer(ref)
	if len(steps) == 0 || steps[len(steps)-1] == "" {
		return "schema"
	}
	return steps[len(steps)-1]
}

// document builds the result. A root that is a reference is inlined even if it
// contains itself: it must be an object schema.
func (n *normalizer) document() *Object {
	top := inlinedRoot(n.root)
	result := n.object(without(top, "$defs", "definitions"), mayClose, 0)
	if !result.Has("type") {
		result = prefixed("type", "object", result)
	}
	if !top.Has("additionalProperties") {
		result.Delete("additionalProperties") // the root is closed below
	}
	if result.Value("type") != "object" {
		return n.fail("the schema of parameters must be of type object")
	}
	setMissing(result, "properties", &Object{})
	setMissing(result, "required", []any{})
	if !top.Has("additionalProperties") && !n.describesProperties(top) {
		result.Set("additionalProperties", false)
	}
	if len(n.defs) > 0 {
		result.Set("$defs", n.definitions())
	}
	if deep(result, MaxDepth) {
		return n.failDeep()
	}
	return result
}

// setMissing sets a key that o does not have.
func setMissing(o *Object, key string, value any) {
	if !o.Has(key) {
		o.Set(key, value)
	}
}

// definitions builds $defs: those of the root in their order, then the others by
// their references.
func (n *normalizer) definitions() *Object {
	order := n.definitionRefs()
	var moved []string
	for ref := range n.defs {
		if !slices.Contains(order, ref) {
			moved = append(moved, ref)
		}
	}
	slices.Sort(moved)
	defs := &Object{}
	for _, ref := range append(order, moved...) {
		steps, _ := pointer(ref)
		target, _ := jsontree.At(n.root, steps)
		may := mayClose
		if n.recursive[ref] {
			may = n.freedoms[ref]
		}
		defs.Set(n.defs[ref], n.schema(target, may, 1))
	}
	return defs
}

// schema normalizes one schema.
func (n *normalizer) schema(v any, may freedom, depth int) *Object {
	switch v := v.(type) {
	case bool:
		n.spend(0)
		return booleanSchema(v)
	case *Object:
		return n.object(v, may, depth)
	}
	return n.fail("something that is not a schema stands where one must")
}

// booleanSchema writes true and false as objects.
func booleanSchema(v bool) *Object {
	if v {
		return &Object{}
	}
	return Obj("not", &Object{})
}

// spend counts a schema that is built, and the bytes of its text.
func (n *normalizer) spend(text int) {
	n.nodes++
	n.bytes += text + 2
	if n.nodes > maxNodes || n.bytes > maxExpanded {
		n.fail(fmt.Sprintf("it grows beyond %d schemas or %d bytes when its references are inlined", maxNodes,
			maxExpanded))
	}
}

// object normalizes a schema that is an object.
func (n *normalizer) object(o *Object, may freedom, depth int) *Object {
	switch {
	case n.err != nil:
		return &Object{}
	case depth > MaxDepth:
		return n.failDeep()
	case o.Has("$ref"):
		return n.reference(o, may, depth)
	}
	n.spend(ownText(o))
	c := mapSubs(without(o, "$defs", "definitions"), func(s sub) any { return n.subschema(o, s, may, depth) })
	// A type that follows from values refuses nothing; one that follows from
	// properties or items refuses what is no object or array.
	lossless := c.Has("enum") || c.Has("const")
	if t := inferType(c); t != "" && !composed(c) && (may != mustEqual || lossless && t != "object" && t != "array") {
		c = prefixed("type", t, c)
	}
	if list := c.Array("anyOf"); list != nil && may != mustEqual {
		c.Set("anyOf", distinct(list))
	}
	if isType(c, "object") && !c.Has("additionalProperties") && may == mayClose && !n.describesProperties(o) {
		m := c.Object("properties")
		free := (m == nil || m.Len() == 0) && !c.Has("patternProperties")
		c.Set("additionalProperties", free)
	}
	return c
}

// ownText counts the bytes of a schema, without those of the schemas within it.
func ownText(o *Object) int {
	text := 0
	for _, k := range o.Keys() {
		text += len(k) + 4
		if nestings[k] == notSchema {
			raw, _ := Encode(o.Value(k)) // a tree that was decoded
			text += len(raw)
		} else if m := o.Object(k); m != nil && nestings[k] == schemaByKey {
			for _, name := range m.Keys() {
				text += len(name) + 4
			}
		}
	}
	return text
}

// composed reports whether o gets its type from schemas within it.
func composed(o *Object) bool {
	return o.Has("anyOf") || o.Has("oneOf") || o.Has("allOf") || o.Has("$ref")
}

// subschema normalizes a schema that stands in o.
func (n *normalizer) subschema(o *Object, s sub, may freedom, depth int) any {
	if _, ok := s.value.(bool); ok {
		switch s.keyword {
		case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems":
			return s.value
		case "items":
			if o.Has("prefixItems") {
				return s.value
			}
		}
	}
	return n.schema(s.value, freedomOf(o, s.keyword, may), depth+1)
}

// describesProperties reports whether schemas in place within o are about properties, so that
// o itself may not be closed.
func (n *normalizer) describesProperties(o *Object) bool {
	l := loops{root: n.root}
	for _, next := range l.next(o) {
		known, ok := n.aboutProperties[next]
		if !ok {
			known = next.Has("properties") || next.Has("patternProperties") || next.Has("additionalProperties") ||
				n.describesProperties(next)
			n.aboutProperties[next] = known
		}
		if known {
			return true
		}
	}
	return false
}

// reference normalizes a schema with a reference.
func (n *normalizer) reference(o *Object, may freedom, depth int) *Object {
	target, steps, problem := refTarget(n.root, o)
	if problem != "" {
		return n.fail(problem)
	}
	n.spend(0) // a chain of references is work too, though nothing is built
	ref := canonical(steps)
	rest := without(o, "$ref")
	if n.recursive[ref] {
		c := n.object(rest, max(may, mayNarrow), depth)
		if ref != "#" {
			ref = canonical([]string{"$defs", n.defs[ref]})
		}
		return prefixed("$ref", ref, c)
	}
	t, ok := target.(*Object)
	if !ok {
		t = booleanSchema(target == true)
	}
	return n.object(mergeRef(t, rest), may, depth)
}
