package tsschema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"haft/schema"
)

// maxTypes is how many types one schema may come to, written out.
const maxTypes = 20_000

// A builder turns types into schemas.
type builder struct {
	file       *file
	defs       *schema.Object // of types that contain themselves
	building   map[string]bool
	recursive  map[string]bool // types met inside themselves
	visitsLeft int             // how many types may still be visited
	overBound  bool            // a bound was met and reported
	problems   []problem
}

func newBuilder(f *file) *builder {
	return &builder{file: f, defs: &schema.Object{}, building: map[string]bool{}, recursive: map[string]bool{},
		visitsLeft: maxTypes}
}

// fail notes a problem, once per place.
func (b *builder) fail(at int, message string) *schema.Object {
	for _, p := range b.problems {
		if p.at == at || len(b.problems) >= maxProblems {
			return schema.Obj()
		}
	}
	b.problems = append(b.problems, problem{at, message})
	return schema.Obj()
}

// visit pays for one visit. Types that double with every name, and names that
// stand for themselves, end here.
func (b *builder) visit(n *node, depth int) bool {
	b.visitsLeft--
	switch {
	case b.overBound:
	case depth > maxTypeDepth:
		b.fail(n.at, "the type leads more than "+itoa(maxTypeDepth)+" types deep, or to itself")
		b.overBound = true
	case b.visitsLeft < 0:
		b.fail(n.at, "the types come to more than "+itoa(maxTypes)+" when they are written out")
		b.overBound = true
	default:
		return true
	}
	return false
}

// schema returns the schema of a type.
func (b *builder) schema(n *node, depth int) *schema.Object {
	if !b.visit(n, depth) {
		return schema.Obj()
	}
	if t, ok := b.target(n, depth); ok {
		if t == nil {
			return schema.Obj()
		}
		return b.schema(t, depth+1)
	}
	switch n.op {
	case oLiteral:
		return enumOf([]any{n.value})
	case oArray:
		return schema.Obj("type", "array", "items", b.schema(n.kids[0], depth+1))
	case oTuple:
		return b.tuple(n, depth)
	case oObject:
		return b.object(b.shape(n, depth+1), depth)
	case oUnion, oKeyof:
		return b.union(b.alternatives(n, depth), n, depth)
	case oRefined:
		o := b.schema(n.kids[0], depth+1)
		schema.Describe(o, n.doc.description())
		b.constrain(o, n.doc)
		return o
	case oIntersection:
		return b.intersection(n, depth)
	case oTemplate:
		return b.template(n, depth)
	case oFunction:
		return b.fail(n.at, "a function cannot be passed as JSON: take a plain value")
	case oImport:
		return b.fail(n.at, imported("the type", n.name))
	case oRefused:
		return b.fail(n.at, n.name)
	}
	return b.name(n, depth)
}

// imported says what to do about a type of another module.
func imported(what, module string) string {
	return what + " comes from " + quote(module) + ", which is not read: declare it in this file"
}

// object writes a shape.
func (b *builder) object(s *shape, depth int) *schema.Object {
	o := schema.Obj("type", "object")
	if s == nil {
		return o
	}
	props := &schema.Object{}
	var required []any
	for _, m := range s.members {
		props.Set(m.name, b.property(m, depth))
		if !m.optional && !b.mayBeUndefined(m.typ) && !hasDefault(m.doc) {
			required = append(required, m.name)
		}
	}
	if props.Len() > 0 {
		o.Set("properties", props)
	}
	if len(required) > 0 {
		o.Set("required", required)
	}
	if s.index != nil {
		o.Set("additionalProperties", b.schema(s.index, depth+1))
	}
	return o
}

// hasDefault reports whether a comment gives a default.
func hasDefault(d *doc) bool { return d.find("default") != nil || d.find("defaultValue") != nil }

// property writes a member, with what its comment says.
func (b *builder) property(m *member, depth int) *schema.Object {
	if m.typ == nil {
		return b.fail(m.at, "the property "+quote(m.name)+" has no type")
	}
	o := b.schema(m.typ, depth+1)
	schema.Describe(o, m.doc.description())
	b.constrain(o, m.doc)
	return o
}

