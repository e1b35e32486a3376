package tsschema

import (
	"encoding/json"
	"math/big"
	"strings"

	"haft/internal/javascript"
	"haft/schema"
)

// constant reads a value that can be written as JSON. Where there is none it reads
// nothing.
func (p *parser) constant() (v any, ok bool) {
	p.try(func() {
		if v, ok = jsonOf(p.plainValue(true, true, 0)); !ok {
			p.fail("no constant")
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
func (p *parser) scalar() (any, bool) {
	sign := ""
	if p.is("-") || p.is("+") {
		sign = strings.TrimPrefix(p.text(), "+")
		p.next()
		if p.peek().Kind != javascript.Number {
			return nil, false
		}
	}
	kind, text := p.peek().Kind, p.text()
	p.next()
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

// enumValue reads the value of a member of an enum: a constant, an earlier
// member, or a shift or union of those, as flags are written.
func (p *parser) enumValue(known map[string]any) (any, bool) {
	v, ok := p.enumOperand(known)
	for ok && (p.is("|") || p.is("<") || p.is("+")) {
		operator := p.text()
		p.next()
		if operator == "<" {
			p.expect("<")
		}
		w, okay := p.enumOperand(known)
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

func (p *parser) enumOperand(known map[string]any) (any, bool) {
	if p.peek().Kind == javascript.Ident {
		if v, ok := known[p.text()]; ok {
			p.next()
			return v, true
		}
	}
	return p.constant()
}

// bigInt returns an integer of JSON.
func bigInt(v any) (*big.Int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Int).SetString(n.String(), 10)
}
