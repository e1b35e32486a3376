package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"haft"
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
	n := &normalizer{root: o, defs: map[string]string{}, taken: map[string]bool{}, about: map[*Object]bool{}}
	if err := n.survey(); err != nil {
		return nil, err
	}
	result, err := n.document()
	if err != nil {
		return nil, err
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
	defs  map[string]string // canonical reference → name in $defs, for those that stay
	taken map[string]bool   // names in $defs
	about map[*Object]bool  // schemas of the root that are about properties
	nodes int
	bytes int
}

// survey finds out which references stay, and under which names.
func (n *normalizer) survey() error {
	g, err := newGraph(n.root)
	if err != nil {
		return err
	}
	n.graph = g
	for _, k := range []string{"$defs", "definitions"} {
		if defs := n.root.Object(k); defs != nil {
			for _, name := range defs.Keys() {
				n.name(canonical([]string{k, name}), name)
			}
		}
	}
	for _, ref := range g.order {
		if g.recursive[ref] && ref != "#" {
			n.name(ref, lastStep(ref))
		}
	}
	return nil
}

// name finds a name in $defs for a reference.
func (n *normalizer) name(ref, want string) {
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

// document builds the result.
func (n *normalizer) document() (*Object, error) {
	// A root that is a reference is inlined even if it contains itself: it must
	// be an object schema.
	top := n.root
	for range maxHops {
		if !top.Has("$ref") {
			break
		}
		target, _, _ := refTarget(n.root, top) // newGraph has looked at all of them
		t, ok := target.(*Object)
		if !ok {
			break
		}
		top = beside(t, top)
	}
	body, err := n.object(without(top, "$defs", "definitions"), mayClose, 0)
	if err != nil {
		return nil, err
	}
	result := &Object{}
	if !body.Has("type") {
		result.Set("type", "object")
	}
	for _, k := range body.Keys() {
		if k != "additionalProperties" || top.Has(k) { // the root is closed below
			result.Set(k, body.Value(k))
		}
	}
	if result.Value("type") != "object" {
		return nil, badSchema("root", "the schema of parameters must be of type object")
	}
	if !result.Has("properties") {
		result.Set("properties", &Object{})
	}
	if !result.Has("required") {
		result.Set("required", []any{})
	}
	if !top.Has("additionalProperties") && !n.spread(top) {
		result.Set("additionalProperties", false)
	}
	if err := n.definitions(result); err != nil {
		return nil, err
	}
	if deep(result, MaxDepth) {
		return nil, badSchema("root", fmt.Sprintf("it is nested deeper than %d when its references are inlined",
			MaxDepth))
	}
	return result, nil
}

// definitions adds $defs: those of the root, and those that references which
// stay lead to.
func (n *normalizer) definitions(result *Object) error {
	if len(n.defs) == 0 {
		return nil
	}
	order := make([]string, 0, len(n.defs))
	for ref := range n.defs {
		order = append(order, ref)
	}
	position := map[string]int{}
	for _, k := range []string{"$defs", "definitions"} {
		if defs := n.root.Object(k); defs != nil {
			for _, name := range defs.Keys() {
				position[canonical([]string{k, name})] = len(position) + 1
			}
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		if pa, pb := position[a], position[b]; pa != pb && pa != 0 && pb != 0 {
			return pa - pb
		} else if (pa == 0) != (pb == 0) {
			return pb - pa // those that moved here come last
		}
		return strings.Compare(a, b)
	})
	defs := &Object{}
	for _, ref := range order {
		steps, _ := pointer(ref)
		target, _ := followPointer(n.root, steps)
		may := mayClose
		if n.recursive[ref] {
			may = n.freedoms[ref]
		}
		v, err := n.schema(target, may, 1)
		if err != nil {
			return err
		}
		defs.Set(n.defs[ref], v)
	}
	result.Set("$defs", defs)
	return nil
}

// schema normalizes one schema.
func (n *normalizer) schema(v any, may freedom, depth int) (any, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return n.spend(&Object{}, 0)
		}
		return n.spend(Obj("not", &Object{}), 0)
	case *Object:
		return n.object(v, may, depth)
	}
	return nil, badSchema("root", "something that is not a schema stands where one must")
}

