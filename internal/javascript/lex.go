package javascript

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A Kind says what sort of token it is.
type Kind uint8

// The kinds of tokens.
const (
	EOF Kind = iota
	Ident
	Number
	String
	Template       // a template without substitutions
	TemplateHead   // `…${
	TemplateMiddle // }…${
	TemplateTail   // }…`
	Regexp
	Punct
)

// A Token is one word of the source.
type Token struct {
	Kind     Kind
	From, To int  // in bytes
	NewLine  bool // a line ends between the token before and this one
	Match    int  // index of the other bracket of a pair
	// Comments[FirstComment:AfterComments] stand before this token.
	FirstComment, AfterComments int
}

// A Comment is a comment with its marks.
type Comment struct{ From, To int }

// A Source is the text of a program and its tokens.
type Source struct {
	Text     string
	Tokens   []Token
	Comments []Comment
}

// A Problem is something wrong with a source. At is where, in bytes, or -1.
type Problem struct {
	At      int
	Message string
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// lineEnds end a line, a comment of one line and a regular expression.
const lineEnds = "\r\n\u2028\u2029"

// A lexer splits source into tokens. It needs no more than one pass and no
// recursion, so that nothing in the source can make it slow or deep.
type lexer struct {
	*Source
	pos  int
	open []int // indexes of brackets that are open
	// unsure is how many bytes may be code or a regular expression.
	unsure int
	err    *Problem
}

// puncts are the operators that must not be taken apart, longest first. ">" is
// always alone: it closes type arguments.
var puncts = strings.Fields("... === !== **= ??= &&= ||= => == != <= && || ?? ?. ++ -- += -= *= /= %= &= |= ^= **")

// Lex splits text from a byte on, and pairs its brackets. After a problem the
// source has the tokens before it.
func Lex(text string, from int) (*Source, *Problem) {
	l := &lexer{Source: &Source{Text: text}, pos: from}
	if from == 0 && strings.HasPrefix(text, "#!") {
		l.pos = strings.IndexAny(text+"\n", lineEnds)
	}
	for l.err == nil {
		first := len(l.Comments)
		nl := l.space()
		if l.err != nil {
			break
		}
		t := Token{From: l.pos, NewLine: nl, Match: -1, FirstComment: first, AfterComments: len(l.Comments)}
		if l.pos >= len(text) {
			t.To = t.From
			l.Tokens = append(l.Tokens, t)
			break
		}
		t.Kind = l.next()
		l.pos = min(l.pos, len(text)) // a backslash may be the last byte
		t.To = l.pos
		l.Tokens = append(l.Tokens, t)
		l.pair()
	}
	if l.err == nil && len(l.open) > 0 {
		at := l.Tokens[l.open[len(l.open)-1]]
		l.fail(at.From, "the "+quote(l.TextOf(at))+" is never closed")
	}
	return l.Source, l.err
}

// TextOf returns what the source says.
func (s *Source) TextOf(t Token) string { return s.Text[t.From:t.To] }

// wordAt returns the text of token i, or "".
func (s *Source) wordAt(i int) string {
	if i < 0 || i >= len(s.Tokens) {
		return ""
	}
	return s.TextOf(s.Tokens[i])
}

// fail keeps the first problem.
func (l *lexer) fail(at int, message string) {
	if l.err == nil {
		l.err = &Problem{At: at, Message: message}
	}
}

// space skips blanks and comments, and reports whether a line ended.
func (l *lexer) space() (newline bool) {
	for l.pos < len(l.Text) {
		rest := l.Text[l.pos:]
		switch {
		case rest[0] == '\n' || rest[0] == '\r':
			newline = true
			l.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\v' || rest[0] == '\f':
			l.pos++
		case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "<!--"),
			strings.HasPrefix(rest, "-->") && (newline || len(l.Tokens) == 0):
			n := strings.IndexAny(rest, lineEnds)
			if n < 0 {
				n = len(rest)
			}
			l.Comments = append(l.Comments, Comment{l.pos, l.pos + n})
			l.pos += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.fail(l.pos, "the comment is never closed")
				return newline
			}
			newline = newline || strings.ContainsAny(rest[:n+4], lineEnds)
			l.Comments = append(l.Comments, Comment{l.pos, l.pos + n + 4})
			l.pos += n + 4
		case rest[0] >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(rest)
			if !isSpace(r) {
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

// isSpace reports whether r stands between tokens.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

// next reads one token.
func (l *lexer) next() Kind {
	rest := l.Text[l.pos:]
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		return l.quoted(c)
	case c == '`':
		l.pos++
		return l.template(Template, TemplateHead)
	case c == '}' && len(l.open) > 0 && l.isTemplate(l.open[len(l.open)-1]):
		l.pos++
		return l.template(TemplateTail, TemplateMiddle)
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		return l.number()
	case c == '/' && l.regexpAllowed():
		if strings.HasSuffix(l.Text[:l.pos], "<") && closingTag().MatchString(rest) {
			l.fail(l.pos-1, NoJSX)
		}
		return l.regexp()
	case c == '#' || c == '@' || c == '\\' || c >= utf8.RuneSelf || StartsName(rest):
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
		return Punct
	}
	_, n := utf8.DecodeRuneInString(rest)
	l.pos += n
	return Punct
}

// NoJSX is the message about elements, which need a compiler that knows what makes them.
const NoJSX = "JSX is not supported: a tool returns data, not elements"

// closingTag is what follows the "<" of </name>.
var closingTag = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/(?:[A-Za-z_$][\w$.:-]*\s*)?>`)
})

// isTemplate reports whether token i opens a substitution.
func (l *lexer) isTemplate(i int) bool {
	return l.Tokens[i].Kind == TemplateHead || l.Tokens[i].Kind == TemplateMiddle
}

// StartsName reports whether a name begins text.
func StartsName(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

// ident reads an identifier, a private name or the @ of a decorator. Every sign
// beyond ASCII counts as part of it: esbuild stops at those that are not.
func (l *lexer) ident() Kind {
	start := l.pos
	for l.pos < len(l.Text) {
		r, n := utf8.DecodeRuneInString(l.Text[l.pos:])
		ok := r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) || r >= utf8.RuneSelf && !isSpace(r) ||
			l.pos == start || r == '\\'
		if !ok {
			break
		}
		if end := strings.IndexByte(l.Text[l.pos:], '}'); end > 0 && strings.HasPrefix(l.Text[l.pos:], `\u{`) {
			n = end + 1
		}
		l.pos += n
	}
	return Ident
}

// quoted reads a string.
func (l *lexer) quoted(end byte) Kind {
	start := l.pos
	for l.pos++; l.pos < len(l.Text); l.pos++ {
		switch l.Text[l.pos] {
		case end:
			l.pos++
			return String
		case '\\':
			l.pos++
		case '\n', '\r':
			l.fail(start, "the string is never closed")
			return String
		}
	}
	l.fail(start, "the string is never closed")
	return String
}

// template reads a piece of a template up to its end or its next substitution.
func (l *lexer) template(atEnd, atSubstitution Kind) Kind {
	start := l.pos - 1
	for ; l.pos < len(l.Text); l.pos++ {
		switch {
		case l.Text[l.pos] == '\\':
			l.pos++
		case l.Text[l.pos] == '`':
			l.pos++
			return atEnd
		case strings.HasPrefix(l.Text[l.pos:], "${"):
			l.pos += 2
			return atSubstitution
		}
	}
	l.pos = len(l.Text)
	l.fail(start, "the template string is never closed")
	return atEnd
}

