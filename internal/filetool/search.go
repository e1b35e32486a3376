package filetool

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/executor/builtin"
	"haft/internal/store/words"
	"haft/internal/workspace"
)

// The bounds of a search by words.
const (
	maxSearch     = 64 << 20 // bytes of all files that are read, twice at most
	maxQueryWords = 16
	passageLines  = 20
	maxKept       = 10_000
	defaultFound  = 5
	maxFound      = 50
)

type searchIn struct {
	Query string `json:"query" jsonschema:"The words to search for."`
	Limit *int   `json:"limit,omitempty" jsonschema:"How many passages to return, at most 50. Defaults to 5."`
}

// addSearch adds the search by words.
func (t tools) addSearch(s *builtin.Set) error {
	d := def("semantic_search_files", "Search the text files of your workspace for words, and return the passages "+
		"that fit best, with a score. It is a full text search: it finds words and not their meaning, so name "+
		"several that the text may have.", true)
	d.Settings.Output, d.Settings.Concurrency = haft.Output{MaxChars: 2 * haft.DefaultMaxChars}, searches
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in searchIn) (string, error) {
		limit := defaultFound
		if in.Limit != nil {
			limit = *in.Limit
		}
		query := words.Split(in.Query[:min(len(in.Query), utf8.UTFMax*maxPattern)], maxQueryWords)
		slices.Sort(query)
		query = slices.Compact(query)
		switch {
		case strings.TrimSpace(in.Query) == "":
			return "", invalid("Empty search query provided")
		case utf8.RuneCountInString(in.Query) > maxPattern || len(query) == 0:
			return "", invalid("query: expected words, of at most %d characters", maxPattern)
		case limit < 1 || limit > maxFound:
			return "", invalid("limit: expected 1 to %d", maxFound)
		}
		x := &index{scan: scan{most: maxSearch}, query: query, last: &ranked{}}
		err := t.read(ctx, c, func(ctx context.Context, tree *workspace.Tree) error {
			if err := x.each(ctx, tree, x.line); err != nil {
				return err
			}
			x.add(nil)
			x.keepBest(limit)
			found := make([]*passage, len(x.found))
			for i, r := range x.found {
				found[i] = &r.passage
			}
			return fill(ctx, tree, found)
		})
		return x.answer(), err
	})
}

// A ranked passage has words of the query.
type ranked struct {
	passage
	words int
	times [maxQueryWords]int // how often each word of the query is in it
	score float64
}

// An index has the passages of all files that have words of a query, and what their scores depend on.
type index struct {
	scan
	query []string
	last  *ranked // that is being read
	found []*ranked
	count int                // of all passages
	words int                // in all of them
	have  [maxQueryWords]int // passages that have a word
}

// line adds a line to the passage that is being read.
func (x *index) line(path string, n int, line []byte) error {
	if p := x.last; p.path != path || n-p.first >= passageLines {
		x.add(&ranked{passage: passage{path: path, first: n}})
	}
	x.last.last = n
	for _, w := range words.Split(string(line), maxLine) {
		x.last.words++
		if i, ok := slices.BinarySearch(x.query, w); ok {
			x.last.times[i]++
		}
	}
	return nil
}

// add adds the passage that was read, and begins with next. Passages with the lowest scores are dropped when there are
// too many.
func (x *index) add(next *ranked) {
	p := x.last
	x.last = next
	if p.words > 0 {
		x.count++
		x.words += p.words
	}
	if p.times == [maxQueryWords]int{} {
		return
	}
	for i, n := range p.times {
		x.have[i] += min(n, 1)
	}
	if x.found = append(x.found, p); len(x.found) >= 2*maxKept {
		x.keepBest(maxKept)
	}
}

// keepBest keeps so many passages, with the highest scores first (Okapi BM25).
func (x *index) keepBest(most int) {
	const k, b = 1.2, 0.75
	mean := float64(x.words) / float64(max(x.count, 1))
	for _, p := range x.found {
		p.score = 0
		for i, n := range p.times {
			rare := math.Log(1 + (float64(x.count-x.have[i])+0.5)/(float64(x.have[i])+0.5))
			p.score += rare * float64(n) * (k + 1) / (float64(n) + k*(1-b+b*float64(p.words)/mean))
		}
	}
	slices.SortStableFunc(x.found, func(p, q *ranked) int { return cmp.Compare(q.score, p.score) })
	x.found = slices.Clone(x.found[:min(len(x.found), most)])
}

// answer is what a model is told.
func (x *index) answer() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Found %d matches by full text (searched %d files)\n%s", len(x.found), x.searched, x.notes())
	for i, p := range x.found {
		fmt.Fprintf(&out, "\n=== %s:%d-%d (passage #%d) (score: %.3f) ===\n%s", p.path, p.first, p.last, i+1, p.score,
			p.text.String())
	}
	return out.String()
}
