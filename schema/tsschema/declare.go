package tsschema

import (
	"cmp"
	"strings"

	"haft/internal/javascript"
)

// objectType reads { a: T; b?: U; [key: string]: V }.
func (p *parser) objectType() *node {
	n := &node{op: oObject, at: p.at()}
	end := p.peek().Match
	p.expect("{")
	for p.err == nil && p.i < end {
		before := p.i
		p.member(n)
		if p.i == before {
			p.fail("a member of the type is expected here")
		}
		if !p.accept(";") && !p.accept(",") && p.i < end && !p.peek().NewLine {
			p.fail("the member of the type does not end here")
		}
	}
	p.expect("}")
	for _, m := range n.members {
		if m.doc == nil {
			m.doc = p.trailingNote(m.at)
		}
	}
	return n
}

// member reads one member into n.
func (p *parser) member(n *node) {
	m := &member{at: p.at(), doc: p.docBefore(p.i, true)}
	for (p.is("readonly") || p.is("public") || p.is("static")) && p.endsName(p.i+1) {
		p.next()
	}
	minus := false
	if (p.is("-") || p.is("+")) && p.textAt(p.i+1) == "readonly" {
		minus = true
		p.next()
		p.next()
	}
	if p.is("[") && (minus || p.textAt(p.i+2) == ":" || p.textAt(p.i+2) == "in") {
		p.indexSignature(n)
		return
	}
	if p.is("(") || p.is("<") || p.is("new") && p.textAt(p.i+1) == "(" {
		p.callSignature(n)
		return
	}
	if (p.is("get") || p.is("set")) && p.endsName(p.i+1) {
		p.next()
	}
	name, ok := p.propertyName()
	if !ok {
		p.fail("the name of a property is expected here")
		return
	}
	m.name = name
	m.optional = p.accept("?")
	switch {
	case p.is("(") || p.is("<"):
		m.typ = &node{op: oFunction, at: m.at}
		p.toEndOfMember()
	case p.accept(":"):
		m.typ = p.typ()
	}
	n.members = append(n.members, m)
}

// callSignature reads (a: T): R, which makes a type of functions of n.
func (p *parser) callSignature(n *node) {
	f := node{op: oFunction, at: n.at}
	if !p.try(func() {
		if p.is("<") {
			p.typeParams()
		}
		f.params = p.params()
		if p.accept(":") {
			f.result = p.typ()
		}
	}) {
		p.toEndOfMember()
	}
	*n = f
}

// endsName reports whether the token at i begins a name, so that the word
// before it is a modifier and not the name itself.
func (p *parser) endsName(i int) bool {
	k := p.kindAt(i)
	return k == javascript.Ident || k == javascript.String || k == javascript.Number || p.textAt(i) == "["
}

// toEndOfMember steps over what is left of a member.
func (p *parser) toEndOfMember() {
	start := p.i
	for p.err == nil && p.peek().Kind != javascript.EOF && !p.is(";") && !p.is(",") && !p.is("}") {
		if p.i > start && p.peek().NewLine && p.textAt(p.i-1) != ":" && p.textAt(p.i-1) != "=>" &&
			p.textAt(p.i-1) != "|" {
			return
		}
		p.step()
	}
}

// indexSignature reads [key: string]: T, and refuses [K in T]: U.
func (p *parser) indexSignature(n *node) {
	if p.textAt(p.i+2) == "in" {
		*n = *refused(n.at, "a mapped type has no schema: write its properties out, or use Record")
		p.skipGroup()
		p.toEndOfMember()
		return
	}
	p.skipGroup()
	p.accept("?")
	p.expect(":")
	t := p.typ()
	if n.op == oObject {
		n.index = t
	}
}

// params reads the parameters of a function.
func (p *parser) params() []*param {
	var list []*param
	p.list("(", ")", func() {
		if q := p.param(); q.name != "this" {
			list = append(list, q)
		}
	})
	return list
}

// param reads one parameter.
func (p *parser) param() *param {
	for strings.HasPrefix(p.text(), "@") && p.err == nil { // a decorator
		p.next()
		if p.is("(") {
			p.skipGroup()
		}
	}
	for (p.is("public") || p.is("private") || p.is("readonly")) && p.kindAt(p.i+1) == javascript.Ident {
		p.next()
	}
	q := &param{at: p.at()}
	q.rest = p.accept("...")
	switch {
	case p.is("{"):
		q.object = true
		q.pattern = p.objectPattern()
	case p.is("["):
		p.skipGroup()
	case p.peek().Kind == javascript.Ident:
		q.name = p.text()
		p.next()
	default:
		p.fail("the name of a parameter is expected here")
	}
	q.optional = p.accept("?")
	if p.accept(":") {
		q.typ = p.typ()
	}
	q.fallback = p.defaultValue()
	return q
}

// defaultValue reads = and a value, or returns nil.
func (p *parser) defaultValue() *defaultValue {
	if !p.accept("=") {
		return nil
	}
	d := p.literal()
	return &d
}

// objectPattern reads { a, b: c = 2, ...rest }.
func (p *parser) objectPattern() []*binding {
	var list []*binding
	p.list("{", "}", func() {
		b := &binding{at: p.at()}
		rest := p.accept("...")
		name, ok := p.propertyName()
		if !ok {
			p.fail("the name of a property is expected here")
		}
		b.name = name
		if p.accept(":") {
			p.step()
		}
		b.fallback = p.defaultValue()
		if !rest {
			list = append(list, b)
		}
	})
	return list
}

// enum reads the members of an enum as a union of literals.
func (p *parser) enum() *node {
	n := &node{op: oUnion, at: p.at()}
	var bad *node
	known := map[string]any{}
	var next any = jsonInt(0)
	p.list("{", "}", func() {
		at := p.at()
		name, ok := p.propertyName()
		if !ok {
			p.fail("the name of a member is expected here")
			return
		}
		v := next
		if p.accept("=") {
			if v, ok = p.enumValue(known); !ok {
				p.skipExpr()
				bad = cmp.Or(bad, refused(n.at, "the value of "+quote(name)+" is computed: write it as a constant"))
			}
		}
		if v == nil {
			bad = cmp.Or(bad, refused(n.at, "the member "+quote(name)+" needs a value"))
		}
		known[name] = v
		n.kids = append(n.kids, &node{op: oLiteral, at: at, name: name, value: v})
		next = nil
		if i, isInt := bigInt(v); isInt {
			next = jsonInt(i.Int64() + 1)
		}
	})
	if bad != nil {
		p.err = nil
		return bad
	}
	return n
}

// refused makes a type that has no schema, for the reason given.
func refused(at int, reason string) *node { return &node{op: oRefused, at: at, name: reason} }
