package tsschema

import (
	"encoding/json"
	"strconv"
	"strings"

	"haft/internal/javascript"
)

// maxTypeDepth bounds how deep types, values and schemas are nested.
const maxTypeDepth = 64

// A typeReader reads types and the parameters of functions.
type typeReader struct {
	c     *cursor
	exprs *exprReader // reads default values
	depth int
	// noConditional is set where "extends" does not begin a conditional type.
	noConditional bool
	// jsdoc accepts the types of JSDoc; optional is set by its "string=".
	jsdoc, optional bool
}

// typ reads a type.
func (r *typeReader) typ() *node { return r.nested(r.wholeType) }

// nested reads a type that stands within others.
func (r *typeReader) nested(read func() *node) *node {
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > maxTypeDepth {
		r.c.fail("types are nested deeper than " + itoa(maxTypeDepth))
		return refused(r.c.at(), "")
	}
	return read()
}

// wholeType reads a type with the operators that bind least.
func (r *typeReader) wholeType() *node {
	at := r.c.at()
	if f := r.functionType(); f != nil {
		return f
	}
	t := r.union()
	if r.c.is("extends") && !r.c.peek().NewLine && !r.noConditional {
		r.c.next()
		r.typeWith(true)
		r.c.expect("?")
		r.typ()
		r.c.expect(":")
		r.typ()
		return refused(at, "a conditional type has no schema: write the type that it comes to")
	}
	if r.c.is("is") && !r.c.peek().NewLine && t.op == oName { // x is string
		r.c.next()
		r.typ()
		return &node{op: oName, at: at, name: "boolean"}
	}
	return t
}

// typeWith reads a type in which "extends" begins a conditional type, or does not.
func (r *typeReader) typeWith(noConditional bool) *node {
	saved := r.noConditional
	r.noConditional = noConditional
	t := r.typ()
	r.noConditional = saved
	return t
}

// functionType reads (a: T) => R, new () => R and <T>() => R, or returns nil.
func (r *typeReader) functionType() *node {
	at := r.c.at()
	isNew := r.c.is("new") || r.c.is("abstract") && r.c.textAt(r.c.i+1) == "new"
	open := r.c.i
	if !isNew && r.c.is("<") {
		r.typeParams()
		if r.c.is("(") {
			open = r.c.i
		}
	}
	if !isNew && !(r.c.textAt(open) == "(" && r.c.kindAt(open) == javascript.Punct &&
		r.c.textAt(r.c.tokens[open].Match+1) == "=>") {
		return nil
	}
	for isNew && !r.c.is("(") && !r.c.is("<") && r.c.err == nil {
		r.c.next()
	}
	if r.c.is("<") {
		r.typeParams()
	}
	f := &node{op: oFunction, at: at, params: r.params()}
	r.c.expect("=>")
	f.result = r.typ()
	return f
}

// union reads alternatives.
func (r *typeReader) union() *node {
	return r.chain("|", oUnion, func() *node { return r.chain("&", oIntersection, r.prefix) })
}

// chain reads operands between operators.
func (r *typeReader) chain(operator string, o op, operand func() *node) *node {
	at := r.c.at()
	r.c.accept(operator)
	first := operand()
	if !r.c.is(operator) {
		return first
	}
	n := &node{op: o, at: at, kids: []*node{first}}
	for r.c.accept(operator) {
		if f := r.functionType(); f != nil {
			n.kids = append(n.kids, f)
			continue
		}
		n.kids = append(n.kids, operand())
	}
	return n
}

// prefix reads keyof, readonly, unique, infer and typeof before a type.
func (r *typeReader) prefix() *node { return r.nested(r.prefixed) }

func (r *typeReader) prefixed() *node {
	at := r.c.at()
	if r.c.peek().Kind == javascript.Ident && r.c.startsType(r.c.i+1) {
		switch r.c.text() {
		case "keyof":
			r.c.next()
			return &node{op: oKeyof, at: at, kids: []*node{r.prefix()}}
		case "readonly":
			r.c.next()
			return r.prefix()
		case "unique", "asserts":
			r.c.next()
			r.prefix()
			return refused(at, "a symbol is not JSON")
		case "infer":
			r.c.next()
			r.c.next()
			return refused(at, "infer has no schema: write the type that it comes to")
		case "typeof":
			r.c.next()
			return r.suffix(r.typeofType())
		}
	}
	if r.jsdoc && (r.c.is("?") || r.c.is("!")) {
		return r.nullable(at)
	}
	return r.postfix()
}