// number reads a number with all that may be glued to it.
func (l *lexer) number() Kind {
	hex := strings.HasPrefix(strings.ToLower(l.Text[l.pos:min(l.pos+2, len(l.Text))]), "0x") // 0xe+1 is a sum
	for l.pos < len(l.Text) {
		c := l.Text[l.pos]
		switch {
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '.':
		case !hex && (c == '+' || c == '-') && (l.Text[l.pos-1] == 'e' || l.Text[l.pos-1] == 'E'):
		default:
			return Number
		}
		l.pos++
	}
	return Number
}

// ValueFollows reports whether a value begins after this word.
func ValueFollows(word string) bool {
	switch word {
	case "return", "typeof", "case", "in", "of", "do", "else", "void", "delete", "throw", "new", "instanceof", "await",
		"yield", "default", "extends":
		return true
	}
	return false
}

// maxUnsure is how many bytes of a source may be code or a regular expression: too
// few to hide anything from the bounds.
const maxUnsure = 64

// regexpAllowed decides whether "/" begins a regular expression, from the token
// before it. Sometimes only a grammar of statements and types decides it. Without
// another "/" on the line it divides then, or esbuild stops there; else this is a
// guess about the rest of the line, and a wrong one hides code from the bounds.
func (l *lexer) regexpAllowed() bool {
	begins, sure := l.regexpFollows()
	if sure {
		return begins
	}
	line := l.Text[l.pos+1:]
	if end := strings.IndexAny(line, lineEnds); end >= 0 {
		line = line[:end]
	}
	if !strings.Contains(line, "/") {
		return false
	}
	l.unsure += len(line)
	spans := strings.Contains(line, "`") || strings.Contains(line, "//") || strings.Contains(line, "/*")
	if l.unsure > maxUnsure || spans {
		l.fail(l.pos, "this “/” may divide or begin a regular expression: give the regular expression a name, "+
			"or put the division into brackets and its comment on another line")
	}
	return begins
}

