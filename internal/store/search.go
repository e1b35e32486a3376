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
	maxCandidates = 128 // tools per word
	firstLook     = 16  // tools per word at first
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
	has   [maxQueryWords]int64 // the weight of each word of the query in it
	score float64
	exact bool // the query is its name
}

// A poll collects candidates.
type poll struct {
	list  []candidate
	index map[string]int // by id
}

// note keeps that a tool has word number i of the query.
func (p *poll) note(i int, id string, weight int64) {
	at, ok := p.index[id]
	if !ok {
		at = len(p.list)
		p.index[id] = at
		p.list = append(p.list, candidate{id: id})
	}
	p.list[at].has[i] = max(p.list[at].has[i], weight)
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
	for len(found) > 0 && len(list) < page(f.Limit) {
		n := min(len(found), maxRows, page(f.Limit)-len(list))
		tools, err := s.load(ctx, org, found[:n])
		if err != nil {
			return nil, fmt.Errorf("search tools: %w", err)
		}
		for _, t := range tools {
			if fits(f, &t) {
				list = append(list, t)
			}
		}
		found = found[n:]
	}
	return list, nil
}

// fits reports whether a tool is among those that f lists, but for the search.
func fits(f haft.ToolFilter, t *haft.Tool) bool {
	return f.Shows(t.Disabled) && (f.Category == "" || t.Category == f.Category) &&
		(f.Kind == "" || t.Version.Kind == f.Kind) && (f.Tag == "" || slices.Contains(t.Tags, f.Tag)) &&
		t.Name > f.After
}

// loadQuery asks by id. What is compared with the organisation is not a column
// that has an index: SQLite would read all its tools instead.
const loadQuery = toolFrom + "t.org || '' = $1 AND t.id IN "

// load returns the tools of candidates, in their order.
func (s *Store) load(ctx context.Context, org string, part []candidate) ([]haft.Tool, error) {
	args := []any{column(org)}
	rank := make(map[string]int, len(part))
	for i, c := range part {
		rank[c.id] = i
		args = append(args, c.id)
	}
	ids := pad(args[1:])
	tools, err := s.tools(ctx, org, loadQuery+in(len(ids), 2), append(args[:1:1], ids...)...)
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
	// First a short look: if some tools have a word that few have, they come first,
	// and nobody has to look at all that have the others.
	found, rare, full, err := s.poll(ctx, org, query, firstLook)
	if err == nil && full && !slices.ContainsFunc(rare, func(says float64) bool { return says > common }) {
		found, rare, full, err = s.poll(ctx, org, query, maxCandidates)
	}
	if err != nil {
		return nil, err
	}
	id, _, _, err := s.ToolStamp(ctx, org, strings.TrimSpace(text))
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return nil, err
	}
	found.rank(rare, column(string(id)))
	if !full || len(query) == 1 {
		return found.list, nil
	}
	// Of a word that many tools have not all were looked at: ask what the best
	// candidates have of it.
	if err := s.complete(ctx, found, query); err != nil {
		return nil, err
	}
	found.rank(rare, column(string(id)))
	return found.list, nil
}

// common is what a word says that more tools have than a first look shows, or none.
const common = 1

// poll asks who has the words of a query, at most so many for each. It returns how
// much each word says, and whether it may not have seen all.
func (s *Store) poll(ctx context.Context, org string, query []string,
	most int) (found *poll, says []float64, full bool, err error) {
	found, says = &poll{index: make(map[string]int)}, make([]float64, len(query))
	for i, word := range query {
		n, err := s.gather(ctx, found, i, exactQuery, column(org), word, most)
		if err != nil {
			return nil, nil, false, err
		}
		full = full || n == most
		says[i] = common
		if n > 0 && n < most {
			says[i] = common + math.Log(1+maxCandidates/float64(n))
		}
		if i < len(query)-1 {
			continue
		}
		if n, err = s.gather(ctx, found, i, prefixQuery, column(org), word, word+string(unicode.MaxRune),
			most); err != nil {
			return nil, nil, false, err
		}
		full = full || n == most
	}
	return found, says, full, nil
}

const (
	completeQuery = "SELECT tool, word, weight * 2 FROM tool_words WHERE tool IN "
	exactQuery    = "SELECT tool, weight * 2 FROM tool_words WHERE org = $1 AND word = $2 ORDER BY weight DESC, " +
		"tool DESC LIMIT $3"
	prefixQuery = "SELECT tool, weight FROM tool_words WHERE org = $1 AND word > $2 AND word < $3 ORDER BY word, " +
		"weight, tool LIMIT $4"
)

// gather notes who has word number i of a query, and returns how many.
func (s *Store) gather(ctx context.Context, found *poll, i int, text string, args ...any) (int, error) {
	seen := 0
	var id string
	var weight int64
	err := s.rows(ctx, func(r scanner) error {
		if err := r.Scan(&id, &weight); err != nil {
			return err
		}
		seen++
		found.note(i, id, weight)
		return nil
	}, text, args...)
	return seen, err
}

// complete notes all words of a query that the best candidates have.
func (s *Store) complete(ctx context.Context, found *poll, query []string) error {
	ids, asked := make([]any, 0, maxRows), make([]any, len(query))
	for _, c := range found.list[:min(len(found.list), maxRows)] {
		ids = append(ids, c.id)
	}
	for i, word := range query {
		asked[i] = word
	}
	ids, asked = pad(ids), pad(asked)
	text := completeQuery + in(len(ids), 1) + " AND word IN " + in(len(asked), len(ids)+1)
	return s.rows(ctx, func(r scanner) error {
		var id, word string
		var weight int64
		if err := r.Scan(&id, &word, &weight); err != nil {
			return err
		}
		found.note(slices.Index(query, word), id, weight)
		return nil
	}, text, append(ids, asked...)...)
}

// rank orders candidates: the one that was named, those with most of the words,
// those with the weightiest.
func (p *poll) rank(rare []float64, named string) {
	for i := range p.list {
		c := &p.list[i]
		c.score, c.exact = 0, c.id == named
		for word, weight := range c.has[:len(rare)] {
			if weight > 0 {
				c.score += 1000 + float64(weight)*rare[word]
			}
		}
	}
	slices.SortFunc(p.list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(number(b.exact), number(a.exact)), cmp.Compare(b.score, a.score),
			strings.Compare(a.id, b.id))
	})
	for i := range p.list {
		p.index[p.list[i].id] = i
	}
}
