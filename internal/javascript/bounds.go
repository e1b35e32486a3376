package javascript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The bounds on what the strict parser is given. It descends once for every
// operator or statement inside another, at 2 to 10 kB of stack each, and Go ends
// the whole process at 1 GB of stack; its later passes take time by the square
// of that depth; and it tries both readings of a ? (b) : c => d, which doubles
// its work for every one inside another.
const (
	maxChain     = 4_000 // tokens that may stand inside each other
	maxAmbiguous = 8     // conditions with arrow functions inside each other
)

// maxSource is the largest source that is read, in bytes. It is less than for
// other languages, because esbuild cannot be stopped and is quadratic on floods of
// mistakes that refer back to a first one.
const maxSource = 256 << 10

// decode refuses what is no text, and removes a byte order mark.
func decode(source []byte) (string, *Problem) {
	src := strings.TrimPrefix(string(source), "\ufeff")
	switch {
	case len(src) > maxSource:
		return src, &Problem{maxSource, fmt.Sprintf("the source has %d bytes, %d is the most", len(source), maxSource)}
	case strings.TrimSpace(src) == "":
		return src, &Problem{0, "the source is empty"}
	}
	for i, r := range src {
		if r == 0 {
			return src, &Problem{i, "the source is not text: it has a zero byte"}
		}
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], "\ufffd") {
			return src, &Problem{i, "the source is not text in UTF-8"}
		}
	}
	return src, nil
}

// level is what a pair of brackets holds up to now.
type level struct {
	list                        bool // of values, so that a comma ends one
	tokens                      int  // since the last statement or value began
	conditions, returns, arrows int  // since the last comma
}

// bounded refuses sources that the strict parser could not read in bounded
// stack and time. It adds up, over all open brackets, what may be unfinished.
func (s *Source) bounded() *Problem {
	stack := []level{{}}
	sum := 0
	for i, t := range s.Tokens {
		top := &stack[len(stack)-1]
		word, after := s.TextOf(t), s.wordAt(i+1)
		if s.begins(i) || word == ";" && after != "else" || word == "," && top.list {
			sum -= top.tokens
			*top = level{list: top.list}
		}
		top.tokens++
		sum++
		switch {
		case t.Match > i && t.Kind != TemplateMiddle:
			stack = append(stack, level{list: s.isList(i, top.list)})
			continue
		case t.Match >= 0 && t.Match < i && len(stack) > 1:
			sum -= top.tokens
			stack = stack[:len(stack)-1]
			continue
		case word == ",":
			top.conditions, top.returns, top.arrows = 0, 0, 0
		case word == "?" && after != ":" && after != ")" && after != ",":
			top.conditions++
		case word == ":" && s.wordAt(i-1) == ")":
			top.returns++
		case word == "=>":
			top.arrows++
		}
		if sum > maxChain {
			return &Problem{t.From, fmt.Sprintf("one statement has more than %d words", maxChain)}
		}
		if word == "=>" && ambiguous(stack) > maxAmbiguous {
			return &Problem{t.From, "too many conditions with arrow functions stand inside each other: give them names"}
		}
	}
	return nil
}

// begins reports whether token i begins a statement, so that everything before
// it in its brackets is finished: by its word, or because a line ended.
func (s *Source) begins(i int) bool {
	t, word := s.Tokens[i], s.wordAt(i)
	if t.Kind != Ident || i == 0 {
		return false
	}
	switch word {
	case "const", "export", "return", "throw":
		return true
	case "else", "in", "of", "instanceof", "as", "satisfies", "while", "catch", "finally":
		return false
	}
	before := s.Tokens[i-1]
	if !t.NewLine {
		return false
	}
	switch before.Kind {
	case Ident:
		return !ValueFollows(s.TextOf(before))
	case Punct:
		switch s.TextOf(before) {
		case "]", "}":
			return true
		case ")":
			return !s.closesHead(before)
		}
		return false
	}
	return before.Kind != TemplateHead && before.Kind != TemplateMiddle
}

// closesHead reports whether ")" ends the head of an if or a loop.
func (s *Source) closesHead(t Token) bool {
	switch s.wordAt(t.Match - 1) {
	case "if", "while", "for", "with":
		return !s.isMember(t.Match - 1)
	case "await":
		return s.wordAt(t.Match-2) == "for"
	}
	return false
}

// isList reports whether the bracket at i holds values and no statements.
func (s *Source) isList(i int, inList bool) bool {
	if s.wordAt(i) != "{" {
		return true
	}
	switch s.wordAt(i - 1) {
	case "=", "(", "[", ",", "return", "?":
		return true
	case ":":
		return inList
	}
	return false
}

// ambiguous counts the conditions whose branches may be arrow functions.
func ambiguous(stack []level) int {
	var c, r, a int
	for _, l := range stack {
		c, r, a = c+l.conditions, r+l.returns, a+l.arrows
	}
	return min(c, r, a)
}

// LineStarts returns where each line of text begins, in bytes.
func LineStarts(text string) []int {
	starts := []int{0}
	for i, r := range text {
		switch r {
		case '\n', '\u2028', '\u2029':
			starts = append(starts, i+utf8.RuneLen(r))
		case '\r':
			if !strings.HasPrefix(text[i+1:], "\n") {
				starts = append(starts, i+1)
			}
		}
	}
	return starts
}
