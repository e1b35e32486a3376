package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"haft"
)

// The bounds of a search. They make it cost the same however many tools there
// are: of a word that very many tools have, only those with the greatest weight
// are looked at.
const (
	maxQueryWords = 8
	maxToolWords  = 512
	maxWord       = 48  // runes
	maxCandidates = 256 // tools per word
	// DefaultFound is how many tools a search gives if nobody says.
	DefaultFound = 100
)

// What a word weighs by the place it stands in.
const (
	weightName        = 8
	weightTag         = 5
	weightCategory    = 4
	weightDescription = 2
)

// wordsOf returns the words that a tool is found by, with their weights.
func wordsOf(t *haft.Tool, description string) map[string]int64 {
	weights := make(map[string]int64)
	add := func(text string, weight int64) {
		for _, w := range words(text, maxToolWords) {
			if _, ok := weights[w]; !ok && len(weights) >= maxToolWords {
				return
			}
			weights[w] = max(weights[w], weight)
		}
	}
	add(t.Name, weightName)
	add(t.Category, weightCategory)
	for _, tag := range t.Tags {
		add(tag, weightTag)
	}
	add(description, weightDescription)
	return weights
}

func sortedWords(weights map[string]int64) []string {
	list := make([]string, 0, len(weights))
	for w := range weights {
		list = append(list, w)
	}
	slices.Sort(list)
	return list
}

// words splits text into at most so many words in lower case. Words end where
// letters and digits do, and between a small and a capital letter. In scripts
// without spaces every character is a word.
func words(text string, most int) []string {
	var list []string
	var word []rune
	flush := func() {
		if len(word) > 0 && len(list) < most {
			list = append(list, string(word[:min(len(word), maxWord)]))
		}
		word = word[:0]
	}
	small := false
	for _, r := range text {
		if len(list) >= most {
			break
		}
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			flush()
			word = append(word, r)
			flush()
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if small && unicode.IsUpper(r) {
				flush()
			}
			if len(word) < maxWord {
				word = append(word, unicode.ToLower(r))
			}
		default:
			flush()
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
	}
	flush()
	return list
}

// A candidate is a tool that has some of the words of a query.
type candidate struct {
	id    string
	has   []int64 // the weight of each word of the query in it
	score float64
	exact bool // the query is its name
}

// SearchTools finds tools by the words of their names, tags, categories and
// descriptions, the best first; 0 means [DefaultFound] of them. The last word may
// be the beginning of one. Tools that have all words come before those that have
// some. Disabled tools are found too.
func (s *Store) SearchTools(ctx context.Context, org, text string, limit int) ([]haft.Tool, error) {
	return s.searchFiltered(ctx, org, haft.ToolFilter{Search: text, Limit: limit, Disabled: true})
}

