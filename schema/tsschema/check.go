package tsschema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
)

// The bounds on what the strict parser is given. It descends once for every
// operator or statement inside another, at 2 to 10 kB of stack each, and Go ends
// the whole process at 1 GB of stack; its later passes take time by the square
// of that depth; and it tries both readings of a ? (b) : c => d, which doubles
// its work for every one inside another.
const (
	maxChain     = 4_000 // tokens that may stand inside each other
	maxAmbiguous = 8     // conditions with arrow functions inside each other
	parseTime    = 5 * time.Second
)

// maxSource is the largest source that is read, in bytes. It is less than for
// other languages, because esbuild cannot be stopped and is quadratic on floods of
// mistakes that refer back to a first one.
const maxSource = 256 << 10

// text refuses what is no text, and removes a byte order mark.
func text(source []byte) (string, *problem) {
	src := strings.TrimPrefix(string(source), "\ufeff")
	switch {
	case len(src) > maxSource:
		return src, &problem{maxSource, fmt.Sprintf("the source has %d bytes, %d is the most", len(source), maxSource)}
	case strings.TrimSpace(src) == "":
		return src, &problem{0, "the source is empty"}
	}
	for i, r := range src {
		if r == 0 {
			return src, &problem{i, "the source is not text: it has a zero byte"}
		}
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], "\ufffd") {
			return src, &problem{i, "the source is not text in UTF-8"}
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
func bounded(l *lexer) *problem {
	stack := []level{{}}
	sum := 0
	for i, t := range l.tokens {
		top := &stack[len(stack)-1]
		word, after := l.text(t), l.wordAt(i+1)
		if l.begins(i) || word == ";" && after != "else" || word == "," && top.list {
			sum -= top.tokens
			*top = level{list: top.list}
		}
		top.tokens++
		sum++
		switch {
		case t.match > i && t.kind != kMiddle:
			stack = append(stack, level{list: l.isList(i, top.list)})
			continue
		case t.match >= 0 && t.match < i && len(stack) > 1:
			sum -= top.tokens
			stack = stack[:len(stack)-1]
			continue
		case word == ",":
			top.conditions, top.returns, top.arrows = 0, 0, 0
		case word == "?" && after != ":" && after != ")" && after != ",":
			top.conditions++
		case word == ":" && l.wordAt(i-1) == ")":
			top.returns++
		case word == "=>":
			top.arrows++
		}
		if sum > maxChain {
			return &problem{t.from, fmt.Sprintf("one statement has more than %d words", maxChain)}
		}
		if word == "=>" && ambiguous(stack) > maxAmbiguous {
			return &problem{t.from, "too many conditions with arrow functions stand inside each other: give them names"}
		}
	}
	return nil
}

// begins reports whether token i begins a statement, so that everything before
// it in its brackets is finished: by its word, or because a line ended.
func (l *lexer) begins(i int) bool {
	t, word := l.tokens[i], l.wordAt(i)
	if t.kind != kIdent || i == 0 {
		return false
	}
	switch word {
	case "const", "export", "return", "throw":
		return true
	case "else", "in", "of", "instanceof", "as", "satisfies", "while", "catch", "finally":
		return false
	}
	before := l.tokens[i-1]
	if !t.newline {
		return false
	}
	switch before.kind {
	case kIdent:
		return !beforeRegexp[l.text(before)]
	case kPunct:
		switch l.text(before) {
		case "]", "}":
			return true
		case ")":
			return !l.closesHead(before)
		}
		return false
	}
	return before.kind != kHead && before.kind != kMiddle
}

// closesHead reports whether ")" ends the head of an if or a loop.
func (l *lexer) closesHead(t token) bool {
	switch l.wordAt(t.match - 1) {
	case "if", "while", "for", "with", "await":
		return true
	}
	return false
}

// isList reports whether the bracket at i holds values and no statements.
func (l *lexer) isList(i int, inList bool) bool {
	if l.wordAt(i) != "{" {
		return true
	}
	switch l.wordAt(i - 1) {
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

// wordAt returns the text of token i, or "".
func (l *lexer) wordAt(i int) string {
	if i < 0 || i >= len(l.tokens) {
		return ""
	}
	return l.text(l.tokens[i])
}

// largeSource is the size from which sources are parsed one after the other. The
// parser tells of every repeated mistake by counting lines back to the first one:
// 64 kB of them hold it for two seconds, 1 MB for minutes.
const largeSource = 64 << 10

// oneLarge is held while a large source is parsed, so that hostile ones hold one
// processor and no more. Small sources do not wait for it.
var oneLarge = make(chan struct{}, 1)

// strict lets a strict parser look at the whole source, function bodies
// included, and returns what it finds.
//
// The parser cannot be interrupted. At the end of ctx or of parseTime strict
// returns without it; what is left of its work is bounded by what bounded let
// through, and by oneLarge.
func strict(ctx context.Context, src string, loader api.Loader) ([]problem, error) {
	timer := time.NewTimer(parseTime)
	defer timer.Stop()
	release := func() {}
	if len(src) > largeSource {
		select {
		case oneLarge <- struct{}{}:
			release = func() { <-oneLarge }
		case <-timer.C:
			return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "another large source is being parsed: try again"}
		case <-ctx.Done():
			return nil, fmt.Errorf("parse the source: %w", context.Cause(ctx))
		}
	}
	done := make(chan []problem, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- []problem{{-1, "the source cannot be parsed"}}
			}
			release()
		}()
		r := api.Transform(src, api.TransformOptions{
			Loader: loader, LogLevel: api.LogLevelSilent,
			// Nobody reads the output. The other way to choose its names takes
			// time by the cube of how deep functions are nested.
			MinifyIdentifiers: true,
		})
		done <- problems(src, r.Errors)
	}()
	select {
	case found := <-done:
		return found, nil
	case <-timer.C:
		return []problem{{-1, "the source takes too long to parse"}}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("parse the source: %w", context.Cause(ctx))
	}
}

// problems translates the messages of the strict parser.
func problems(src string, messages []api.Message) []problem {
	var all []problem
	lines := lineStarts(src)
	for _, m := range messages {
		if len(all) == maxProblems {
			break
		}
		if strings.Contains(m.Text, "JSX syntax") {
			m.Text = noJSX
		}
		p := problem{-1, "syntax error: " + strings.NewReplacer(`"`, "", "\n", " ").Replace(m.Text)}
		if m.Location != nil && m.Location.Line >= 1 && m.Location.Line <= len(lines) {
			p.at = min(lines[m.Location.Line-1]+m.Location.Column, len(src))
		}
		if !slices.ContainsFunc(all, func(other problem) bool { return other.at == p.at }) {
			all = append(all, p)
		}
	}
	return all
}

// lineStarts returns where each line begins, in bytes.
func lineStarts(src string) []int {
	starts := []int{0}
	for i, r := range src {
		switch r {
		case '\n', '\u2028', '\u2029':
			starts = append(starts, i+utf8.RuneLen(r))
		case '\r':
			if !strings.HasPrefix(src[i+1:], "\n") {
				starts = append(starts, i+1)
			}
		}
	}
	return starts
}
