package tsschema

import (
	"strings"

	"haft/internal/javascript"
	"haft/schema"
)

// maxGuesses bounds the comparisons in one expression that are tried as type arguments.
const maxGuesses = 16

// An exprReader reads expressions: values, functions and the members of enums.
type exprReader struct {
	c     *cursor
	types *typeReader // reads the types in expressions
}

// newExprReader returns a reader of expressions and, in its field types, the reader of
// types that belongs to it.
func newExprReader(c *cursor) *exprReader {
	r := &exprReader{c: c}
	r.types = &typeReader{c: c, exprs: r}
	return r
}

// constant reads a value that can be written as JSON. Where there is none it reads
// nothing.
func (r *exprReader) constant() (v any, ok bool) {
	r.c.try(func() {
		if v, ok = jsonOf(r.plainValue(true, true, 0)); !ok {
			r.c.fail("no constant")
		}
	})
	return v, ok
}

// jsonOf returns the one value of a type whose parts are all literals.
func jsonOf(n *node) (any, bool) {
	switch n.op {
	case oLiteral:
		return n.value, true
	case oTuple:
		list := []any{}
		for i, k := range n.kids {
			v, ok := jsonOf(k)
			if !ok || n.elems[i].rest {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	case oObject:
		o := &schema.Object{}
		for _, m := range n.members {
			v, ok := jsonOf(m.typ)
			if !ok {
				return nil, false
			}
			o.Set(m.name, v)
		}
		return o, true
	}
	return nil, false
}

// scalar reads a text, a number, true, false or null.
func (r *exprReader) scalar() (any, bool) {
	sign := ""
	if r.c.is("-") || r.c.is("+") {
		sign = strings.TrimPrefix(r.c.text(), "+")
		r.c.next()
		if r.c.peek().Kind != javascript.Number {
			return nil, false
		}
	}
	kind, text := r.c.peek().Kind, r.c.text()
	r.c.next()
	switch kind {
	case javascript.String:
		return unquote(text), true
	case javascript.Template:
		return unescape(text[1 : len(text)-1]), true
	case javascript.Number:
		return jsonNumber(sign + text)
	case javascript.Ident:
		switch text {
		case "true", "false":
			return text == "true", true
		case "null":
			return nil, true
		}
	}
	return nil, false
}

// skipExpr steps over an expression: up to a comma, a semicolon, a closing
// bracket, or the end of a line that ends a statement.
func (r *exprReader) skipExpr() {
	start, guesses := r.c.i, maxGuesses
	for r.c.err == nil {
		t := r.c.peek()
		if t.Kind == javascript.EOF || r.c.i > start && r.c.statementEnds() {
			return
		}
		switch text := r.c.text(); {
		case t.Kind == javascript.Punct && (text == "," || text == ";" || javascript.ClosesBracket(text)),
			t.Kind == javascript.TemplateTail, t.Kind == javascript.TemplateMiddle && r.c.i > start:
			return
		case t.Match > r.c.i:
			r.c.skipGroup()
		case t.Kind == javascript.Ident && r.c.textAt(r.c.i+1) == "<" && guesses > 0:
			r.c.next()
			if !r.c.try(func() {
				r.types.typeArgs()
				if !r.c.is("(") {
					r.c.fail("no call")
				}
			}) {
				guesses--
			}
			if r.c.is("<") {
				r.c.next()
			}
		default:
			r.c.next()
		}
	}
}

// literal reads the expression that is next, and its value if it is JSON. It
// stops where skipExpr stops.
func (r *exprReader) literal() defaultValue {
	start := r.c.i
	r.skipExpr()
	end := r.c.i
	if r.c.err != nil {
		return defaultValue{}
	}
	r.c.i = start
	v, ok := r.constant()
	for ok && r.c.is("as") || r.c.is("satisfies") {
		r.c.next()
		if !r.c.accept("const") {
			r.types.typ()
		}
	}
	ok = ok && r.c.err == nil && r.c.i == end
	r.c.err, r.c.i = nil, end
	return defaultValue{value: v, known: ok}
}
