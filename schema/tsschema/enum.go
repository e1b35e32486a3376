package tsschema

import (
	"cmp"
	"encoding/json"
	"math/big"

	"haft/internal/javascript"
)

// enumValue reads the value of a member of an enum: a constant, an earlier
// member, or a shift or union of those, as flags are written.
func (r *exprReader) enumValue(known map[string]any) (any, bool) {
	v, ok := r.enumOperand(known)
	for ok && (r.c.is("|") || r.c.is("<") || r.c.is("+")) {
		operator := r.c.text()
		r.c.next()
		if operator == "<" {
			r.c.expect("<")
		}
		w, okay := r.enumOperand(known)
		a, isA := bigInt(v)
		b, isB := bigInt(w)
		if !okay || !isA || !isB || operator == "<" && (b.Sign() < 0 || b.BitLen() > 6) {
			return nil, false
		}
		switch operator {
		case "|":
			a.Or(a, b)
		case "+":
			a.Add(a, b)
		default:
			a.Lsh(a, uint(b.Int64()))
		}
		v = json.Number(a.String())
	}
	return v, ok
}

func (r *exprReader) enumOperand(known map[string]any) (any, bool) {
	if r.c.peek().Kind == javascript.Ident {
		if v, ok := known[r.c.text()]; ok {
			r.c.next()
			return v, true
		}
	}
	return r.constant()
}

// bigInt returns an integer of JSON.
func bigInt(v any) (*big.Int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Int).SetString(n.String(), 10)
}

// enum reads the members of an enum as a union of literals.
func (r *exprReader) enum() *node {
	n := &node{op: oUnion, at: r.c.at()}
	var bad *node
	known := map[string]any{}
	var next any = jsonInt(0)
	r.c.list("{", "}", func() {
		at := r.c.at()
		name, ok := r.c.propertyName()
		if !ok {
			r.c.fail("the name of a member is expected here")
			return
		}
		v := next
		if r.c.accept("=") {
			if v, ok = r.enumValue(known); !ok {
				r.skipExpr()
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
		r.c.err = nil
		return bad
	}
	return n
}