// regexpFollows reports whether "/" begins a regular expression after the token
// before it, and whether that is sure.
func (l *lexer) regexpFollows() (begins, sure bool) {
	last := len(l.Tokens) - 1
	if last < 0 {
		return true, true
	}
	p := l.Tokens[last]
	word := l.TextOf(p)
	sameLine := !strings.ContainsAny(l.Text[p.To:l.pos], lineEnds) // else a statement may end without ";"
	switch p.Kind {
	case Number, String, Template, TemplateTail, Regexp:
		return false, sameLine
	case Ident:
		if !ValueFollows(word) || l.isMember(last) {
			return false, sameLine
		}
		return true, word != "of" && word != "yield" && word != "await" // which may be names
	}
	switch word {
	case "]":
		return false, sameLine
	case ")":
		head := l.closesHead(p)
		return head, head || sameLine
	case "!": // not, or the mark of TypeScript after a value
		return true, !l.endsValue(last - 1)
	case "}":
		return !sameLine, false
	case ">", "++", "--":
		return word == ">", false
	}
	return true, true
}

// isMember reports whether token i is the name of a member.
func (s *Source) isMember(i int) bool { return s.wordAt(i-1) == "." || s.wordAt(i-1) == "?." }

// endsValue reports whether token i may be the last of a value.
func (s *Source) endsValue(i int) bool {
	if i < 0 {
		return false
	}
	t := s.Tokens[i]
	switch word := s.TextOf(t); {
	case t.Kind == Ident:
		return !ValueFollows(word) || s.isMember(i) || word == "of" || word == "yield" || word == "await"
	case t.Kind == Punct:
		return word == "]" || word == "}" || word == "!" || word == ">" || word == ")" && !s.closesHead(t)
	}
	return t.Kind != TemplateHead && t.Kind != TemplateMiddle
}

// regexp reads a regular expression and its flags.
func (l *lexer) regexp() Kind {
	start, class := l.pos, false
	for l.pos++; l.pos < len(l.Text); l.pos++ {
		switch c := l.Text[l.pos]; {
		case c == '\\':
			l.pos++
		case c == '\n' || c == '\r':
			l.fail(start, "the regular expression is never closed")
			return Regexp
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for l.pos++; l.pos < len(l.Text) && l.Text[l.pos] >= 'a' && l.Text[l.pos] <= 'z'; l.pos++ {
			}
			return Regexp
		}
	}
	l.pos = len(l.Text)
	l.fail(start, "the regular expression is never closed")
	return Regexp
}

// closers are the brackets that end what others open.
var closers = map[string]string{")": "(", "]": "[", "}": "{"}

// ClosesBracket reports whether text is a closing bracket.
func ClosesBracket(text string) bool { return closers[text] != "" }

// maxNesting is how many brackets may stand in each other.
const maxNesting = 256

// pair connects the newest token to the bracket that it closes.
func (l *lexer) pair() {
	i := len(l.Tokens) - 1
	t := l.Tokens[i]
	text := l.TextOf(t)
	opens := t.Kind == TemplateHead || t.Kind == TemplateMiddle ||
		t.Kind == Punct && (text == "(" || text == "[" || text == "{")
	closes := t.Kind == TemplateMiddle || t.Kind == TemplateTail || t.Kind == Punct && closers[text] != ""
	if closes {
		if len(l.open) == 0 {
			l.fail(t.From, "the "+quote(text)+" closes nothing")
			return
		}
		j := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if t.Kind == Punct && l.TextOf(l.Tokens[j]) != closers[text] {
			l.fail(t.From, "the "+quote(text)+" does not close the "+quote(l.TextOf(l.Tokens[j]))+" before it")
			return
		}
		l.Tokens[j].Match = i
		if !opens {
			l.Tokens[i].Match = j
		}
	}
	if opens {
		if len(l.open) >= maxNesting {
			l.fail(t.From, "brackets are nested deeper than "+strconv.Itoa(maxNesting))
			return
		}
		l.open = append(l.open, i)
	}
}

// quote marks a word of the source in a message.
func quote(s string) string { return "“" + s + "”" }
