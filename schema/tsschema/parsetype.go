package tsschema

import (
	"encoding/json"
	"strconv"
	"strings"

	"haft/internal/javascript"
)

// typ reads a type.
func (p *parser) typ() *node { return p.nested(p.wholeType) }

// nested reads a type that stands within others.
func (p *parser) nested(read func() *node) *node {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxTypeDepth {
		p.fail("types are nested deeper than " + itoa(maxTypeDepth))
		return refused(p.at(), "")
	}
	return read()
}

// wholeType reads a type with the operators that bind least.
func (p *parser) wholeType() *node {
	at := p.at()
	if f := p.functionType(); f != nil {
		return f
	}
	t := p.union()
	if p.is("extends") && !p.peek().NewLine && !p.noConditional {
		p.next()
		p.typeWith(true)
		p.expect("?")
		p.typ()
		p.expect(":")
		p.typ()
		return refused(at, "a conditional type has no schema: write the type that it comes to")
	}
	if p.is("is") && !p.peek().NewLine && t.op == oName { // x is string
		p.next()
		p.typ()
		return &node{op: oName, at: at, name: "boolean"}
	}
	return t
}

// typeWith reads a type in which "extends" begins a conditional type, or does not.
func (p *parser) typeWith(noConditional bool) *node {
	saved := p.noConditional
	p.noConditional = noConditional
	t := p.typ()
	p.noConditional = saved
	return t
}

// functionType reads (a: T) => R, new () => R and <T>() => R, or returns nil.
func (p *parser) functionType() *node {
	at := p.at()
	isNew := p.is("new") || p.is("abstract") && p.textAt(p.i+1) == "new"
	open := p.i
	if !isNew && p.is("<") {
		p.typeParams()
		if p.is("(") {
			open = p.i
		}
	}
	if !isNew && !(p.textAt(open) == "(" && p.kindAt(open) == javascript.Punct &&
		p.textAt(p.tokens[open].Match+1) == "=>") {
		return nil
	}
	for isNew && !p.is("(") && !p.is("<") && p.err == nil {
		p.next()
	}
	if p.is("<") {
		p.typeParams()
	}
	f := &node{op: oFunction, at: at, params: p.params()}
	p.expect("=>")
	f.result = p.typ()
	return f
}

// union reads alternatives.
func (p *parser) union() *node {
	return p.chain("|", oUnion, func() *node { return p.chain("&", oIntersection, p.prefix) })
}

// chain reads operands between operators.
func (p *parser) chain(operator string, o op, operand func() *node) *node {
	at := p.at()
	p.accept(operator)
	first := operand()
	if !p.is(operator) {
		return first
	}
	n := &node{op: o, at: at, kids: []*node{first}}
	for p.accept(operator) {
		if f := p.functionType(); f != nil {
			n.kids = append(n.kids, f)
			continue
		}
		n.kids = append(n.kids, operand())
	}
	return n
}

// prefix reads keyof, readonly, unique, infer and typeof before a type.
func (p *parser) prefix() *node { return p.nested(p.prefixed) }

func (p *parser) prefixed() *node {
	at := p.at()
	if p.peek().Kind == javascript.Ident && p.startsType(p.i+1) {
		switch p.text() {
		case "keyof":
			p.next()
			return &node{op: oKeyof, at: at, kids: []*node{p.prefix()}}
		case "readonly":
			p.next()
			return p.prefix()
		case "unique", "asserts":
			p.next()
			p.prefix()
			return refused(at, "a symbol is not JSON")
		case "infer":
			p.next()
			p.next()
			return refused(at, "infer has no schema: write the type that it comes to")
		case "typeof":
			p.next()
			return p.suffix(p.typeofType())
		}
	}
	if p.jsdoc && (p.is("?") || p.is("!")) {
		return p.nullable(at)
	}
	return p.postfix()
}

// typeofType reads what follows typeof.
func (p *parser) typeofType() *node {
	if p.is("import") || p.peek().Kind != javascript.Ident {
		at := p.at()
		p.primary()
		return refused(at, "typeof has no schema here: declare a type and use its name")
	}
	n := p.typeofName()
	if p.is("<") && !p.peek().NewLine {
		p.typeArgs()
	}
	return n
}

// nullable reads the ?T and !T of JSDoc.
func (p *parser) nullable(at int) *node {
	mark := p.text()
	p.next()
	if mark == "?" && !p.startsType(p.i) {
		return &node{op: oName, at: at, name: "unknown"}
	}
	t := p.prefix()
	if mark == "!" {
		return t
	}
	return &node{op: oUnion, at: at, kids: []*node{t, {op: oLiteral, at: at}}}
}

// startsType reports whether a type can begin at token i.
func (p *parser) startsType(i int) bool {
	switch p.kindAt(i) {
	case javascript.Ident:
		w := p.textAt(i)
		return w != "extends" && w != "is"
	case javascript.String, javascript.Number, javascript.Template, javascript.TemplateHead:
		return true
	case javascript.Punct:
		switch p.textAt(i) {
		case "(", "[", "{", "-":
			return true
		}
	}
	return false
}

// postfix reads the [] and ["a"] after a type.
func (p *parser) postfix() *node { return p.suffix(p.primary()) }

