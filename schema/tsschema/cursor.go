package tsschema

import (
	"slices"
	"strconv"
	"strings"

	"haft/internal/javascript"
)

// A cursor moves over the tokens of a source for the readers. After its first problem
// every token is the end of the file, so that every loop ends.
type cursor struct {
	source *javascript.Source
	tokens []javascript.Token
	i      int // the next token
	err    *problem
}

// eof is the next token after a problem.
var eof = javascript.Token{Match: -1}

func (c *cursor) tokenAt(i int) javascript.Token {
	if c.err != nil || i < 0 || i >= len(c.tokens) {
		return eof
	}
	return c.tokens[i]
}

func (c *cursor) peek() javascript.Token       { return c.tokenAt(c.i) }
func (c *cursor) kindAt(i int) javascript.Kind { return c.tokenAt(i).Kind }
func (c *cursor) textAt(i int) string          { return c.source.TextOf(c.tokenAt(i)) }
func (c *cursor) text() string                 { return c.textAt(c.i) }

// at returns the place of the next token, also after a problem.
func (c *cursor) at() int {
	if len(c.tokens) == 0 {
		return 0
	}
	return c.tokens[min(c.i, len(c.tokens)-1)].From
}

// next steps over one token.
func (c *cursor) next() {
	if c.i < len(c.tokens)-1 {
		c.i++
	}
}

// is reports whether the next token is this word or mark.
func (c *cursor) is(s string) bool {
	k := c.peek().Kind
	return (k == javascript.Punct || k == javascript.Ident) && c.text() == s
}

// accept steps over s if it is next.
func (c *cursor) accept(s string) bool {
	if !c.is(s) {
		return false
	}
	c.next()
	return true
}

// expect steps over s, which must be next.
func (c *cursor) expect(s string) {
	if !c.accept(s) {
		c.fail(quote(s) + " is expected here")
	}
}

// fail keeps the first problem.
func (c *cursor) fail(message string) {
	if c.err == nil {
		c.err = &problem{c.at(), message}
	}
}

// try runs read and undoes it if it had a problem.
func (c *cursor) try(read func()) bool {
	if c.err != nil {
		return false
	}
	i := c.i
	read()
	if c.err == nil {
		return true
	}
	c.i, c.err = i, nil
	return false
}

// list reads elements with commas between them, from one bracket to the other.
func (c *cursor) list(opening, closing string, element func()) {
	c.expect(opening)
	for c.err == nil && !c.is(closing) {
		element()
		if !c.accept(",") {
			break
		}
	}
	c.expect(closing)
}

// skipGroup steps over the bracket that is next and all that is in it.
func (c *cursor) skipGroup() {
	for c.err == nil {
		t := c.peek()
		if t.Match <= c.i {
			c.next()
			return
		}
		c.i = t.Match
		if k := c.peek().Kind; k != javascript.TemplateMiddle {
			c.next()
			return
		}
	}
}

// statementEnds reports whether a semicolon is inserted before the next token.
func (c *cursor) statementEnds() bool {
	t, before := c.peek(), c.tokenAt(c.i-1)
	if !t.NewLine {
		return false
	}
	switch before.Kind {
	case javascript.Punct:
		if text := c.source.TextOf(before); !javascript.ClosesBracket(text) && text != "++" && text != "--" {
			return false
		}
	case javascript.Ident:
		if javascript.ValueFollows(c.source.TextOf(before)) {
			return false
		}
	}
	switch t.Kind {
	case javascript.Ident:
		return !slices.Contains([]string{"as", "satisfies", "in", "of", "instanceof"}, c.text())
	case javascript.String, javascript.Number, javascript.Regexp:
		return true
	case javascript.Punct:
		return c.text() == "{" || c.text() == "++" || c.text() == "--"
	}
	return false
}

// quote marks a word of the source in a message.
func quote(s string) string { return "“" + s + "”" }

func itoa(n int) string { return strconv.Itoa(n) }

// propertyName reads the name of a property, which may be a string or a number.
func (c *cursor) propertyName() (string, bool) {
	t := c.peek()
	text := c.text()
	switch t.Kind {
	case javascript.Ident:
		c.next()
		return text, !strings.HasPrefix(text, "#")
	case javascript.String:
		c.next()
		return unquote(text), true
	case javascript.Number:
		c.next()
		n, ok := jsonNumber(text)
		return n.String(), ok
	}
	if c.is("[") && c.kindAt(c.i+1) == javascript.String && c.textAt(c.i+2) == "]" {
		name := unquote(c.textAt(c.i + 1))
		c.skipGroup()
		return name, true
	}
	return "", false
}

// endsName reports whether the token at i begins a name, so that the word
// before it is a modifier and not the name itself.
func (c *cursor) endsName(i int) bool {
	k := c.kindAt(i)
	return k == javascript.Ident || k == javascript.String || k == javascript.Number || c.textAt(i) == "["
}

// toEndOfMember steps over what is left of a member.
func (c *cursor) toEndOfMember() {
	start := c.i
	for c.err == nil && c.peek().Kind != javascript.EOF && !c.is(";") && !c.is(",") && !c.is("}") {
		if c.i > start && c.peek().NewLine && c.textAt(c.i-1) != ":" && c.textAt(c.i-1) != "=>" &&
			c.textAt(c.i-1) != "|" {
			return
		}
		c.step()
	}
}

// step moves over one token or one pair of brackets.
func (c *cursor) step() {
	if c.peek().Match > c.i {
		c.skipGroup()
		return
	}
	c.next()
	if c.i == len(c.tokens)-1 && c.peek().Kind != javascript.EOF {
		c.i = len(c.tokens)
	}
}

// startsType reports whether a type can begin at token i.
func (c *cursor) startsType(i int) bool {
	switch c.kindAt(i) {
	case javascript.Ident:
		w := c.textAt(i)
		return w != "extends" && w != "is"
	case javascript.String, javascript.Number, javascript.Template, javascript.TemplateHead:
		return true
	case javascript.Punct:
		switch c.textAt(i) {
		case "(", "[", "{", "-":
			return true
		}
	}
	return false
}
