package tsschema

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// kind says what sort of token it is.
type kind uint8

const (
	kEOF kind = iota
	kIdent
	kNumber
	kString
	kTemplate // a template without substitutions
	kHead     // `…${
	kMiddle   // }…${
	kTail     // }…`
	kRegexp
	kPunct
)

// A token is one word of the source.
type token struct {
	kind       kind
	from, to   int  // in bytes
	newline    bool // a line ends between the token before and this one
	match      int  // index of the other bracket of a pair
	firstNote  int  // comments[firstNote:afterNotes] stand before this token
	afterNotes int
}

// A comment is a comment with its marks.
type comment struct{ from, to int }

// A lexer splits source into tokens. It needs no more than one pass and no
// recursion, so that nothing in the source can make it slow or deep.
type lexer struct {
	src      string
	pos      int
	tokens   []token
	comments []comment
	open     []int // indexes of brackets that are open
	err      *problem
}

// puncts are the operators that must not be taken apart, longest first. ">" is
// always alone: it closes type arguments.
var puncts = []string{"...", "===", "!==", "**=", "??=", "&&=", "||=", "=>", "==", "!=", "<=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**"}

// lex splits src from a byte on, and pairs its brackets.
func lex(src string, from int) (*lexer, *problem) {
	l := &lexer{src: src, pos: from}
	if from == 0 && strings.HasPrefix(src, "#!") {
		l.pos = strings.IndexByte(src+"\n", '\n')
	}
	for l.err == nil {
		first := len(l.comments)
		nl := l.space()
		if l.err != nil {
			break
		}
		t := token{from: l.pos, newline: nl, match: -1, firstNote: first, afterNotes: len(l.comments)}
		if l.pos >= len(src) {
			t.to = t.from
			l.tokens = append(l.tokens, t)
			break
		}
		t.kind = l.next()
		l.pos = min(l.pos, len(src)) // a backslash may be the last byte
		t.to = l.pos
		l.tokens = append(l.tokens, t)
		l.pair()
	}
	if l.err == nil && len(l.open) > 0 {
		at := l.tokens[l.open[len(l.open)-1]]
		l.fail(at.from, "the "+quote(l.text(at))+" is never closed")
	}
	return l, l.err
}

// text returns what the source says.
func (l *lexer) text(t token) string { return l.src[t.from:t.to] }

// fail keeps the first problem.
func (l *lexer) fail(at int, message string) {
	if l.err == nil {
		l.err = &problem{at: at, message: message}
	}
}

// space skips blanks and comments, and reports whether a line ended.
func (l *lexer) space() (newline bool) {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case rest[0] == '\n' || rest[0] == '\r':
			newline = true
			l.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\v' || rest[0] == '\f':
			l.pos++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexAny(rest, "\r\n")
			if n < 0 {
				n = len(rest)
			}
			l.comments = append(l.comments, comment{l.pos, l.pos + n})
			l.pos += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.fail(l.pos, "the comment is never closed")
				return newline
			}
			newline = newline || strings.ContainsAny(rest[:n+4], "\r\n")
			l.comments = append(l.comments, comment{l.pos, l.pos + n + 4})
			l.pos += n + 4
		case rest[0] >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) && r != '\u2028' && r != '\u2029' && r != '\ufeff' {
				return newline
			}
			newline = newline || r == '\u2028' || r == '\u2029'
			l.pos += n
		default:
			return newline
		}
	}
	return newline
}

// next reads one token.
func (l *lexer) next() kind {
	rest := l.src[l.pos:]
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		return l.quoted(c)
	case c == '`':
		l.pos++
		return l.template(kTemplate, kHead)
	case c == '}' && len(l.open) > 0 && l.isTemplate(l.open[len(l.open)-1]):
		l.pos++
		return l.template(kTail, kMiddle)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		return l.number()
	case c == '/' && l.regexpAllowed():
		if closingTag().MatchString(rest) && strings.HasSuffix(l.src[:l.pos], "<") {
			l.fail(l.pos-1, noJSX)
		}
		return l.regexp()
	case c == '#' || c == '@' || c == '\\' || identStart(rest):
		return l.ident()
	}
	for _, p := range puncts {
		if !strings.HasPrefix(rest, p) {
			continue
		}
		if p == "?." && len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9' {
			continue // a?.5:1 is a condition
		}
		l.pos += len(p)
		return kPunct
	}
	_, n := utf8.DecodeRuneInString(rest)
	l.pos += n
	return kPunct
}

// noJSX refuses elements, which need a compiler that knows what makes them.
const noJSX = "JSX is not supported: a tool returns data, not elements"

