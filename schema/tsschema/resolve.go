package tsschema

import (
	"cmp"
	"slices"
	"strings"
)

// A shape is an object type with everything that it inherits.
type shape struct {
	members []*member
	place   map[string]int // of members, by name
	index   *node
}

// get returns the member of a name, or nil.
func (s *shape) get(name string) *member {
	if i, ok := s.place[name]; ok {
		return s.members[i]
	}
	return nil
}

// set adds a member; a later one of the same name stands in its place.
func (s *shape) set(m *member) {
	if i, ok := s.place[m.name]; ok {
		if m.doc == nil && s.members[i].doc != nil {
			c := *m
			c.doc = s.members[i].doc
			m = &c
		}
		s.members[i] = m
		return
	}
	if s.place == nil {
		s.place = map[string]int{}
	}
	s.place[m.name] = len(s.members)
	s.members = append(s.members, m)
}

// setAll adds members.
func (s *shape) setAll(members []*member) {
	for _, m := range members {
		s.set(m)
	}
}

// shape returns the properties of an object type, or nil if n is none. It
// reports a problem only for types that could be objects.
func (b *builder) shape(n *node, depth int) *shape {
	if !b.visit(n, depth) {
		return nil
	}
	if t, ok := b.target(n, depth); ok {
		if t == nil {
			return nil
		}
		return b.shape(t, depth+1)
	}
	switch n.op {
	case oRefined:
		return b.shape(n.kids[0], depth+1)
	case oObject:
		b.visitsLeft -= len(n.members)
		s := &shape{index: n.index}
		s.setAll(n.members)
		return s
	case oIntersection:
		return b.merge(n.kids, depth)
	case oName:
		return b.namedShape(n, depth)
	}
	return nil
}

// merge puts object types together, or returns nil if one is none.
func (b *builder) merge(kids []*node, depth int) *shape {
	s := &shape{}
	for _, k := range kids {
		part := b.shape(k, depth+1)
		if part == nil {
			return nil
		}
		s.setAll(part.members)
		s.index = cmp.Or(part.index, s.index)
	}
	return s
}

// namedShape returns the shape of an interface, an alias or a utility type.
func (b *builder) namedShape(n *node, depth int) *shape {
	d := b.file.types[n.name]
	if d == nil {
		return b.utilityShape(n, depth)
	}
	if d.err != nil || d.generic || d.typ == nil {
		return nil // schema says why
	}
	if len(d.extends) == 0 {
		return b.shape(d.typ, depth+1)
	}
	s := b.merge(append(slices.Clone(d.extends), d.typ), depth)
	if s == nil && !b.overBound {
		b.fail(d.at, quote(d.name)+" extends something that is not an object type of this file")
	}
	return s
}

// utilityShape knows the types of TypeScript that make objects of objects.
func (b *builder) utilityShape(n *node, depth int) *shape {
	arity := map[string]int{"Partial": 1, "Required": 1, "Readonly": 1, "NonNullable": 1, "Pick": 2, "Omit": 2,
		"Record": 2}[n.name]
	if arity == 0 || len(n.kids) != arity {
		return nil
	}
	if n.name == "Record" {
		return b.recordShape(n, depth)
	}
	from := b.shape(n.kids[0], depth+1)
	if from == nil {
		return nil
	}
	s := &shape{index: from.index}
	var keys []string
	if arity == 2 {
		var ok bool
		if keys, ok = b.keys(n.kids[1], depth+1); !ok {
			return nil
		}
	}
	for _, m := range from.members {
		c := *m
		switch n.name {
		case "Partial":
			c.optional = true
		case "Required":
			c.optional = false
		case "Pick", "Omit":
			if slices.Contains(keys, m.name) != (n.name == "Pick") {
				continue
			}
		}
		s.set(&c)
	}
	return s
}