// union writes alternatives: literals as one enum, the rest as anyOf.
func (b *builder) union(kids []*node, n *node, depth int) *schema.Object {
	var values []any
	var others []any
	null := false
	seen := map[string]bool{}
	for _, k := range kids {
		switch {
		case isUndefined(k):
		case isNull(k):
			null = true
		case k.op == oLiteral:
			if id := fmt.Sprintf("%T %v", k.value, k.value); !seen[id] {
				seen[id] = true
				values = append(values, k.value)
			}
		default:
			o := b.schema(k, depth+1)
			if o.Len() == 0 {
				return o // any
			}
			if text, err := schema.Encode(o); err == nil && !seen[string(text)] {
				seen[string(text)] = true
				others = append(others, o)
			}
		}
	}
	if len(values) > 0 {
		if null && len(others) == 0 {
			values, null = append(values, nil), false
		}
		others = append([]any{enumOf(values)}, others...)
	}
	if null {
		others = append(others, schema.Obj("type", "null"))
	}
	switch len(others) {
	case 0:
		if len(b.problems) > 0 {
			return schema.Obj()
		}
		return b.fail(n.at, "no value fits this type")
	case 1:
		return others[0].(*schema.Object)
	}
	return schema.Obj("anyOf", others)
}

// enumOf writes literal values with the types that they have.
func enumOf(values []any) *schema.Object {
	var types []any
	has := map[string]bool{}
	for _, v := range values {
		has[schema.TypeName(v)] = true
	}
	for _, v := range values {
		t := schema.TypeName(v)
		if t == "integer" && has["number"] {
			t = "number"
		}
		if !slices.Contains(types, any(t)) {
			types = append(types, t)
		}
	}
	if len(types) == 1 && types[0] == "null" {
		return schema.Obj("type", "null")
	}
	if len(types) == 1 && types[0] == "boolean" && len(values) == 2 {
		return schema.Obj("type", "boolean")
	}
	if len(types) == 1 {
		return schema.Obj("type", types[0], "enum", values)
	}
	return schema.Obj("type", types, "enum", values)
}

// keyText returns a literal as the name of a property.
func keyText(v any) string { return fmt.Sprint(v) }

// jsonInt writes an integer.
func jsonInt(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

// intersection merges objects. A brand such as string & {__brand: "id"} is the
// plain type.
func (b *builder) intersection(n *node, depth int) *schema.Object {
	if s := b.shape(n, depth+1); s != nil {
		return b.object(s, depth)
	}
	var plain []*node
	for _, k := range n.kids {
		if k.op != oObject {
			plain = append(plain, k)
		}
	}
	if len(plain) == 1 && len(n.kids) == 2 {
		return b.schema(plain[0], depth+1)
	}
	for _, k := range n.kids { // the reason is in one of them
		b.schema(k, depth+1)
	}
	return b.fail(n.at, "only object types can be put together with &: write the type out")
}

// tuple writes an array of known places.
func (b *builder) tuple(n *node, depth int) *schema.Object {
	var items []any
	var rest any = false
	least := 0
	for i, k := range n.kids {
		e := n.elems[i]
		if e.rest {
			t := b.schema(k, depth+1)
			if i != len(n.kids)-1 || t.String("type") != "array" {
				return b.fail(k.at, "the rest of a tuple must be an array at its end")
			}
			rest = t.Value("items")
			continue
		}
		o := b.schema(k, depth+1)
		if e.label != "" && !o.Has("title") {
			o.Set("title", e.label)
		}
		items = append(items, o)
		if !e.optional {
			least = i + 1
		}
	}
	o := schema.Obj("type", "array")
	if len(items) > 0 {
		o.Set("prefixItems", items)
	}
	o.Set("items", rest)
	o.Set("minItems", jsonInt(int64(least)))
	if rest == false {
		o.Set("maxItems", jsonInt(int64(len(items))))
	}
	return o
}

// template writes a template literal type as a pattern.
func (b *builder) template(n *node, depth int) *schema.Object {
	var re strings.Builder
	re.WriteString("^" + regexp.QuoteMeta(n.texts[0]))
	for i, k := range n.kids {
		var parts []string
		for _, alt := range b.alternatives(k, depth+1) {
			switch {
			case alt.op == oLiteral && alt.value != nil:
				parts = append(parts, regexp.QuoteMeta(keyText(alt.value)))
			case alt.op == oName && alt.name == "string":
				parts = append(parts, `[\s\S]*`)
			case alt.op == oName && alt.name == "boolean":
				parts = append(parts, "true|false")
			case alt.op == oName && (alt.name == "number" || alt.name == "bigint"):
				parts = append(parts, `-?\d+(?:\.\d+)?`)
			default:
				return b.fail(alt.at, "this part of a template type has no pattern: use string, number or literals")
			}
		}
		re.WriteString("(?:" + strings.Join(parts, "|") + ")" + regexp.QuoteMeta(n.texts[i+1]))
	}
	return schema.Obj("type", "string", "pattern", re.String()+"$")
}