// closingTag is what follows the "<" of </name>.
var closingTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z_$][\w$.:-]*\s*>|^/>`) })

// isTemplate reports whether token i opens a substitution.
func (l *lexer) isTemplate(i int) bool {
	return l.tokens[i].kind == kHead || l.tokens[i].kind == kMiddle
}

// identStart reports whether an identifier starts here.
func identStart(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

// ident reads an identifier, a private name or the @ of a decorator.
func (l *lexer) ident() kind {
	start := l.pos
	for l.pos < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[l.pos:])
		ok := r == '_' || r == '$' || r == '\u200c' || r == '\u200d' || unicode.IsLetter(r) || unicode.IsDigit(r) ||
			unicode.In(r, unicode.Nl, unicode.Mn, unicode.Mc, unicode.Pc) || l.pos == start
		if r == '\\' {
			l.fail(l.pos, "a name is written with an escape: write its letters")
			return kIdent
		}
		if !ok {
			break
		}
		l.pos += n
	}
	return kIdent
}

// quoted reads a string.
func (l *lexer) quoted(end byte) kind {
	start := l.pos
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch l.src[l.pos] {
		case end:
			l.pos++
			return kString
		case '\\':
			l.pos++
		case '\n', '\r':
			l.fail(start, "the string is never closed")
			return kString
		}
	}
	l.fail(start, "the string is never closed")
	return kString
}

// template reads a piece of a template up to its end or its next substitution.
func (l *lexer) template(atEnd, atSubstitution kind) kind {
	start := l.pos - 1
	for ; l.pos < len(l.src); l.pos++ {
		switch {
		case l.src[l.pos] == '\\':
			l.pos++
		case l.src[l.pos] == '`':
			l.pos++
			return atEnd
		case strings.HasPrefix(l.src[l.pos:], "${"):
			l.pos += 2
			return atSubstitution
		}
	}
	l.pos = len(l.src)
	l.fail(start, "the template string is never closed")
	return atEnd
}

// number reads a number with all that may be glued to it.
func (l *lexer) number() kind {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '.':
		case (c == '+' || c == '-') && (l.src[l.pos-1] == 'e' || l.src[l.pos-1] == 'E'):
		default:
			return kNumber
		}
		l.pos++
	}
	return kNumber
}

// beforeRegexp are the words after which a value begins.
var beforeRegexp = map[string]bool{"return": true, "typeof": true, "case": true, "in": true, "of": true, "do": true, "else": true, "void": true, "delete": true, "throw": true, "new": true, "instanceof": true, "await": true, "yield": true, "default": true, "extends": true}

// regexpAllowed decides whether "/" begins a regular expression, from the token
// before it. After "}" only a grammar of statements could tell: a "/" at the
// beginning of a line is taken as a regular expression there.
func (l *lexer) regexpAllowed() bool {
	if len(l.tokens) == 0 {
		return true
	}
	p := l.tokens[len(l.tokens)-1]
	switch p.kind {
	case kNumber, kString, kTemplate, kTail, kRegexp:
		return false
	case kIdent:
		return beforeRegexp[l.text(p)]
	}
	switch l.text(p) {
	case "]", "++", "--":
		return false
	case ")":
		return l.closesHead(p)
	case "}":
		return strings.TrimLeft(l.src[p.to:l.pos], " \t") != ""
	}
	return true
}

// regexp reads a regular expression and its flags.
func (l *lexer) regexp() kind {
	start, class := l.pos, false
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '\\':
			l.pos++
		case c == '\n' || c == '\r':
			l.fail(start, "the regular expression is never closed")
			return kRegexp
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for l.pos++; l.pos < len(l.src) && l.src[l.pos] >= 'a' && l.src[l.pos] <= 'z'; l.pos++ {
			}
			return kRegexp
		}
	}
	l.pos = len(l.src)
	l.fail(start, "the regular expression is never closed")
	return kRegexp
}

// closers are the brackets that end what others open.
var closers = map[string]string{")": "(", "]": "[", "}": "{"}

// pair connects the newest token to the bracket that it closes.
func (l *lexer) pair() {
	i := len(l.tokens) - 1
	t := l.tokens[i]
	text := l.text(t)
	opens := t.kind == kHead || t.kind == kMiddle || t.kind == kPunct && (text == "(" || text == "[" || text == "{")
	closes := t.kind == kMiddle || t.kind == kTail || t.kind == kPunct && closers[text] != ""
	if closes {
		if len(l.open) == 0 {
			l.fail(t.from, "the "+quote(text)+" closes nothing")
			return
		}
		j := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if t.kind == kPunct && l.text(l.tokens[j]) != closers[text] {
			l.fail(t.from, "the "+quote(text)+" does not close the "+quote(l.text(l.tokens[j]))+" before it")
			return
		}
		l.tokens[j].match = i
		if !opens {
			l.tokens[i].match = j
		}
	}
	if opens {
		if len(l.open) >= maxNesting {
			l.fail(t.from, "brackets are nested deeper than "+itoa(maxNesting))
			return
		}
		l.open = append(l.open, i)
	}
}