// typeofType reads what follows typeof.
func (r *typeReader) typeofType() *node {
	if r.c.is("import") || r.c.peek().Kind != javascript.Ident {
		at := r.c.at()
		r.primary()
		return refused(at, "typeof has no schema here: declare a type and use its name")
	}
	n := r.exprs.typeofName()
	if r.c.is("<") && !r.c.peek().NewLine {
		r.typeArgs()
	}
	return n
}

// nullable reads the ?T and !T of JSDoc.
func (r *typeReader) nullable(at int) *node {
	mark := r.c.text()
	r.c.next()
	if mark == "?" && !r.c.startsType(r.c.i) {
		return &node{op: oName, at: at, name: "unknown"}
	}
	t := r.prefix()
	if mark == "!" {
		return t
	}
	return &node{op: oUnion, at: at, kids: []*node{t, {op: oLiteral, at: at}}}
}

// postfix reads the [] and ["a"] after a type.
func (r *typeReader) postfix() *node { return r.suffix(r.primary()) }

// suffix reads them after the type that is given.
func (r *typeReader) suffix(t *node) *node {
	for r.c.err == nil && !r.c.peek().NewLine && r.c.is("[") {
		at := r.c.at()
		r.c.next()
		if r.c.accept("]") {
			t = &node{op: oArray, at: t.at, kids: []*node{t}}
			continue
		}
		t = &node{op: oIndexed, at: at, kids: []*node{t, r.typ()}}
		r.c.expect("]")
	}
	for r.jsdoc && (r.c.is("=") || r.c.is("!") || r.c.is("?")) { // string=, of JSDoc
		r.optional = r.optional || r.c.is("=")
		r.c.next()
	}
	return t
}

// primary reads a type without operators.
func (r *typeReader) primary() *node {
	at := r.c.at()
	switch t := r.c.peek(); t.Kind {
	case javascript.String:
		r.c.next()
		return &node{op: oLiteral, at: at, value: unquote(r.c.source.TextOf(t))}
	case javascript.Number:
		r.c.next()
		return r.numberType(at, r.c.source.TextOf(t))
	case javascript.Template:
		r.c.next()
		s := r.c.source.TextOf(t)
		return &node{op: oLiteral, at: at, value: unescape(s[1 : len(s)-1])}
	case javascript.TemplateHead:
		return r.templateType()
	case javascript.Ident:
		return r.nameType()
	}
	switch r.c.text() {
	case "-":
		r.c.next()
		text := r.c.text()
		r.c.next()
		return r.numberType(at, "-"+text)
	case "(":
		r.c.next()
		t := r.typeWith(false)
		r.c.expect(")")
		return t
	case "[":
		return r.tupleType()
	case "{":
		return r.objectType()
	case "*":
		if r.jsdoc {
			r.c.next()
			return &node{op: oName, at: at, name: "any"}
		}
	}
	r.c.fail("a type is expected here")
	return refused(r.c.at(), "")
}

// numberType makes a literal type of a number.
func (r *typeReader) numberType(at int, text string) *node {
	if strings.HasSuffix(text, "n") && !strings.HasPrefix(text, "0x") {
		text = strings.TrimSuffix(text, "n")
	}
	n, ok := jsonNumber(text)
	if !ok {
		r.c.fail("a number is expected here")
	}
	return &node{op: oLiteral, at: at, value: n}
}

// templateType reads `a${T}b`.
func (r *typeReader) templateType() *node {
	n := &node{op: oTemplate, at: r.c.at()}
	for r.c.err == nil {
		t := r.c.peek()
		text := r.c.source.TextOf(t)
		r.c.next()
		if t.Kind == javascript.TemplateTail {
			n.texts = append(n.texts, unescape(text[1:len(text)-1]))
			return n
		}
		n.texts = append(n.texts, unescape(text[1:len(text)-2]))
		n.kids = append(n.kids, r.typ())
		if k := r.c.peek().Kind; k != javascript.TemplateMiddle && k != javascript.TemplateTail {
			r.c.fail("the substitution does not end here")
		}
	}
	return n
}