// suffix reads them after the type that is given.
func (p *parser) suffix(t *node) *node {
	for p.err == nil && !p.peek().NewLine && p.is("[") {
		at := p.at()
		p.next()
		if p.accept("]") {
			t = &node{op: oArray, at: t.at, kids: []*node{t}}
			continue
		}
		t = &node{op: oIndexed, at: at, kids: []*node{t, p.typ()}}
		p.expect("]")
	}
	for p.jsdoc && (p.is("=") || p.is("!") || p.is("?")) { // string=, of JSDoc
		p.optional = p.optional || p.is("=")
		p.next()
	}
	return t
}

// primary reads a type without operators.
func (p *parser) primary() *node {
	at := p.at()
	switch t := p.peek(); t.Kind {
	case javascript.String:
		p.next()
		return &node{op: oLiteral, at: at, value: unquote(p.source.TextOf(t))}
	case javascript.Number:
		p.next()
		return p.numberType(at, p.source.TextOf(t))
	case javascript.Template:
		p.next()
		s := p.source.TextOf(t)
		return &node{op: oLiteral, at: at, value: unescape(s[1 : len(s)-1])}
	case javascript.TemplateHead:
		return p.templateType()
	case javascript.Ident:
		return p.nameType()
	}
	switch p.text() {
	case "-":
		p.next()
		text := p.text()
		p.next()
		return p.numberType(at, "-"+text)
	case "(":
		p.next()
		t := p.typeWith(false)
		p.expect(")")
		return t
	case "[":
		return p.tupleType()
	case "{":
		return p.objectType()
	case "*":
		if p.jsdoc {
			p.next()
			return &node{op: oName, at: at, name: "any"}
		}
	}
	p.fail("a type is expected here")
	return refused(p.at(), "")
}

// numberType makes a literal type of a number.
func (p *parser) numberType(at int, text string) *node {
	if strings.HasSuffix(text, "n") && !strings.HasPrefix(text, "0x") {
		text = strings.TrimSuffix(text, "n")
	}
	n, ok := jsonNumber(text)
	if !ok {
		p.fail("a number is expected here")
	}
	return &node{op: oLiteral, at: at, value: n}
}

// templateType reads `a${T}b`.
func (p *parser) templateType() *node {
	n := &node{op: oTemplate, at: p.at()}
	for p.err == nil {
		t := p.peek()
		text := p.source.TextOf(t)
		p.next()
		if t.Kind == javascript.TemplateTail {
			n.texts = append(n.texts, unescape(text[1:len(text)-1]))
			return n
		}
		n.texts = append(n.texts, unescape(text[1:len(text)-2]))
		n.kids = append(n.kids, p.typ())
		if k := p.peek().Kind; k != javascript.TemplateMiddle && k != javascript.TemplateTail {
			p.fail("the substitution does not end here")
		}
	}
	return n
}

// nameType reads a name with its arguments.
func (p *parser) nameType() *node {
	at := p.at()
	name := p.text()
	p.next()
	switch {
	case name == "true" || name == "false":
		return &node{op: oLiteral, at: at, value: name == "true"}
	case name == "null":
		return &node{op: oLiteral, at: at}
	case name == "import" && p.is("("):
		return p.importType(at)
	case p.jsdoc && strings.EqualFold(name, "function") && p.is("("):
		p.skipGroup()
		if p.accept(":") {
			p.typ()
		}
		return &node{op: oFunction, at: at}
	}
	for p.is(".") && p.kindAt(p.i+1) == javascript.Ident {
		p.next()
		name += "." + p.text()
		p.next()
	}
	n := &node{op: oName, at: at, name: name}
	if p.jsdoc {
		p.accept(".") // Array.<string>
	}
	if p.is("<") && !p.peek().NewLine {
		n.kids = p.typeArgs()
	}
	return n
}

// importType reads import("module").Name.
func (p *parser) importType(at int) *node {
	n := &node{op: oImport, at: at, name: "another module"}
	if p.kindAt(p.i+1) == javascript.String {
		n.name = unquote(p.textAt(p.i + 1))
	}
	p.skipGroup()
	for p.accept(".") {
		p.next()
	}
	if p.is("<") {
		p.typeArgs()
	}
	return n
}

// typeArgs reads <A, B>.
func (p *parser) typeArgs() []*node {
	var args []*node
	p.list("<", ">", func() { args = append(args, p.typ()) })
	return args
}

// typeParams skips <T extends U = V>.
func (p *parser) typeParams() {
	p.list("<", ">", func() {
		for (p.is("const") || p.is("in") || p.is("out")) && p.kindAt(p.i+1) == javascript.Ident {
			p.next()
		}
		p.next()
		if p.accept("extends") {
			p.typ()
		}
		if p.accept("=") {
			p.typ()
		}
	})
}

// tupleType reads [A, b?: B, ...C[]].
func (p *parser) tupleType() *node {
	n := &node{op: oTuple, at: p.at()}
	p.list("[", "]", func() {
		var e elem
		e.rest = p.accept("...")
		if p.kindAt(p.i) == javascript.Ident && (p.textAt(p.i+1) == ":" ||
			p.textAt(p.i+1) == "?" && p.textAt(p.i+2) == ":") {
			e.label = p.text()
			p.next()
			e.optional = p.accept("?")
			p.expect(":")
		}
		n.kids = append(n.kids, p.typ())
		e.optional = p.accept("?") || e.optional
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