// searchFiltered searches for f.Search and leaves out what does not fit f.
func (s *Store) searchFiltered(ctx context.Context, org string, f haft.ToolFilter) ([]haft.Tool, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultFound
	}
	found, err := s.search(ctx, org, f.Search)
	if err != nil {
		return nil, fmt.Errorf("search tools: %w", err)
	}
	var list []haft.Tool
	err = chunks(found, func(part []candidate) error {
		if len(list) >= page(f.Limit) {
			return nil
		}
		tools, err := s.load(ctx, org, part)
		for _, t := range tools {
			if fits(f, &t) {
				list = append(list, t)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search tools: %w", err)
	}
	return list[:min(len(list), page(f.Limit))], nil
}

// fits reports whether a tool is among those that f lists, but for the search.
func fits(f haft.ToolFilter, t *haft.Tool) bool {
	return (f.Disabled || !t.Disabled) && (f.Category == "" || t.Category == f.Category) &&
		(f.Kind == "" || t.Version.Kind == f.Kind) && (f.Tag == "" || slices.Contains(t.Tags, f.Tag)) && t.Name > f.After
}

// load returns the tools of candidates, in their order.
func (s *Store) load(ctx context.Context, org string, part []candidate) ([]haft.Tool, error) {
	args := []any{column(org)}
	rank := make(map[string]int, len(part))
	for i, c := range part {
		rank[c.id] = i
		args = append(args, c.id)
	}
	ids := pad(args[1:])
	tools, err := s.tools(ctx, org, toolFrom+"t.org = $1 AND t.id IN "+s.in(len(ids), 2), append(args[:1:1], ids...)...)
	slices.SortFunc(tools, func(a, b haft.Tool) int {
		return cmp.Compare(rank[column(string(a.ID))], rank[column(string(b.ID))])
	})
	return tools, err
}

// search returns what has words of text, the best first.
func (s *Store) search(ctx context.Context, org, text string) ([]candidate, error) {
	var query []string
	for _, w := range words(text, maxToolWords) {
		if !slices.Contains(query, w) && len(query) < maxQueryWords {
			query = append(query, w)
		}
	}
	if len(query) == 0 {
		return nil, nil
	}
	found := make(map[string]*candidate)
	rare := make([]float64, len(query)) // how much a word says: few tools have it
	full := false
	for i, word := range query {
		n, err := s.gather(ctx, found, len(query), i, exactQuery, column(org), word, maxCandidates)
		if err != nil {
			return nil, err
		}
		if i == len(query)-1 {
			m, err := s.gather(ctx, found, len(query), i, prefixQuery, column(org), word, word+string(unicode.MaxRune), maxCandidates)
			if err != nil {
				return nil, err
			}
			n = max(n, m)
		}
		full = full || n == maxCandidates
		rare[i] = math.Log(2 + 10_000/float64(n+1))
	}
	id, _, _, err := s.ToolStamp(ctx, org, strings.TrimSpace(text))
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return nil, err
	}
	list := ranked(found, rare, column(string(id)))
	if !full || len(query) == 1 {
		return list, nil
	}
	// Of a word that many tools have not all were looked at: ask what the best
	// candidates have of it.
	list = list[:min(len(list), 2*maxCandidates)]
	if err := chunks(list, func(part []candidate) error { return s.complete(ctx, found, part, query) }); err != nil {
		return nil, err
	}
	best := make(map[string]*candidate, len(list))
	for _, c := range list {
		best[c.id] = found[c.id]
	}
	return ranked(best, rare, column(string(id))), nil
}

const (
	exactQuery  = "SELECT tool, weight * 2 FROM tool_words WHERE org = $1 AND word = $2 ORDER BY weight DESC, tool DESC LIMIT $3"
	prefixQuery = "SELECT tool, weight FROM tool_words WHERE org = $1 AND word > $2 AND word < $3 ORDER BY word, weight, tool LIMIT $4"
)

// gather notes who has word number i of a query of n words, and returns how many.
func (s *Store) gather(ctx context.Context, found map[string]*candidate, n, i int, text string, args ...any) (int, error) {
	seen := 0
	err := s.rows(ctx, func(r scanner) error {
		var id string
		var weight int64
		if err := r.Scan(&id, &weight); err != nil {
			return err
		}
		seen++
		note(found, n, i, id, weight)
		return nil
	}, text, args...)
	return seen, err
}

func note(found map[string]*candidate, n, i int, id string, weight int64) {
	c := found[id]
	if c == nil {
		c = &candidate{id: id, has: make([]int64, n)}
		found[id] = c
	}
	c.has[i] = max(c.has[i], weight)
}

// complete notes all words of a query that candidates have.
func (s *Store) complete(ctx context.Context, found map[string]*candidate, part []candidate, query []string) error {
	ids, asked := make([]any, len(part)), make([]any, len(query))
	for i, c := range part {
		ids[i] = c.id
	}
	for i, word := range query {
		asked[i] = word
	}
	ids, asked = pad(ids), pad(asked)
	text := "SELECT tool, word, weight * 2 FROM tool_words WHERE tool IN " + s.in(len(ids), 1) + " AND word IN " + s.in(len(asked), len(ids)+1)
	return s.rows(ctx, func(r scanner) error {
		var id, word string
		var weight int64
		if err := r.Scan(&id, &word, &weight); err != nil {
			return err
		}
		note(found, len(query), slices.Index(query, word), id, weight)
		return nil
	}, text, append(ids, asked...)...)
}

// ranked orders candidates: the one that was named, those with most of the words,
// those with the weightiest.
func ranked(found map[string]*candidate, rare []float64, named string) []candidate {
	list := make([]candidate, 0, len(found))
	for _, c := range found {
		c.score, c.exact = 0, c.id == named
		for i, weight := range c.has {
			if weight > 0 {
				c.score += 1000 + float64(weight)*rare[i]
			}
		}
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(number(b.exact), number(a.exact)), cmp.Compare(b.score, a.score), strings.Compare(a.id, b.id))
	})
	return list
}