// nameType reads a name with its arguments.
func (r *typeReader) nameType() *node {
	at := r.c.at()
	name := r.c.text()
	r.c.next()
	switch {
	case name == "true" || name == "false":
		return &node{op: oLiteral, at: at, value: name == "true"}
	case name == "null":
		return &node{op: oLiteral, at: at}
	case name == "import" && r.c.is("("):
		return r.importType(at)
	case r.jsdoc && strings.EqualFold(name, "function") && r.c.is("("):
		r.c.skipGroup()
		if r.c.accept(":") {
			r.typ()
		}
		return &node{op: oFunction, at: at}
	}
	for r.c.is(".") && r.c.kindAt(r.c.i+1) == javascript.Ident {
		r.c.next()
		name += "." + r.c.text()
		r.c.next()
	}
	n := &node{op: oName, at: at, name: name}
	if r.jsdoc {
		r.c.accept(".") // Array.<string>
	}
	if r.c.is("<") && !r.c.peek().NewLine {
		n.kids = r.typeArgs()
	}
	return n
}

// importType reads import("module").Name.
func (r *typeReader) importType(at int) *node {
	n := &node{op: oImport, at: at, name: "another module"}
	if r.c.kindAt(r.c.i+1) == javascript.String {
		n.name = unquote(r.c.textAt(r.c.i + 1))
	}
	r.c.skipGroup()
	for r.c.accept(".") {
		r.c.next()
	}
	if r.c.is("<") {
		r.typeArgs()
	}
	return n
}

// typeArgs reads <A, B>.
func (r *typeReader) typeArgs() []*node {
	var args []*node
	r.c.list("<", ">", func() { args = append(args, r.typ()) })
	return args
}

// typeParams skips <T extends U = V>.
func (r *typeReader) typeParams() {
	r.c.list("<", ">", func() {
		for (r.c.is("const") || r.c.is("in") || r.c.is("out")) && r.c.kindAt(r.c.i+1) == javascript.Ident {
			r.c.next()
		}
		r.c.next()
		if r.c.accept("extends") {
			r.typ()
		}
		if r.c.accept("=") {
			r.typ()
		}
	})
}

// tupleType reads [A, b?: B, ...C[]].
func (r *typeReader) tupleType() *node {
	n := &node{op: oTuple, at: r.c.at()}
	r.c.list("[", "]", func() {
		var e elem
		e.rest = r.c.accept("...")
		if r.c.kindAt(r.c.i) == javascript.Ident && (r.c.textAt(r.c.i+1) == ":" ||
			r.c.textAt(r.c.i+1) == "?" && r.c.textAt(r.c.i+2) == ":") {
			e.label = r.c.text()
			r.c.next()
			e.optional = r.c.accept("?")
			r.c.expect(":")
		}
		n.kids = append(n.kids, r.typ())
		e.optional = r.c.accept("?") || e.optional
		n.elems = append(n.elems, e)
	})
	return n
}

// unquote reads a string literal.
func unquote(s string) string {
	if len(s) < 2 {
		return s
	}
	return unescape(s[1 : len(s)-1])
}

// unescape reads the escapes of a string.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if j := strings.IndexByte("nrtbfv0", s[i]); j >= 0 {
			b.WriteByte("\n\r\t\b\f\v\x00"[j])
			continue
		}
		switch {
		case s[i] == '\n':
		case s[i] == 'x' || s[i] == 'u':
			digits, n := hexDigits(s[i:])
			if v, err := strconv.ParseUint(digits, 16, 32); err == nil {
				b.WriteRune(rune(v))
				i += n - 1
				continue
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// hexDigits returns the digits of an escape and how long it is.
func hexDigits(s string) (digits string, n int) {
	if strings.HasPrefix(s, "u{") {
		if end := strings.IndexByte(s, '}'); end > 0 {
			return s[2:end], end + 1
		}
	}
	n = 3
	if s[0] == 'u' {
		n = 5
	}
	if len(s) < n {
		return "", 0
	}
	return s[1:n], n
}

// jsonNumber writes a number of JavaScript as JSON.
func jsonNumber(s string) (json.Number, bool) {
	s = strings.ReplaceAll(s, "_", "")
	body := strings.ToLower(strings.TrimPrefix(s, "-"))
	if len(body) > 1 && body[0] == '0' && strings.ContainsAny(body[1:2], "xob") {
		v, err := strconv.ParseInt(s, 0, 64)
		return json.Number(strconv.FormatInt(v, 10)), err == nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return json.Number(strconv.FormatInt(v, 10)), true
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return "", false
	}
	out, err := json.Marshal(v)
	return json.Number(out), err == nil
}
