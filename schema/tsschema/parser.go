package tsschema

import (
	"slices"
	"strconv"
	"strings"

	"haft/internal/javascript"
)

// The bounds on what a source may nest.
const (
	maxTypeDepth = 64 // types in types
	maxGuesses   = 16 // comparisons in one expression that are tried as type arguments
)

// A parser reads declarations and types, and steps over everything else by its
// brackets. Its first problem sticks: from then on it sees the end of the file,
// so that every loop comes to its end.
type parser struct {
	source *javascript.Source
	tokens []javascript.Token
	i      int
	err    *problem
	depth  int
	// noConditional is set where "extends" does not begin a conditional type.
	noConditional bool
	// jsdoc accepts the types of JSDoc; optional is set by its "string=".
	jsdoc, optional bool
}

// eof is what a parser sees after a problem.
var eof = javascript.Token{Match: -1}

func (p *parser) tokenAt(i int) javascript.Token {
	if p.err != nil || i < 0 || i >= len(p.tokens) {
		return eof
	}
	return p.tokens[i]
}

func (p *parser) peek() javascript.Token       { return p.tokenAt(p.i) }
func (p *parser) kindAt(i int) javascript.Kind { return p.tokenAt(i).Kind }
func (p *parser) textAt(i int) string          { return p.source.TextOf(p.tokenAt(i)) }
func (p *parser) text() string                 { return p.textAt(p.i) }

// at returns the place of the next token, also after a problem.
func (p *parser) at() int {
	if len(p.tokens) == 0 {
		return 0
	}
	return p.tokens[min(p.i, len(p.tokens)-1)].From
}

// next steps over one token.
func (p *parser) next() {
	if p.i < len(p.tokens)-1 {
		p.i++
	}
}

// is reports whether the next token is this word or mark.
func (p *parser) is(s string) bool {
	k := p.peek().Kind
	return (k == javascript.Punct || k == javascript.Ident) && p.text() == s
}

// accept steps over s if it is next.
func (p *parser) accept(s string) bool {
	if !p.is(s) {
		return false
	}
	p.next()
	return true
}

// expect steps over s, which must be next.
func (p *parser) expect(s string) {
	if !p.accept(s) {
		p.fail(quote(s) + " is expected here")
	}
}

// fail keeps the first problem.
func (p *parser) fail(message string) {
	if p.err == nil {
		p.err = &problem{p.at(), message}
	}
}

// try runs read and undoes it if it had a problem.
func (p *parser) try(read func()) bool {
	if p.err != nil {
		return false
	}
	i, depth, no := p.i, p.depth, p.noConditional
	read()
	if p.err == nil {
		return true
	}
	p.i, p.depth, p.noConditional, p.err = i, depth, no, nil
	return false
}

// list reads elements with commas between them, from one bracket to the other.
func (p *parser) list(opening, closing string, element func()) {
	p.expect(opening)
	for p.err == nil && !p.is(closing) {
		element()
		if !p.accept(",") {
			break
		}
	}
	p.expect(closing)
}

// skipGroup steps over the bracket that is next and all that is in it.
func (p *parser) skipGroup() {
	for p.err == nil {
		t := p.peek()
		if t.Match <= p.i {
			p.next()
			return
		}
		p.i = t.Match
		if k := p.peek().Kind; k != javascript.TemplateMiddle {
			p.next()
			return
		}
	}
}

// skipExpr steps over an expression: up to a comma, a semicolon, a closing
// bracket, or the end of a line that ends a statement.
func (p *parser) skipExpr() {
	start, guesses := p.i, maxGuesses
	for p.err == nil {
		t := p.peek()
		if t.Kind == javascript.EOF || p.i > start && p.statementEnds() {
			return
		}
		switch text := p.text(); {
		case t.Kind == javascript.Punct && (text == "," || text == ";" || javascript.ClosesBracket(text)),
			t.Kind == javascript.TemplateTail, t.Kind == javascript.TemplateMiddle && p.i > start:
			return
		case t.Match > p.i:
			p.skipGroup()
		case t.Kind == javascript.Ident && p.textAt(p.i+1) == "<" && guesses > 0:
			p.next()
			if !p.try(func() {
				p.typeArgs()
				if !p.is("(") {
					p.fail("no call")
				}
			}) {
				guesses--
			}
			if p.is("<") {
				p.next()
			}
		default:
			p.next()
		}
	}
}

// statementEnds reports whether a semicolon is inserted before the next token.
func (p *parser) statementEnds() bool {
	t, before := p.peek(), p.tokenAt(p.i-1)
	if !t.NewLine {
		return false
	}
	switch before.Kind {
	case javascript.Punct:
		if text := p.source.TextOf(before); !javascript.ClosesBracket(text) && text != "++" && text != "--" {
			return false
		}
	case javascript.Ident:
		if javascript.ValueFollows(p.source.TextOf(before)) {
			return false
		}
	}
	switch t.Kind {
	case javascript.Ident:
		return !slices.Contains([]string{"as", "satisfies", "in", "of", "instanceof"}, p.text())
	case javascript.String, javascript.Number, javascript.Regexp:
		return true
	case javascript.Punct:
		return p.text() == "{" || p.text() == "++" || p.text() == "--"
	}
	return false
}

// literal reads the expression that is next, and its value if it is JSON. It
// stops where skipExpr stops.
func (p *parser) literal() defaultValue {
	start := p.i
	p.skipExpr()
	end := p.i
	if p.err != nil {
		return defaultValue{}
	}
	p.i = start
	v, ok := p.constant()
	for ok && p.is("as") || p.is("satisfies") {
		p.next()
		if !p.accept("const") {
			p.typ()
		}
	}
	ok = ok && p.err == nil && p.i == end
	p.err, p.i = nil, end
	return defaultValue{value: v, known: ok}
}

// quote marks a word of the source in a message.
func quote(s string) string { return "“" + s + "”" }

func itoa(n int) string { return strconv.Itoa(n) }

// propertyName reads the name of a property, which may be a string or a number.
func (p *parser) propertyName() (string, bool) {
	t := p.peek()
	text := p.text()
	switch t.Kind {
	case javascript.Ident:
		p.next()
		return text, !strings.HasPrefix(text, "#")
	case javascript.String:
		p.next()
		return unquote(text), true
	case javascript.Number:
		p.next()
		n, ok := jsonNumber(text)
		return n.String(), ok
	}
	if p.is("[") && p.kindAt(p.i+1) == javascript.String && p.textAt(p.i+2) == "]" {
		name := unquote(p.textAt(p.i + 1))
		p.skipGroup()
		return name, true
	}
	return "", false
}
