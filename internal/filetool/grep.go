package filetool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/executor/builtin"
	"haft/internal/workspace"
)

// The bounds of a search by pattern.
const (
	grepPage    = 20   // matches that are shown at once
	maxMatches  = 1000 // matches that are counted
	maxContext  = 10   // lines around a match
	maxCounted  = 50   // files whose matches are counted in the answer
	maxProgram  = 2000 // size of a pattern with its repetitions written out
	defaultNear = 1
)

type grepIn struct {
	Pattern string `json:"pattern" jsonschema:"The regular expression to search for, in the syntax of RE2 and without regard to case. It is matched with one line at a time."`
	Include string `json:"include,omitempty" jsonschema:"Search only files whose path fits this pattern, such as *.py."`
	Context *int   `json:"context_lines,omitempty" jsonschema:"How many lines to show before and after each match, at most 10. Defaults to 1."`
	Offset  *int   `json:"offset,omitempty" jsonschema:"How many matches to skip: the answer says with which offset it goes on."`
}

// addGrep adds the search by pattern.
func (t tools) addGrep(s *builtin.Set) error {
	d := def("grep_files", "Search the text files of your workspace for a regular expression, and return the lines "+
		"that match with their files, numbers and the lines around them, 20 matches at a time.", true)
	d.Settings.Output, d.Settings.Concurrency = haft.Output{MaxChars: 2 * haft.DefaultMaxChars}, searches
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in grepIn) (out string, err error) {
		g := &grep{scan: scan{most: maxTotal}, near: defaultNear}
		if in.Context != nil {
			g.near = *in.Context
		}
		if in.Offset != nil {
			g.from = max(0, *in.Offset)
		}
		if g.near < 0 || g.near > maxContext {
			return "", invalid("context_lines: expected 0 to %d", maxContext)
		}
		if g.pattern, err = compile(strings.TrimSpace(in.Pattern)); err != nil {
			return "", err
		}
		if g.glob, err = compileGlob("include", strings.TrimSpace(in.Include)); err != nil {
			return "", err
		}
		err = t.read(ctx, c, func(ctx context.Context, tree *workspace.Tree) error {
			if err := g.each(ctx, tree, g.line); err != nil {
				return err
			}
			return fill(ctx, tree, g.shown)
		})
		return g.answer(), err
	})
}

// compile compiles a pattern that is small also with its repetitions written out: matching takes time in proportion to
// that and to the text.
func compile(pattern string) (*regexp.Regexp, error) {
	switch n := utf8.RuneCountInString(pattern); {
	case n == 0:
		return nil, invalid("Empty search pattern provided")
	case n > maxPattern:
		return nil, invalid("Pattern too complex: %d chars > %d limit", n, maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl|syntax.FoldCase)
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, invalid("Invalid regex pattern: %s; the syntax is that of RE2, which has no lookaround and no "+
			"backreferences", e.Code)
	}
	if err != nil {
		return nil, fmt.Errorf("read a pattern: %w", err)
	}
	if written(parsed) > maxProgram {
		return nil, invalid("Pattern too complex: use smaller repetitions")
	}
	re, err := regexp.Compile("(?i)" + pattern)
	if err != nil {
		return nil, invalid("Invalid regex pattern")
	}
	return re, nil
}

// written is about how large the program of an expression is. It stops counting when that is too large.
func written(re *syntax.Regexp) int {
	n := len(re.Rune) + 1
	if re.Op == syntax.OpCharClass {
		n = 1 // with ranges of which a step looks at few
	}
	for _, sub := range re.Sub {
		if n += written(sub); n > maxProgram {
			return maxProgram + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, maxProgram+1)
}

// A grep is a search by pattern.
type grep struct {
	scan
	pattern *regexp.Regexp
	near    int // lines around a match
	from    int // the first match that is shown, from 0

	matches int // that were found
	counts  []fileCount
	shown   []*passage // the page
}

type fileCount struct {
	path    string
	matches int
}

// line looks at one line.
func (g *grep) line(path string, n int, line []byte) error {
	if !g.pattern.Match(line) {
		return nil
	}
	if g.matches >= g.from && len(g.shown) < grepPage {
		g.shown = append(g.shown, &passage{path: path, first: n - g.near, last: n + g.near, mark: n})
	}
	if len(g.counts) == 0 || g.counts[len(g.counts)-1].path != path {
		g.counts = append(g.counts, fileCount{path: path})
	}
	g.counts[len(g.counts)-1].matches++
	if g.matches++; g.matches >= maxMatches {
		return errEnough
	}
	return nil
}

// answer is what a model is told.
func (g *grep) answer() string {
	if g.matches == 0 {
		return fmt.Sprintf("No matches found (searched %d files)\n%s", g.searched, g.notes())
	}
	var out strings.Builder
	total := fmt.Sprint(g.matches)
	if g.matches >= maxMatches {
		total += "+"
	}
	end, page := g.from+len(g.shown), "none from the offset on"
	if len(g.shown) > 0 {
		page = fmt.Sprintf("matches %d-%d", g.from+1, end)
	}
	fmt.Fprintf(&out, "Found %s total matches across %d files (showing %s of %s)\n%s\nFiles with matches:\n", total,
		len(g.counts), page, total, g.notes())
	slices.SortStableFunc(g.counts, func(a, b fileCount) int { return cmp.Compare(b.matches, a.matches) })
	for _, f := range g.counts[:min(len(g.counts), maxCounted)] {
		fmt.Fprintf(&out, "  - %s: %d matches\n", f.path, f.matches)
	}
	for _, p := range g.shown {
		fmt.Fprintf(&out, "\n=== %s:%d ===\n%s", p.path, p.mark, p.text.String())
	}
	switch {
	case end < g.matches:
		fmt.Fprintf(&out, "\nTo see more matches, call grep_files again with offset=%d\n", end)
	case g.matches >= maxMatches:
		out.WriteString("\nOnly the first 1000 matches are collected: use a narrower pattern, or include.\n")
	default:
		out.WriteString("\nNo more matches to show.\n")
	}
	return out.String()
}
