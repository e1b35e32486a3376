package policy

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// The bounds on the patterns of filters. The time that RE2 takes for one byte of
// text grows with the instructions of the compiled pattern, so that they bound what
// a byte can cost.
const (
	MaxPattern  = 500  // instructions of one pattern
	MaxPatterns = 2500 // instructions of all patterns of a document
)

const (
	// maxMatches is how many matches of one pattern in one text are kept apart.
	// Everything from the last one on counts as one match.
	maxMatches = 10_000
	// direct is up to which length a text is searched in one go. Longer ones are read
	// step by step, and the search ends when its context does.
	direct = 1 << 10
	// stride is after how many characters the context is looked at.
	stride = 4 << 10
)

// matcher is a compiled pattern of a filter.
type matcher struct {
	re *regexp.Regexp
	// next is re after one character, which gives it its context: a search that goes
	// on behind a match must know what stands before, for ^ and \b.
	next *regexp.Regexp
	// need is a text that every match has in it; "" means that none is known. Most
	// texts do not have it, and finding that out costs next to nothing.
	need string
	size int // instructions
}

// newMatcher compiles a pattern.
func newMatcher(text string) (*matcher, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	next, err := regexp.Compile(`(?s:.)(?:` + text + `)`)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	need := required(tree)
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	return &matcher{re: re, next: next, need: need, size: len(prog.Inst)}, nil
}

// required returns the longest text that can be seen to be in every match.
func required(t *syntax.Regexp) string {
	switch t.Op {
	case syntax.OpLiteral:
		if t.Flags&syntax.FoldCase == 0 {
			return string(t.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return required(t.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range t.Sub {
			if s := required(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}

// find returns where the pattern matches, in order, empty matches left out. A nil
// context never ends.
func (m *matcher) find(ctx context.Context, text string) ([][]int, error) {
	if m.need != "" && !strings.Contains(text, m.need) {
		return nil, nil
	}
	if ctx != nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if len(text) > direct {
		return m.findLong(ctx, text)
	}
	found := m.re.FindAllStringIndex(text, maxMatches)
	n := 0
	for _, at := range found {
		if at[0] < at[1] {
			found[n] = at
			n++
		}
	}
	return extendLast(found[:n], len(found), text), nil
}

// extendLast makes the last of as many matches as are kept apart reach to the end.
func extendLast(found [][]int, seen int, text string) [][]int {
	if seen >= maxMatches && len(found) > 0 {
		found[len(found)-1][1] = len(text)
	}
	return found
}

// findLong is find for a long text.
func (m *matcher) findLong(ctx context.Context, text string) ([][]int, error) {
	var found [][]int
	re, from := m.re, 0 // from is where re begins to read
	seen := 0
	for ; seen < maxMatches; seen++ {
		r := &runes{ctx: ctx, text: text, at: from}
		loc := re.FindReaderIndex(r)
		if r.err != nil {
			return nil, r.err
		}
		if loc == nil {
			break
		}
		start, end := from+loc[0], from+loc[1]
		if re == m.next { // less the character before
			_, n := utf8.DecodeRuneInString(text[start:])
			start += n
		}
		after := end
		if start < end {
			found = append(found, []int{start, end})
		} else {
			_, n := utf8.DecodeRuneInString(text[end:])
			after += n
		}
		if after >= len(text) {
			break
		}
		_, n := utf8.DecodeLastRuneInString(text[:after])
		re, from = m.next, after-n
	}
	return extendLast(found, seen, text), nil
}

// runes reads a text for a regular expression, until its context ends: then the text
// seems to end, and err says why.
type runes struct {
	ctx  context.Context //nolint:containedctx // of one search
	text string
	at   int
	left int // before the context is looked at again
	err  error
}

// ReadRune implements [io.RuneReader].
func (r *runes) ReadRune() (rune, int, error) {
	if r.left--; r.left < 0 {
		if r.left = stride; r.ctx != nil {
			if r.err = r.ctx.Err(); r.err != nil {
				return 0, 0, io.EOF
			}
		}
	}
	if r.at >= len(r.text) {
		return 0, 0, io.EOF
	}
	if c := r.text[r.at]; c < utf8.RuneSelf {
		r.at++
		return rune(c), 1, nil
	}
	c, n := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += n
	return c, n, nil
}

// checkCost reports why a pattern must not be stored: it, or all of them together, cost
// too much for each byte.
func checkCost(m *matcher, sum int) error {
	switch {
	case m.size > MaxPattern:
		return fmt.Errorf("the pattern has %d steps, %d is the most: repeat less, or shorter parts", m.size, MaxPattern)
	case sum > MaxPatterns:
		return fmt.Errorf("the patterns of all filters have %d steps, %d is the most: use fewer or simpler ones",
			sum, MaxPatterns)
	}
	return nil
}
