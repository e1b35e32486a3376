package tsschema

import "strings"

// target returns what n stands for, if it only points at another type: the
// variable behind typeof, a member of a type or of an enum, a schema of zod. It returns
// nil and true where that is not known, after it has reported why.
func (b *builder) target(n *node, depth int) (*node, bool) {
	switch n.op {
	case oTypeof:
		return b.variable(n, depth), true
	case oIndexed:
		return b.indexed(n, depth), true
	case oName:
		if t := b.enumMember(n.name); t != nil {
			return t, true
		}
		return b.inferred(n)
	}
	return nil, false
}

// enumMember returns the literal that Enum.Member is, or nil.
func (b *builder) enumMember(name string) *node {
	enum, member, ok := strings.Cut(name, ".")
	if d := b.file.types[enum]; ok && d != nil && d.enum && d.typ.op == oUnion {
		for _, k := range d.typ.kids {
			if k.name == member {
				return k
			}
		}
	}
	return nil
}

// variable returns the type of typeof a.b.c.
func (b *builder) variable(n *node, depth int) *node {
	t := b.file.typeOfVar(n.name)
	if d := b.file.types[n.name]; t == nil && d != nil && d.enum && d.typ.op == oUnion {
		t = &node{op: oObject, at: n.at}
		for _, k := range d.typ.kids {
			t.members = append(t.members, &member{name: k.name, at: k.at, typ: k})
		}
	}
	if t == nil {
		if module, ok := b.file.imports[n.name]; ok {
			b.fail(n.at, imported(quote(n.name), module))
			return nil
		}
		b.fail(n.at, "no constant "+quote(n.name)+" is declared in this file: declare a type and use its name")
		return nil
	}
	for _, name := range n.texts {
		depth++
		s := b.shape(t, depth)
		if s == nil || s.get(name) == nil || s.get(name).typ == nil {
			b.fail(n.at, quote(name)+" is not known here: declare a type and use its name")
			return nil
		}
		t = s.get(name).typ
	}
	return t
}

// indexed returns the type of T["a"], T["a" | "b"] and T[number].
func (b *builder) indexed(n *node, depth int) *node {
	index := n.kids[1]
	if list := b.list(n.kids[0], depth+1); list != nil {
		if t := element(list, index); t != nil {
			return t
		}
	} else if s := b.shape(n.kids[0], depth+1); s != nil {
		if t := b.memberTypes(s, index, n.at, depth); t != nil {
			return t
		}
	}
	b.schema(n.kids[0], depth+1) // the reason may be in there
	if len(b.problems) == 0 {
		b.fail(n.at, "the type at this index is not known: write it out")
	}
	return nil
}

// memberTypes returns the union of the properties that index names, or nil.
func (b *builder) memberTypes(s *shape, index *node, at, depth int) *node {
	u := &node{op: oUnion, at: at}
	keys, ok := b.keys(index, depth+1)
	if !ok {
		return s.index
	}
	for _, k := range keys {
		m := s.get(k)
		if m == nil || m.typ == nil {
			return nil
		}
		u.kids = append(u.kids, m.typ)
		if m.optional {
			u.kids = append(u.kids, &node{op: oName, at: at, name: "undefined"})
		}
	}
	if len(u.kids) == 1 {
		return u.kids[0]
	}
	return u
}

// element returns the type of list[number] or list[0], or nil.
func element(list, index *node) *node {
	if list.op == oArray {
		return list.kids[0]
	}
	if index.op == oName && index.name == "number" && len(list.kids) > 0 {
		return anyElement(list)
	}
	if i, ok := bigInt(index.value); ok && i.IsInt64() && i.Int64() >= 0 && i.Int64() < int64(len(list.kids)) &&
		!list.elems[i.Int64()].rest {
		return list.kids[i.Int64()]
	}
	return nil
}

// list returns the array or tuple that n comes to, or nil.
func (b *builder) list(n *node, depth int) *node {
	for ; n != nil && b.visit(n, depth); depth++ {
		t, ok := b.target(n, depth)
		switch {
		case ok:
			n = t
		case n.op == oTuple || n.op == oArray:
			return n
		case n.op == oName && (n.name == "Array" || n.name == "ReadonlyArray") && len(n.kids) == 1 &&
			b.file.types[n.name] == nil:
			return &node{op: oArray, at: n.at, kids: n.kids}
		default:
			n = b.aliased(n)
		}
	}
	return nil
}

// aliased returns the type that a name of this file stands for, or nil.
func (b *builder) aliased(n *node) *node {
	if n.op == oRefined {
		return n.kids[0]
	}
	if n.op != oName || len(n.kids) > 0 {
		return nil
	}
	if d := b.file.types[n.name]; d != nil && d.err == nil && !d.generic && len(d.extends) == 0 {
		return d.typ
	}
	return nil
}

// functionType returns the type of functions that n comes to, or nil.
func (b *builder) functionType(n *node, depth int) *node {
	for ; n != nil && b.visit(n, depth); depth++ {
		if n.op == oFunction {
			return n
		}
		t, ok := b.target(n, depth)
		if !ok {
			t = b.aliased(n)
		}
		n = t
	}
	return nil
}
