package tsschema

import (
	"strings"

	"haft/internal/javascript"
)

// objectType reads { a: T; b?: U; [key: string]: V }.
func (r *typeReader) objectType() *node {
	n := &node{op: oObject, at: r.c.at()}
	end := r.c.peek().Match
	r.c.expect("{")
	for r.c.err == nil && r.c.i < end {
		before := r.c.i
		r.member(n)
		if r.c.i == before {
			r.c.fail("a member of the type is expected here")
		}
		if !r.c.accept(";") && !r.c.accept(",") && r.c.i < end && !r.c.peek().NewLine {
			r.c.fail("the member of the type does not end here")
		}
	}
	r.c.expect("}")
	for _, m := range n.members {
		if m.doc == nil {
			m.doc = trailingNote(r.c.source, m.at)
		}
	}
	return n
}

// member reads one member into n.
func (r *typeReader) member(n *node) {
	m := &member{at: r.c.at(), doc: r.c.docBefore(r.c.i, true)}
	for (r.c.is("readonly") || r.c.is("public") || r.c.is("static")) && r.c.endsName(r.c.i+1) {
		r.c.next()
	}
	minus := false
	if (r.c.is("-") || r.c.is("+")) && r.c.textAt(r.c.i+1) == "readonly" {
		minus = true
		r.c.next()
		r.c.next()
	}
	if r.c.is("[") && (minus || r.c.textAt(r.c.i+2) == ":" || r.c.textAt(r.c.i+2) == "in") {
		r.indexSignature(n)
		return
	}
	if r.c.is("(") || r.c.is("<") || r.c.is("new") && r.c.textAt(r.c.i+1) == "(" {
		r.callSignature(n)
		return
	}
	if (r.c.is("get") || r.c.is("set")) && r.c.endsName(r.c.i+1) {
		r.c.next()
	}
	name, ok := r.c.propertyName()
	if !ok {
		r.c.fail("the name of a property is expected here")
		return
	}
	m.name = name
	m.optional = r.c.accept("?")
	switch {
	case r.c.is("(") || r.c.is("<"):
		m.typ = &node{op: oFunction, at: m.at}
		r.c.toEndOfMember()
	case r.c.accept(":"):
		m.typ = r.typ()
	}
	n.members = append(n.members, m)
}

// callSignature reads (a: T): R, which makes a type of functions of n.
func (r *typeReader) callSignature(n *node) {
	f := node{op: oFunction, at: n.at}
	if !r.c.try(func() {
		if r.c.is("<") {
			r.typeParams()
		}
		f.params = r.params()
		if r.c.accept(":") {
			f.result = r.typ()
		}
	}) {
		r.c.toEndOfMember()
	}
	*n = f
}

// indexSignature reads [key: string]: T, and refuses [K in T]: U.
func (r *typeReader) indexSignature(n *node) {
	if r.c.textAt(r.c.i+2) == "in" {
		*n = *refused(n.at, "a mapped type has no schema: write its properties out, or use Record")
		r.c.skipGroup()
		r.c.toEndOfMember()
		return
	}
	r.c.skipGroup()
	r.c.accept("?")
	r.c.expect(":")
	t := r.typ()
	if n.op == oObject {
		n.index = t
	}
}

// params reads the parameters of a function.
func (r *typeReader) params() []*param {
	var list []*param
	r.c.list("(", ")", func() {
		if q := r.param(); q.name != "this" {
			list = append(list, q)
		}
	})
	return list
}

// param reads one parameter.
func (r *typeReader) param() *param {
	for strings.HasPrefix(r.c.text(), "@") && r.c.err == nil { // a decorator
		r.c.next()
		if r.c.is("(") {
			r.c.skipGroup()
		}
	}
	for (r.c.is("public") || r.c.is("private") || r.c.is("readonly")) && r.c.kindAt(r.c.i+1) == javascript.Ident {
		r.c.next()
	}
	q := &param{at: r.c.at()}
	q.rest = r.c.accept("...")
	switch {
	case r.c.is("{"):
		q.object = true
		q.pattern = r.objectPattern()
	case r.c.is("["):
		r.c.skipGroup()
	case r.c.peek().Kind == javascript.Ident:
		q.name = r.c.text()
		r.c.next()
	default:
		r.c.fail("the name of a parameter is expected here")
	}
	q.optional = r.c.accept("?")
	if r.c.accept(":") {
		q.typ = r.typ()
	}
	q.fallback = r.defaultValue()
	return q
}

// defaultValue reads = and a value, or returns nil.
func (r *typeReader) defaultValue() *defaultValue {
	if !r.c.accept("=") {
		return nil
	}
	d := r.exprs.literal()
	return &d
}

// objectPattern reads { a, b: c = 2, ...rest }.
func (r *typeReader) objectPattern() []*binding {
	var list []*binding
	r.c.list("{", "}", func() {
		b := &binding{at: r.c.at()}
		rest := r.c.accept("...")
		name, ok := r.c.propertyName()
		if !ok {
			r.c.fail("the name of a property is expected here")
		}
		b.name = name
		if r.c.accept(":") {
			r.c.step()
		}
		b.fallback = r.defaultValue()
		if !rest {
			list = append(list, b)
		}
	})
	return list
}

// refused makes a type that has no schema, for the reason given.
func refused(at int, reason string) *node { return &node{op: oRefused, at: at, name: reason} }
