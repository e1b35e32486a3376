package pyschema

import (
	"encoding/json"
	"math/big"
	"strings"

	"haft/schema"
)

// The bounds on constants that are computed from others.
const (
	maxText = 100_000 // characters
	maxBits = 1024    // of an integer
)

// constant returns the value of an expression as JSON has it, and whether it has
// one. Names of constants, members of enums and simple arithmetic are followed;
// nothing is executed.
func (b *builder) constant(e *expr, in *statement) (any, bool) {
	if e == nil || b.steps <= 0 || b.depth > maxDepth || b.err != nil {
		return nil, false
	}
	b.steps -= 1 + len(e.Text)/textPerStep
	b.depth++
	defer func() { b.depth-- }()
	switch e.Kind {
	case "const":
		return literal(e)
	case "list", "tuple", "set":
		return b.constants(e.Args, in)
	case "dict":
		return b.dictionary(e, in)
	case "unary":
		return b.signed(e, in)
	case "binop":
		return b.computed(e, in)
	case "name", "attr":
		return b.constantOfName(e, in)
	case "call":
		// Decimal("0.1"), Path("x") and the like are written as their text.
		full := b.m.resolve(e.Value, in).full
		if tag := tagOf(full); len(e.Args) == 1 && len(e.Keywords) == 0 && (tag == "text" || tag == "decimal") {
			if s, ok := b.constant(e.Args[0], in); ok {
				text, isText := s.(string)
				return text, isText
			}
		}
	}
	return nil, false
}

// literal returns the value of a constant.
func literal(e *expr) (any, bool) {
	switch e.Type {
	case "none":
		return nil, true
	case "bool":
		return e.Text == "true", true
	case "str":
		return e.Text, true
	case "int", "float":
		if n := json.Number(e.Text); json.Valid([]byte(e.Text)) && n != "" &&
			(n[0] == '-' || n[0] >= '0' && n[0] <= '9') {
			return n, true
		}
	}
	return nil, false
}

// constants returns the values of expressions as an array.
func (b *builder) constants(all []*expr, in *statement) (any, bool) {
	a := make([]any, 0, min(len(all), 64))
	for _, x := range all {
		v, ok := b.constant(x, in)
		if !ok {
			return nil, false
		}
		a = append(a, v)
	}
	return a, true
}

// dictionary returns a dict with text as keys.
func (b *builder) dictionary(e *expr, in *statement) (any, bool) {
	o := &schema.Object{}
	if len(e.Keys) != len(e.Args) {
		return nil, false
	}
	for i, k := range e.Keys {
		key, _ := b.constant(k, in)
		name, ok := key.(string)
		v, known := b.constant(e.Args[i], in)
		if !ok || !known {
			return nil, false
		}
		o.Set(name, v)
	}
	return o, true
}

// signed returns -x and +x.
func (b *builder) signed(e *expr, in *statement) (any, bool) {
	v, ok := b.constant(e.Value, in)
	n, isNumber := v.(json.Number)
	switch {
	case !ok || !isNumber:
	case e.Name == "UAdd":
		return n, true
	case e.Name == "USub" && strings.HasPrefix(string(n), "-"):
		return n[1:], true
	case e.Name == "USub":
		return "-" + n, true
	}
	return nil, false
}

// computed returns a sum of texts, or whole numbers put together, from left to
// right.
func (b *builder) computed(e *expr, in *statement) (any, bool) {
	if len(e.Args) < 2 {
		return nil, false
	}
	left, ok := b.constant(e.Args[0], in)
	for _, a := range e.Args[1:] {
		right, known := b.constant(a, in)
		if !ok || !known {
			return nil, false
		}
		left, ok = b.combine(e.Name, left, right)
	}
	return left, ok
}

// combine returns the value of one operator.
func (b *builder) combine(op string, left, right any) (any, bool) {
	if l, ok := left.(string); ok && op == "Add" {
		r, ok := right.(string)
		b.steps -= (len(l) + len(r)) / textPerStep
		return l + r, ok && len(l)+len(r) <= maxText
	}
	l, ok1 := whole(left)
	r, ok2 := whole(right)
	if !ok1 || !ok2 {
		return nil, false
	}
	z := new(big.Int)
	switch op {
	case "Add":
		z.Add(l, r)
	case "Sub":
		z.Sub(l, r)
	case "Mult":
		z.Mul(l, r)
	case "BitOr":
		z.Or(l, r)
	case "LShift":
		if !r.IsUint64() || r.Uint64() > maxBits {
			return nil, false
		}
		z.Lsh(l, uint(r.Uint64()))
	case "Pow":
		if !r.IsUint64() || r.Uint64() > maxBits || l.BitLen()*int(r.Uint64()) > maxBits {
			return nil, false
		}
		z.Exp(l, r, nil)
	default:
		return nil, false
	}
	return json.Number(z.String()), z.BitLen() <= maxBits
}

// whole returns v as an integer of a reasonable size.
func whole(v any) (*big.Int, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > maxBits {
		return nil, false
	}
	z, ok := new(big.Int).SetString(string(n), 10)
	return z, ok && z.BitLen() <= maxBits
}

// constantOfName returns the value of a name: a constant that is assigned once, or a
// member of an enum.
func (b *builder) constantOfName(e *expr, in *statement) (any, bool) {
	if e.Kind == "attr" {
		owner := e.Value
		if e.Name == "value" && owner != nil && owner.Kind == "attr" { // Color.RED.value
			e, owner = owner, owner.Value
		}
		if c := b.m.resolve(owner, in).def; c != nil && c.Is == "class" {
			return b.classConstant(c, e.Name)
		}
		return nil, false
	}
	got := b.m.lookup(e.Name, in)
	if got.value != nil {
		return b.constant(got.value, got.in)
	}
	if got.def != nil && got.def.Is == "assign" && b.m.times[e.Name] <= 1 {
		return b.constant(got.def.Value, nil)
	}
	return nil, false
}

// classConstant returns the value of a member of an enum, or of a constant that
// a class holds.
func (b *builder) classConstant(c *statement, name string) (any, bool) {
	if k := b.kindOf(c); k.enum != "" {
		members := b.members(c, k)
		b.err = nil // a member that is not known is no constant
		for _, m := range members {
			if m.name == name {
				return m.value, true
			}
		}
		return nil, false
	}
	for i := range c.Body {
		if c.Body[i].Name == name {
			return b.constant(c.Body[i].Value, c)
		}
	}
	return nil, false
}
