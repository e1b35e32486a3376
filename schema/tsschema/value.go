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

// exprReader returns a reader that begins at a token of the source.
func (f *file) exprReader(token int) *exprReader {
	return newExprReader(&cursor{source: f.source, tokens: f.source.Tokens, i: token})
}

// typeOfVar returns the type of a variable as TypeScript infers it, or nil if
// there is none of that name.
func (f *file) typeOfVar(name string) *node {
	v := f.vars[name]
	if v == nil {
		return nil
	}
	if v.typ == nil && v.at >= 0 {
		v.typ = f.exprReader(v.at).value(false, v.fixed, 0)
	}
	return v.typ
}

// computed refuses a value that is not written out.
func computed(at int) *node {
	return refused(at, "the value is computed: write its type out")
}

// value reads an expression as the type that TypeScript infers for it. With
// frozen it stands in an "as const". With fixed it is the value of a const.
func (r *exprReader) value(frozen, fixed bool, depth int) *node {
	start, at := r.c.i, r.c.at()
	r.skipExpr()
	end := r.c.i
	if r.c.err != nil || depth > maxTypeDepth {
		r.c.err, r.c.i = nil, end
		return computed(at)
	}
	r.c.i = start
	frozen = frozen || r.asConst(start, end)
	var n *node
	ok := r.c.try(func() {
		n = r.plainValue(frozen, fixed, depth)
		for (r.c.is("as") || r.c.is("satisfies")) && r.c.err == nil {
			asserts := r.c.is("as")
			r.c.next()
			if r.c.accept("const") {
				continue
			}
			if t := r.types.typ(); asserts {
				n = t
			}
		}
	})
	if !ok || r.c.i != end {
		n = computed(at)
	}
	r.c.i = end
	return n
}

// asConst reports whether "as const" follows the value in tokens[start:end].
func (r *exprReader) asConst(start, end int) bool {
	for i := start; i < end; i++ {
		if m := r.c.tokens[i].Match; m > i {
			i = m
			continue
		}
		if r.c.textAt(i) == "as" && r.c.textAt(i+1) == "const" && r.c.kindAt(i) == javascript.Ident {
			return true
		}
	}
	return false
}

// plainValue reads a value without what is asserted about it.
func (r *exprReader) plainValue(frozen, fixed bool, depth int) *node {
	at := r.c.at()
	switch {
	case r.c.is("["):
		return r.arrayValue(frozen, depth)
	case r.c.is("{"):
		return r.objectValue(frozen, depth)
	case r.c.is("("):
		r.c.next()
		n := r.value(frozen, fixed, depth+1)
		r.c.expect(")")
		return n
	case r.c.peek().Kind == javascript.Ident && r.c.text() != "true" && r.c.text() != "false" && r.c.text() != "null":
		if r.c.accept("undefined") {
			return &node{op: oName, at: at, name: "undefined"}
		}
		return r.typeofName()
	}
	v, ok := r.scalar()
	if !ok {
		r.c.fail("no constant")
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
func (r *exprReader) typeofName() *node {
	n := &node{op: oTypeof, at: r.c.at(), name: r.c.text()}
	r.c.next()
	for r.c.is(".") && r.c.kindAt(r.c.i+1) == javascript.Ident {
		r.c.next()
		n.texts = append(n.texts, r.c.text())
		r.c.next()
	}
	return n
}

// arrayValue reads [a, b, ...c]: places if it is frozen, else an array.
func (r *exprReader) arrayValue(frozen bool, depth int) *node {
	n := &node{op: oTuple, at: r.c.at()}
	r.c.list("[", "]", func() {
		rest := r.c.accept("...")
		n.kids = append(n.kids, r.value(frozen, false, depth+1))
		n.elems = append(n.elems, elem{rest: rest})
	})
	if frozen {
		return n
	}
	if len(n.kids) == 0 {
		return computed(n.at)
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
func (r *exprReader) objectValue(frozen bool, depth int) *node {
	own := &node{op: oObject, at: r.c.at()}
	parts := []*node{own}
	r.c.list("{", "}", func() {
		if r.c.accept("...") {
			own = &node{op: oObject, at: r.c.at()}
			parts = append(parts, r.value(frozen, false, depth+1), own)
		} else {
			own.members = append(own.members, r.memberValue(frozen, depth))
		}
	})
	if len(parts) == 1 {
		return own
	}
	return &node{op: oIntersection, at: parts[0].at, kids: parts}
}

// memberValue reads one property of an object.
func (r *exprReader) memberValue(frozen bool, depth int) *member {
	m := &member{at: r.c.at(), doc: r.c.docBefore(r.c.i, true)}
	m.typ = &node{op: oFunction, at: m.at}
	if fn := r.method(); fn != nil {
		m.name = fn.name
		return m
	}
	name, ok := r.c.propertyName()
	if !ok {
		r.c.fail("the name is computed")
	}
	m.name = name
	switch {
	case r.c.accept(":"):
		m.typ = r.value(frozen, false, depth+1)
	case r.c.is(",") || r.c.is("}"):
		m.typ = &node{op: oTypeof, at: m.at, name: name}
	default:
		r.c.fail("no property")
	}
	return m
}
