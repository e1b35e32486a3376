package tsschema

import (
	"strings"

	"haft/internal/javascript"
	"haft/schema"
)

// A constVar is a variable of the top level, whose value typeof may ask for.
type constVar struct {
	at    int   // its first token, -1 without a value
	fixed bool  // it is a const, so that a plain value keeps its own type
	typ   *node // its type, once known
	// zod is the schema that it holds, once known, or zodErr why it is none.
	zod    *zodType
	zodErr *problem
}

// typeOfVar returns the type of a variable as TypeScript infers it, or nil if
// there is none of that name.
func (f *file) typeOfVar(name string) *node {
	v := f.vars[name]
	if v == nil {
		return nil
	}
	if v.typ == nil && v.at >= 0 {
		p := *f.parser
		p.i, p.err = v.at, nil
		v.typ = p.value(false, v.fixed, 0)
	}
	return v.typ
}

// computed refuses a value that is not written out.
func (p *parser) computed(at int) *node {
	return refused(at, "the value is computed: write its type out")
}

// value reads an expression as the type that TypeScript infers for it. With
// frozen it stands in an "as const". With fixed it is the value of a const.
func (p *parser) value(frozen, fixed bool, depth int) *node {
	start, at := p.i, p.at()
	p.skipExpr()
	end := p.i
	if p.err != nil || depth > maxTypeDepth {
		p.err, p.i = nil, end
		return p.computed(at)
	}
	p.i = start
	frozen = frozen || p.asConst(start, end)
	var n *node
	ok := p.try(func() {
		n = p.plainValue(frozen, fixed, depth)
		for (p.is("as") || p.is("satisfies")) && p.err == nil {
			asserts := p.is("as")
			p.next()
			if p.accept("const") {
				continue
			}
			if t := p.typ(); asserts {
				n = t
			}
		}
	})
	if !ok || p.i != end {
		n = p.computed(at)
	}
	p.i = end
	return n
}

// asConst reports whether "as const" follows the value in tokens[start:end].
func (p *parser) asConst(start, end int) bool {
	for i := start; i < end; i++ {
		if m := p.tokens[i].Match; m > i {
			i = m
			continue
		}
		if p.textAt(i) == "as" && p.textAt(i+1) == "const" && p.kindAt(i) == javascript.Ident {
			return true
		}
	}
	return false
}

// plainValue reads a value without what is asserted about it.
func (p *parser) plainValue(frozen, fixed bool, depth int) *node {
	at := p.at()
	switch {
	case p.is("["):
		return p.arrayValue(frozen, depth)
	case p.is("{"):
		return p.objectValue(frozen, depth)
	case p.is("("):
		p.next()
		n := p.value(frozen, fixed, depth+1)
		p.expect(")")
		return n
	case p.peek().Kind == javascript.Ident && p.text() != "true" && p.text() != "false" && p.text() != "null":
		if p.accept("undefined") {
			return &node{op: oName, at: at, name: "undefined"}
		}
		return p.typeofName()
	}
	v, ok := p.scalar()
	if !ok {
		p.fail("no constant")
	}
	if frozen || fixed || v == nil {
		return &node{op: oLiteral, at: at, value: v}
	}
	return typeOfConstant(v, at)
}

// typeOfConstant returns the type string, number, boolean or null of a constant.
func typeOfConstant(v any, at int) *node {
	return &node{op: oName, at: at, name: strings.Replace(schema.TypeName(v), "integer", "number", 1)}
}

// typeofName reads a.b.c, as it stands behind typeof.
func (p *parser) typeofName() *node {
	n := &node{op: oTypeof, at: p.at(), name: p.text()}
	p.next()
	for p.is(".") && p.kindAt(p.i+1) == javascript.Ident {
		p.next()
		n.texts = append(n.texts, p.text())
		p.next()
	}
	return n
}

// arrayValue reads [a, b, ...c]: places if it is frozen, else an array.
func (p *parser) arrayValue(frozen bool, depth int) *node {
	n := &node{op: oTuple, at: p.at()}
	p.list("[", "]", func() {
		rest := p.accept("...")
		n.kids = append(n.kids, p.value(frozen, false, depth+1))
		n.elems = append(n.elems, elem{rest: rest})
	})
	if frozen {
		return n
	}
	if len(n.kids) == 0 {
		return p.computed(n.at)
	}
	return &node{op: oArray, at: n.at, kids: []*node{anyElement(n)}}
}

// anyElement returns the type of tuple[number].
func anyElement(tuple *node) *node {
	u := &node{op: oUnion, at: tuple.at}
	for i, k := range tuple.kids {
		if tuple.elems[i].rest {
			k = &node{op: oIndexed, at: k.at, kids: []*node{k, {op: oName, at: k.at, name: "number"}}}
		}
		u.kids = append(u.kids, k)
	}
	return u
}

// objectValue reads { a: 1, b, ...c, d() {} }.
func (p *parser) objectValue(frozen bool, depth int) *node {
	own := &node{op: oObject, at: p.at()}
	parts := []*node{own}
	p.list("{", "}", func() {
		if p.accept("...") {
			own = &node{op: oObject, at: p.at()}
			parts = append(parts, p.value(frozen, false, depth+1), own)
		} else {
			own.members = append(own.members, p.memberValue(frozen, depth))
		}
	})
	if len(parts) == 1 {
		return own
	}
	return &node{op: oIntersection, at: parts[0].at, kids: parts}
}

// memberValue reads one property of an object.
func (p *parser) memberValue(frozen bool, depth int) *member {
	m := &member{at: p.at(), doc: p.docBefore(p.i, true)}
	m.typ = &node{op: oFunction, at: m.at}
	if fn := p.method(); fn != nil {
		m.name = fn.name
		return m
	}
	name, ok := p.propertyName()
	if !ok {
		p.fail("the name is computed")
	}
	m.name = name
	switch {
	case p.accept(":"):
		m.typ = p.value(frozen, false, depth+1)
	case p.is(",") || p.is("}"):
		m.typ = &node{op: oTypeof, at: m.at, name: name}
	default:
		p.fail("no property")
	}
	return m
}