// recordShape returns Record<"a" | "b", T> and Record<string, T>.
func (b *builder) recordShape(n *node, depth int) *shape {
	keys, ok := b.keys(n.kids[0], depth+1)
	if !ok {
		return &shape{index: n.kids[1]}
	}
	s := &shape{}
	for _, k := range keys {
		s.set(&member{name: k, at: n.at, typ: n.kids[1]})
	}
	return s
}

// keys returns the texts that a type of keys allows.
func (b *builder) keys(n *node, depth int) ([]string, bool) {
	var keys []string
	for _, k := range b.alternatives(n, depth) {
		if k.op != oLiteral {
			return nil, false
		}
		keys = append(keys, keyText(k.value))
	}
	return keys, len(keys) > 0
}

// alternatives returns what a union comes to when the names in it that stand
// for unions are replaced by what they stand for.
func (b *builder) alternatives(n *node, depth int) []*node {
	if !b.visit(n, depth) {
		return nil
	}
	if t, ok := b.target(n, depth); ok {
		if t == nil {
			return nil
		}
		return b.alternatives(t, depth+1)
	}
	switch n.op {
	case oUnion:
		var all []*node
		for _, k := range n.kids {
			all = append(all, b.alternatives(k, depth+1)...)
		}
		return all
	case oKeyof:
		return b.keyof(n, depth)
	case oName:
		d := b.file.types[n.name]
		if d != nil && d.err == nil && !d.generic && !b.building[n.name] && d.typ != nil && !d.doc.constrains() {
			switch d.typ.op {
			case oUnion, oLiteral, oKeyof, oIndexed, oTypeof:
				return b.alternatives(d.typ, depth+1)
			case oName:
				if b.file.types[d.typ.name] != nil || b.enumMember(d.typ.name) != nil {
					return b.alternatives(d.typ, depth+1)
				}
			}
		}
		if (n.name == "Exclude" || n.name == "Extract") && len(n.kids) == 2 && d == nil {
			return b.exclude(n, depth)
		}
		if n.name == "NonNullable" && len(n.kids) == 1 && d == nil {
			return slices.DeleteFunc(b.alternatives(n.kids[0], depth+1),
				func(k *node) bool { return isNull(k) || isUndefined(k) })
		}
	}
	return []*node{n}
}

// exclude returns the literals of one union that are, or are not, in another.
func (b *builder) exclude(n *node, depth int) []*node {
	keys, _ := b.keys(n.kids[1], depth+1)
	return slices.DeleteFunc(b.alternatives(n.kids[0], depth+1), func(k *node) bool {
		in := k.op == oLiteral && slices.Contains(keys, keyText(k.value))
		return in == (n.name == "Exclude")
	})
}

// keyof returns the names of an object type as literals.
func (b *builder) keyof(n *node, depth int) []*node {
	s := b.shape(n.kids[0], depth+1)
	if s == nil || len(s.members) == 0 {
		b.fail(n.at, "keyof needs an object type of this file")
		return nil
	}
	var all []*node
	for _, m := range s.members {
		all = append(all, &node{op: oLiteral, at: n.at, value: m.name})
	}
	return all
}

// isNull and isUndefined know the two kinds of nothing.
func isNull(n *node) bool { return n.op == oLiteral && n.value == nil }

func isUndefined(n *node) bool {
	return n.op == oName && (n.name == "undefined" || n.name == "void") && len(n.kids) == 0
}

// mayBeUndefined reports whether a union allows undefined.
func (b *builder) mayBeUndefined(n *node) bool {
	if n == nil || n.op != oUnion && n.op != oName && n.op != oIndexed {
		return false
	}
	return slices.ContainsFunc(b.alternatives(n, 0), isUndefined)
}

// constrains reports whether a comment has tags that belong to a type.
func (d *doc) constrains() bool {
	if d == nil {
		return false
	}
	return slices.ContainsFunc(d.tags, func(t tag) bool {
		return numberTags[t.name] || textTags[t.name] || strings.EqualFold(t.name, "integer")
	})
}
