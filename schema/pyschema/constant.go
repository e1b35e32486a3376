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

// An evaluator finds the values of constant expressions.
type evaluator struct {
	m       *module
	state   *state
	classes *classReader // knows which classes are enums
}

func newEvaluator(m *module, st *state) *evaluator {
	return &evaluator{m: m, state: st,
		classes: &classReader{m: m, texts: map[*statement]docText{}, kinds: map[*statement]kind{}}}
}

// constant returns the value of an expression as JSON has it, and whether it has
// one. Names of constants, members of enums and simple arithmetic are followed;
// nothing is executed.
func (ev *evaluator) constant(e *expr, in *statement) (any, bool) {
	if e == nil || ev.state.steps <= 0 || ev.state.depth > maxDepth || ev.state.err != nil {
		return nil, false
	}
	ev.state.steps -= 1 + len(e.Text)/textPerStep
	ev.state.depth++
	defer func() { ev.state.depth-- }()
	switch e.Kind {
	case "const":
		return literal(e)
	case "list", "tuple", "set":
		return ev.constants(e.Args, in)
	case "dict":
		return ev.dictionary(e, in)
	case "unary":
		return ev.signed(e, in)
	case "binop":
		return ev.computed(e, in)
	case "name", "attr":
		return ev.constantOfName(e, in)
	case "call":
		// Decimal("0.1"), Path("x") and the like are written as their text.
		full := ev.m.resolve(e.Value, in).full
		if tag := tagOf(full); len(e.Args) == 1 && len(e.Keywords) == 0 && (tag == "text" || tag == "decimal") {
			if s, ok := ev.constant(e.Args[0], in); ok {
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
func (ev *evaluator) constants(all []*expr, in *statement) (any, bool) {
	a := make([]any, 0, min(len(all), 64))
	for _, x := range all {
		v, ok := ev.constant(x, in)
		if !ok {
			return nil, false
		}
		a = append(a, v)
	}
	return a, true
}

// dictionary returns a dict with text as keys.
func (ev *evaluator) dictionary(e *expr, in *statement) (any, bool) {
	o := &schema.Object{}
	if len(e.Keys) != len(e.Args) {
		return nil, false
	}
	for i, k := range e.Keys {
		key, _ := ev.constant(k, in)
		name, ok := key.(string)
		v, known := ev.constant(e.Args[i], in)
		if !ok || !known {
			return nil, false
		}
		o.Set(name, v)
	}
	return o, true
}

// signed returns -x and +x.
func (ev *evaluator) signed(e *expr, in *statement) (any, bool) {
	v, ok := ev.constant(e.Value, in)
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
func (ev *evaluator) computed(e *expr, in *statement) (any, bool) {
	if len(e.Args) < 2 {
		return nil, false
	}
	left, ok := ev.constant(e.Args[0], in)
	for _, a := range e.Args[1:] {
		right, known := ev.constant(a, in)
		if !ok || !known {
			return nil, false
		}
		left, ok = ev.combine(e.Name, left, right)
	}
	return left, ok
}

// combine returns the value of one operator.
func (ev *evaluator) combine(op string, left, right any) (any, bool) {
	if l, ok := left.(string); ok && op == "Add" {
		r, ok := right.(string)
		ev.state.steps -= (len(l) + len(r)) / textPerStep
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
func (ev *evaluator) constantOfName(e *expr, in *statement) (any, bool) {
	if e.Kind == "attr" {
		owner := e.Value
		if e.Name == "value" && owner != nil && owner.Kind == "attr" { // Color.RED.value
			e, owner = owner, owner.Value
		}
		if c := ev.m.resolve(owner, in).def; c != nil && c.Is == "class" {
			return ev.classConstant(c, e.Name)
		}
		return nil, false
	}
	got := ev.m.lookup(e.Name, in)
	if got.value != nil {
		return ev.constant(got.value, got.in)
	}
	if got.def != nil && got.def.Is == "assign" && ev.m.times[e.Name] <= 1 {
		return ev.constant(got.def.Value, nil)
	}
	return nil, false
}

// classConstant returns the value of a member of an enum, or of a constant that
// a class holds.
func (ev *evaluator) classConstant(c *statement, name string) (any, bool) {
	if k := ev.classes.kindOf(c); k.enum != "" {
		members := ev.members(c, k)
		ev.state.err = nil // a member that is not known is no constant
		for _, m := range members {
			if m.name == name {
				return m.value, true
			}
		}
		return nil, false
	}
	for i := range c.Body {
		if c.Body[i].Name == name {
			return ev.constant(c.Body[i].Value, c)
		}
	}
	return nil, false
}

// nameList returns a list of names, given as a list or as one text.
func (ev *evaluator) nameList(e *expr, in *statement) ([]string, bool) {
	v, ok := ev.constant(e, in)
	if !ok {
		return nil, false
	}
	if text, ok := v.(string); ok {
		return strings.Fields(strings.ReplaceAll(text, ",", " ")), true
	}
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	var names []string
	for _, x := range list {
		name, ok := x.(string)
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// text returns a constant text, also of the enum Extra of older Pydantic.
func (ev *evaluator) text(e *expr, in *statement) string {
	if v, ok := ev.constant(e, in); ok {
		s, _ := v.(string)
		return s
	}
	if e != nil && e.Kind == "attr" && strings.HasSuffix(ev.m.resolve(e.Value, in).full, "Extra") {
		return e.Name
	}
	return ""
}
