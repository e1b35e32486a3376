package review

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// jsKind is the kind of a token.
type jsKind byte

// The kinds of tokens.
const (
	jsEnd    jsKind = iota
	jsName          // text is the name with its escapes read
	jsNumber        // text is as written
	jsString        // text is the value; also a part of a template
	jsRegexp        // text is as written
	jsPunct         // text is the sign
)

// A jsToken is one token of JavaScript or TypeScript.
type jsToken struct {
	kind jsKind
	text string
	line int
	// escapes is how many printable characters are written as escapes.
	escapes int
	// template says that it is a part of a template; the others stand between ${
	// and }.
	template bool
}

// maxTokens bounds a source.
const maxTokens = 1 << 20

// A jsScanner makes tokens of source. It knows as much of the grammar as telling
// a regular expression from a division takes.
type jsScanner struct {
	src    string
	at     int
	line   int
	tokens []jsToken
	// parens and braces remember what stood before each that is open, to know
	// what follows when it closes.
	parens []bool // after if, while, for or with: a statement follows
	braces []jsBrace
	broken int // the line where the source stops being readable; 0 if it does not
}

// jsBrace is a { that is open.
type jsBrace struct {
	block    bool // of statements, so that a regular expression may follow it
	template bool // of ${ in a template
}

// scanJS returns the tokens of a source and the line where it is broken, or 0. It
// always ends with a token of kind jsEnd.
func scanJS(source string, stopped func() bool) ([]jsToken, int) {
	s := &jsScanner{src: strings.TrimPrefix(source, "\ufeff"), line: 1}
	if strings.HasPrefix(s.src, "#!") {
		s.at = len(s.src) - len(strings.TrimLeftFunc(s.src, func(r rune) bool { return r != '\n' }))
	}
	for s.broken == 0 && len(s.tokens) < maxTokens && s.next() {
		if len(s.tokens)%4096 == 0 && stopped() {
			break
		}
	}
	if s.broken == 0 && (len(s.braces) > 0 || len(s.parens) > 0 || len(s.tokens) >= maxTokens) {
		s.broken = s.line
	}
	return append(s.tokens, jsToken{kind: jsEnd, line: s.line}), s.broken
}

// add adds a token.
func (s *jsScanner) add(t jsToken) { s.tokens = append(s.tokens, t) }

// last is the token before, jsEnd at the start.
func (s *jsScanner) last() jsToken {
	if len(s.tokens) == 0 {
		return jsToken{}
	}
	return s.tokens[len(s.tokens)-1]
}

// next reads one token, comment or space. It reports whether there was one.
func (s *jsScanner) next() bool {
	if s.at >= len(s.src) {
		return false
	}
	rest := s.src[s.at:]
	switch c := rest[0]; {
	case c == '\n':
		s.line++
		s.at++
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		s.at++
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "<!--"):
		// HTML-like comments are comments in scripts and not in modules. Modules
		// that hold them do not parse, so the reading as a comment is right.
		s.at += strings.IndexFunc(rest+"\n", func(r rune) bool { return r == '\n' || r == '\u2028' || r == '\u2029' })
	case strings.HasPrefix(rest, "/*"):
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			s.broken = s.line
			return false
		}
		s.line += strings.Count(rest[:end+2], "\n")
		s.at += end + 4
	case c == '"' || c == '\'':
		s.quoted(c)
	case c == '`':
		s.at++
		s.template()
	case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		s.number()
	case c == '/' && s.regexpMayFollow() && s.regexp():
	default:
		s.other(rest)
	}
	return true
}

// other reads names and signs.
func (s *jsScanner) other(rest string) {
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case nameStart(r) || r == '\\' || r == '#' && len(rest) > 1 && nameStart(rune(rest[1])):
		s.name()
	case unicode.IsSpace(r) || r == '\ufeff' || r == '\u2028' || r == '\u2029':
		s.at += size
	case r >= utf8.RuneSelf:
		s.at += size // what cannot be seen is for the review of text
		s.broken = s.line
	default:
		s.sign(rest)
	}
}