// spend counts what is built.
func (n *normalizer) spend(o *Object, text int) (*Object, error) {
	n.nodes++
	n.bytes += text + 2
	if n.nodes > maxNodes || n.bytes > maxExpanded {
		return nil, badSchema("root", fmt.Sprintf("it grows beyond %d schemas or %d bytes when its references are "+
			"inlined", maxNodes, maxExpanded))
	}
	return o, nil
}

// object normalizes a schema that is an object.
func (n *normalizer) object(o *Object, may freedom, depth int) (*Object, error) {
	if depth > MaxDepth {
		return nil, badSchema("root", fmt.Sprintf("it is nested deeper than %d when its references are inlined",
			MaxDepth))
	}
	if o.Has("$ref") {
		return n.reference(o, may, depth)
	}
	text := 0
	for _, k := range o.Keys() {
		text += len(k) + 4
		if nestings[k] == notSchema {
			text += size(o.Value(k))
		} else if m := o.Object(k); m != nil && nestings[k] == schemaByKey {
			for _, name := range m.Keys() {
				text += len(name) + 4
			}
		}
	}
	if _, err := n.spend(o, text); err != nil {
		return nil, err
	}
	c, err := mapSubs(without(o, "$defs", "definitions"), func(keyword string, v any) (any, error) {
		return n.within(o, keyword, v, may, depth)
	})
	if err != nil {
		return nil, err
	}
	// A type that follows from values refuses nothing; one that follows from
	// properties or items refuses what is no object or array.
	lossless := c.Has("enum") || c.Has("const")
	if t := inferType(c); t != "" && !parted(c) && (may != mustEqual || lossless && t != "object" && t != "array") {
		c = prefixed("type", t, c)
	}
	if list := c.Array("anyOf"); list != nil && may != mustEqual {
		c.Set("anyOf", distinct(list))
	}
	if isType(c, "object") && !c.Has("additionalProperties") && may == mayClose && !n.spread(o) {
		m := c.Object("properties")
		free := (m == nil || m.Len() == 0) && !c.Has("patternProperties")
		c.Set("additionalProperties", free)
	}
	return c, nil
}

// parted reports whether o gets its type from schemas within it.
func parted(o *Object) bool {
	return o.Has("anyOf") || o.Has("oneOf") || o.Has("allOf") || o.Has("$ref")
}

// within normalizes a schema that stands in o under keyword.
func (n *normalizer) within(o *Object, keyword string, v any, may freedom, depth int) (any, error) {
	if b, ok := v.(bool); ok {
		switch keyword {
		case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems":
			return b, nil
		case "items":
			if o.Has("prefixItems") {
				return b, nil
			}
		}
	}
	return n.schema(v, freedomWithin(o, keyword, may), depth+1)
}

// spread reports whether schemas in place within o are about properties, so that
// o itself may not be closed.
func (n *normalizer) spread(o *Object) bool {
	l := loops{root: n.root}
	for next := range l.next(o) {
		known, ok := n.about[next]
		if !ok {
			known = next.Has("properties") || next.Has("patternProperties") || next.Has("additionalProperties") ||
				n.spread(next)
			n.about[next] = known
		}
		if known {
			return true
		}
	}
	return false
}

// reference normalizes a schema with a reference.
func (n *normalizer) reference(o *Object, may freedom, depth int) (*Object, error) {
	target, steps, problem := refTarget(n.root, o)
	if problem != "" {
		return nil, badSchema("root", problem)
	}
	// A chain of references is work too, though nothing is built.
	if _, err := n.spend(o, 0); err != nil {
		return nil, err
	}
	ref := canonical(steps)
	rest := without(o, "$ref")
	if n.recursive[ref] {
		c, err := n.object(rest, max(may, mayNarrow), depth)
		if err != nil {
			return nil, err
		}
		if ref != "#" {
			ref = canonical([]string{"$defs", n.defs[ref]})
		}
		return prefixed("$ref", ref, c), nil
	}
	t, ok := target.(*Object)
	if !ok {
		t = &Object{}
		if target == false {
			t.Set("not", &Object{})
		}
	}
	return n.object(beside(t, rest), may, depth)
}
