package schemacase

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"haft/schema"
)

// Bounds of what is made.
const (
	maxDepth  = 12     // then only what is required
	maxNodes  = 2_000  // of one case
	maxString = 10_000 // characters, where the schema allows more
	maxItems  = 200
)

// A maker makes one value.
type maker struct {
	r       *rand.Rand
	root    *schema.Object
	kind    Kind
	nodes   int
	hostile bool // a hostile text is part of the value
}

// value makes a value of a schema. Whether it really fits is seen by whoever asked.
func (m *maker) value(node any, depth int) any {
	s, ok := node.(*schema.Object)
	m.nodes++
	if !ok || m.nodes > maxNodes || depth > 2*maxDepth {
		return nil
	}
	s = m.resolved(s, depth)
	switch {
	case s.Has("const"):
		return s.Value("const")
	case len(s.Array("enum")) > 0:
		return m.oneOf(s.Array("enum"))
	case m.kind == Valid && len(s.Array("examples")) > 0 && m.r.IntN(3) == 0:
		return m.oneOf(s.Array("examples"))
	}
	switch m.typeOf(s) {
	case "object":
		return m.object(s, depth)
	case "array":
		return m.array(s, depth)
	case "integer":
		return m.number(s, true)
	case "number":
		return m.number(s, false)
	case "boolean":
		return m.r.IntN(2) == 0
	case "null":
		return nil
	}
	return m.text(s)
}

// oneOf picks a value of a list, the first or the last at the boundary.
func (m *maker) oneOf(list []any) any {
	if m.kind == Boundary {
		return schema.Clone(list[m.r.IntN(2)*(len(list)-1)])
	}
	return schema.Clone(list[m.r.IntN(len(list))])
}

// resolved follows references and puts one branch of anyOf and oneOf, and all of allOf, into one
// schema.
func (m *maker) resolved(s *schema.Object, depth int) *schema.Object {
	for range maxDepth {
		var parts []any
		rest := merge(&schema.Object{}, s)
		if ref := s.String("$ref"); ref != "" {
			parts = append(parts, m.definition(ref))
			rest.Delete("$ref")
		}
		for _, keyword := range []string{"anyOf", "oneOf"} {
			if branches := s.Array(keyword); len(branches) > 0 {
				i := m.r.IntN(len(branches))
				if depth > maxDepth { // the simple branch, such as null, usually stands last
					i = len(branches) - 1
				}
				parts = append(parts, branches[i])
				rest.Delete(keyword)
			}
		}
		parts = append(parts, s.Array("allOf")...)
		rest.Delete("allOf")
		if len(parts) == 0 {
			return s
		}
		for _, p := range parts {
			rest = merge(rest, p)
		}
		s = rest
	}
	return s
}

// definition returns what a reference within the schema leads to.
func (m *maker) definition(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return true
	}
	var at any = m.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		o, ok := at.(*schema.Object)
		if !ok || path == "" {
			break
		}
		at = o.Value(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return at
}

// merge returns a schema that asks for what both ask for, as far as one step can say it.
func merge(a *schema.Object, with any) *schema.Object {
	b, ok := with.(*schema.Object)
	if !ok {
		return a
	}
	out := &schema.Object{}
	for _, key := range a.Keys() {
		out.Set(key, a.Value(key))
	}
	for _, key := range b.Keys() {
		v := b.Value(key)
		switch key {
		case "properties":
			if properties := out.Object("properties"); properties != nil {
				v = merge(properties, v)
			}
		case "required":
			if list, ok := v.([]any); ok {
				v = slices.Concat(out.Array("required"), list)
			}
		case "description", "title", "default":
			if out.Has(key) {
				continue
			}
		}
		out.Set(key, v)
	}
	return out
}

// typeOf is the type of the value to make: a declared one, or the one that the keywords are about.
func (m *maker) typeOf(s *schema.Object) string {
	switch t := s.Value("type").(type) {
	case string:
		return t
	case []any:
		name, _ := m.oneOf(t).(string)
		return name
	}
	for _, about := range []struct{ keyword, typ string }{
		{"properties", "object"}, {"additionalProperties", "object"}, {"items", "array"}, {"prefixItems", "array"},
		{"minimum", "number"}, {"maximum", "number"}, {"multipleOf", "number"},
	} {
		if s.Has(about.keyword) {
			return about.typ
		}
	}
	return "string"
}