func nameStart(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) }

func namePart(r rune) bool {
	return nameStart(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || unicode.Is(unicode.Pc, r) || r == '\u200c' || r == '\u200d'
}

// name reads a name, with escapes such as \u0065.
func (s *jsScanner) name() {
	var b strings.Builder
	t := jsToken{kind: jsName, line: s.line}
	if s.src[s.at] == '#' {
		b.WriteByte('#')
		s.at++
	}
	for s.at < len(s.src) {
		r, size := utf8.DecodeRuneInString(s.src[s.at:])
		if r == '\\' {
			text, n, ok := jsEscape(s.src[s.at:])
			if !ok || !strings.HasPrefix(s.src[s.at:], `\u`) {
				s.broken = s.line
				s.at++
				break
			}
			t.escapes++
			b.WriteString(text)
			s.at += n
			continue
		}
		if !namePart(r) {
			break
		}
		b.WriteRune(r)
		s.at += size
	}
	t.text = b.String()
	s.add(t)
}

// number reads a number, roughly: what follows it is never part of a name.
func (s *jsScanner) number() {
	start := s.at
	for s.at < len(s.src) {
		c := s.src[s.at]
		sign := (c == '+' || c == '-') && (s.src[s.at-1]|0x20) == 'e' && !strings.HasPrefix(s.src[start:], "0x") && !strings.HasPrefix(s.src[start:], "0X") && s.at > start
		if c != '_' && c != '.' && !sign && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		s.at++
	}
	s.add(jsToken{kind: jsNumber, text: strings.ReplaceAll(s.src[start:s.at], "_", ""), line: s.line})
}

// jsSigns are those that are longer than a character.
var jsSigns = []string{">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**"}

// sign reads a sign and keeps the books of brackets.
func (s *jsScanner) sign(rest string) {
	text := rest[:1]
	for _, long := range jsSigns {
		if strings.HasPrefix(rest, long) && !(long == "?." && len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9') {
			text = long
			break
		}
	}
	before := s.last()
	t := jsToken{kind: jsPunct, text: text, line: s.line}
	s.at += len(text)
	switch text {
	case "(":
		s.parens = append(s.parens, before.kind == jsName && (before.text == "if" || before.text == "while" || before.text == "for" || before.text == "with"))
	case ")":
		if n := len(s.parens); n > 0 {
			if s.parens[n-1] {
				t.escapes = -1 // a statement follows
			}
			s.parens = s.parens[:n-1]
		} else {
			s.broken = s.line
		}
	case "{":
		block := before.kind == jsEnd || before.kind == jsPunct && strings.Contains(" ) ; { } => ", " "+before.text+" ") ||
			before.kind == jsName && (before.text == "else" || before.text == "do" || before.text == "try" || before.text == "finally")
		s.braces = append(s.braces, jsBrace{block: block})
	case "}":
		n := len(s.braces)
		if n == 0 {
			s.broken = s.line
			break
		}
		top := s.braces[n-1]
		s.braces = s.braces[:n-1]
		if top.template {
			s.add(t)
			s.template()
			return
		}
		if top.block {
			t.escapes = -1
		}
	}
	s.add(t)
}

// regexpMayFollow reports whether a / begins a regular expression here.
func (s *jsScanner) regexpMayFollow() bool {
	switch t := s.last(); t.kind {
	case jsEnd:
		return true
	case jsName:
		switch t.text {
		case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "instanceof", "do", "else", "yield", "await":
			return len(s.tokens) < 2 || s.tokens[len(s.tokens)-2].text != "."
		}
		return false
	case jsNumber, jsRegexp, jsString:
		return false
	case jsPunct:
		switch t.text {
		case ")", "}":
			return t.escapes < 0
		case "]", "++", "--":
			return false
		}
	}
	return true
}

// regexp reads a regular expression. If it does not end in its line there is
// none, and nothing is read.
func (s *jsScanner) regexp() bool {
	class := false
	for i := s.at + 1; i < len(s.src); i++ {
		switch s.src[i] {
		case '\n':
			return false
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if class {
				continue
			}
			end := i + 1
			for end < len(s.src) && s.src[end]|0x20 >= 'a' && s.src[end]|0x20 <= 'z' {
				end++
			}
			s.add(jsToken{kind: jsRegexp, text: s.src[s.at:end], line: s.line})
			s.at = end
			return true
		}
	}
	return false
}

// quoted reads a string.
func (s *jsScanner) quoted(quote byte) {
	var b strings.Builder
	t := jsToken{kind: jsString, line: s.line}
	for s.at++; s.at < len(s.src); {
		switch c := s.src[s.at]; c {
		case quote:
			s.at++
			t.text = b.String()
			s.add(t)
			return
		case '\n':
			s.broken = s.line
			return
		case '\\':
			s.escape(&b, &t)
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	s.broken = s.line
}

// template reads a part of a template, to its end or to the next ${.
func (s *jsScanner) template() {
	var b strings.Builder
	t := jsToken{kind: jsString, line: s.line, template: true}
	for s.at < len(s.src) {
		switch c := s.src[s.at]; {
		case c == '`':
			s.at++
			t.text = b.String()
			s.add(t)
			return
		case strings.HasPrefix(s.src[s.at:], "${"):
			s.at += 2
			t.text = b.String()
			s.add(t)
			s.add(jsToken{kind: jsPunct, text: "${", line: s.line})
			s.braces = append(s.braces, jsBrace{template: true})
			return
		case c == '\\':
			s.escape(&b, &t)
		default:
			if c == '\n' {
				s.line++
			}
			b.WriteByte(c)
			s.at++
		}
	}
	s.broken = s.line
}

// escape reads one escape of a string.
func (s *jsScanner) escape(b *strings.Builder, t *jsToken) {
	text, n, ok := jsEscape(s.src[s.at:])
	if !ok { // of a template with a tag; the character itself will do
		text, n = s.src[s.at:min(s.at+2, len(s.src))], min(2, len(s.src)-s.at)
	}
	if n > 2 && len(text) == 1 && text[0] > ' ' && text[0] < 0x7f {
		t.escapes++
	}
	s.line += strings.Count(s.src[s.at:s.at+n], "\n")
	b.WriteString(text)
	s.at += n
}

// jsEscape reads the escape at the start of text, and returns what it means and
// how long it is.
func jsEscape(text string) (string, int, bool) {
	if len(text) < 2 {
		return "", len(text), false
	}
	code := func(from, to, size int) (string, int, bool) {
		if to > len(text) || from >= to {
			return "", 2, false
		}
		v, err := strconv.ParseUint(text[from:to], 16, 32)
		if err != nil || v > unicode.MaxRune {
			return "", 2, false
		}
		return string(rune(v)), size, true
	}
	switch text[1] {
	case 'x':
		return code(2, 4, 4)
	case 'u':
		if strings.HasPrefix(text, `\u{`) {
			end := strings.IndexByte(text[:min(len(text), 16)], '}')
			return code(3, end, end+1)
		}
		return code(2, 6, 6)
	case 'n':
		return "\n", 2, true
	case 't':
		return "\t", 2, true
	case 'r':
		return "\r", 2, true
	case '\n':
		return "", 2, true
	case '\r':
		if strings.HasPrefix(text[1:], "\r\n") {
			return "", 3, true
		}
		return "", 2, true
	case '0', '1', '2', '3', '4', '5', '6', '7':
		end := 2
		for end < len(text) && end < 4 && text[end] >= '0' && text[end] <= '7' {
			end++
		}
		v, err := strconv.ParseUint(text[1:end], 8, 32)
		return string(rune(v)), end, err == nil
	}
	_, size := utf8.DecodeRuneInString(text[1:])
	return text[1 : 1+size], 1 + size, true
}
