package tsschema

import (
	"encoding/json"
	"math/big"

	"haft/internal/javascript"
	"haft/schema"
)

// constant reads a value that can be written as JSON. What it does not
// understand is not a constant.
func (p *parser) constant(depth int) (any, bool) {
	if depth > maxTypeDepth {
		return nil, false
	}
	t := p.peek()
	text := p.text()
	switch t.Kind {
	case javascript.String:
		p.next()
		return unquote(text), true
	case javascript.Template:
		p.next()
		return unescape(text[1 : len(text)-1]), true
	case javascript.Number:
		p.next()
		n, ok := jsonNumber(text)
		return n, ok
	case javascript.Ident:
		p.next()
		switch text {
		case "true", "false":
			return text == "true", true
		case "null":
			return nil, true
		}
		return nil, false
	}
	switch text {
	case "-", "+":
		p.next()
		v, ok := p.constant(depth + 1)
		n, isNumber := v.(json.Number)
		if text == "-" && isNumber {
			n, isNumber = jsonNumber("-" + n.String())
		}
		return n, ok && isNumber
	case "[":
		return p.constantArray(depth)
	case "{":
		return p.constantObject(depth)
	}
	return nil, false
}

func (p *parser) constantArray(depth int) (any, bool) {
	list := []any{}
	p.expect("[")
	for !p.is("]") {
		v, ok := p.constant(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if !p.accept(",") {
			break
		}
	}
	return list, p.accept("]")
}

func (p *parser) constantObject(depth int) (any, bool) {
	o := &schema.Object{}
	p.expect("{")
	for !p.is("}") {
		name, ok := p.propertyName()
		if !ok || !p.accept(":") {
			return nil, false
		}
		v, ok := p.constant(depth + 1)
		if !ok {
			return nil, false
		}
		o.Set(name, v)
		if !p.accept(",") {
			break
		}
	}
	return o, p.accept("}")
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
	return p.constant(0)
}

// bigInt returns an integer of JSON.
func bigInt(v any) (*big.Int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Int).SetString(n.String(), 10)
}