func (m *maker) object(s *schema.Object, depth int) *schema.Object {
	out := &schema.Object{}
	all := m.r.IntN(2) == 0
	properties := s.Object("properties")
	if properties == nil {
		properties = &schema.Object{}
	}
	for _, name := range properties.Keys() {
		wanted := slices.Contains(s.Array("required"), any(name))
		switch {
		case wanted:
		case depth > maxDepth, m.kind == Boundary && !all, m.kind != Boundary && m.r.IntN(2) == 0:
			continue
		}
		out.Set(name, m.value(properties.Value(name), depth+1))
	}
	more := s.Value("additionalProperties")
	_, open := more.(*schema.Object)
	least := int(m.bound(s, 0, "minProperties"))
	for i := out.Len(); i < min(least, maxItems) || open && depth < maxDepth && i < 3 && m.r.IntN(2) == 0; i++ {
		out.Set("key"+strconv.Itoa(i), m.value(more, depth+1))
	}
	return out
}

func (m *maker) array(s *schema.Object, depth int) []any {
	out := []any{}
	for _, item := range s.Array("prefixItems") {
		out = append(out, m.value(item, depth+1))
	}
	least, most := m.bound(s, 0, "minItems"), min(m.bound(s, 4, "maxItems"), maxItems)
	if depth > maxDepth {
		most = least
	}
	items := s.Value("items")
	if items == nil {
		items = schema.Obj("type", "string")
	}
	for n := m.between(least, most); float64(len(out)) < n && m.nodes < maxNodes; {
		v := m.value(items, depth+1)
		if unique, _ := s.Value("uniqueItems").(bool); unique && contains(out, v) {
			n--
			continue
		}
		out = append(out, v)
	}
	return out
}

func contains(list []any, v any) bool {
	text, err := schema.Encode(v)
	return err == nil && slices.ContainsFunc(list, func(w any) bool {
		other, err := schema.Encode(w)
		return err == nil && string(other) == string(text)
	})
}

// bound returns the number that a keyword gives, or another one.
func (m *maker) bound(s *schema.Object, otherwise float64, keyword string) float64 {
	n, ok := s.Value(keyword).(json.Number)
	if !ok {
		return otherwise
	}
	f, err := n.Float64()
	if err != nil {
		return otherwise
	}
	return f
}

// between picks a whole number, one of the two ends at the boundary.
func (m *maker) between(least, most float64) float64 {
	most = max(least, most)
	if math.IsNaN(most - least) {
		return 0
	}
	if m.kind == Boundary {
		return [...]float64{least, most}[m.r.IntN(2)]
	}
	return least + float64(m.r.Int64N(int64(min(most-least, 1<<53))+1))
}

func (m *maker) number(s *schema.Object, whole bool) any {
	step := m.bound(s, 1, "multipleOf")
	least := m.bound(s, math.Inf(-1), "minimum")
	most := m.bound(s, math.Inf(1), "maximum")
	least = max(least, m.bound(s, math.Inf(-1), "exclusiveMinimum")+step)
	most = min(most, m.bound(s, math.Inf(1), "exclusiveMaximum")-step)
	far := 1000 * step
	if m.kind == Boundary {
		far = float64(int64(1) << 53)
	}
	switch { // what is open at one end begins at the other
	case math.IsInf(least, 0) && math.IsInf(most, 0):
		least, most = -far, far
	case math.IsInf(least, 0):
		least = most - far
	case math.IsInf(most, 0):
		most = least + far
	}
	from, to := math.Ceil(least/step), math.Floor(most/step)
	n := m.between(from, to) * step
	if m.kind == Boundary && m.r.IntN(3) == 0 && least <= 0 && most >= 0 {
		n = 0
	}
	if !whole && !s.Has("multipleOf") && m.kind != Boundary && n+0.5 <= most {
		n += 0.5
	}
	return json.Number(strconv.FormatFloat(n, 'f', -1, 64))
}
