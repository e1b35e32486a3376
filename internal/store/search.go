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
	"haft/internal/store/stored"
	"haft/internal/store/words"
)

// The bounds of a search. They make it cost the same however many tools there
// are: of a word that very many tools have, only those with the greatest weight
// are looked at.
const (
	maxCandidates = 128 // tools per word
	firstLook     = 16  // tools per word at first
	// DefaultFound is how many tools a search gives if nobody says.
	DefaultFound = 100
)

// SearchTools finds tools by the words of their names, tags, categories and
// descriptions, the best first; 0 means [DefaultFound] of them. The last word may
// be the beginning of one. Tools that have all words come before those that have
// some. Disabled tools are found too.
func (s Tools) SearchTools(ctx context.Context, org, text string, limit int) ([]haft.Tool, error) {
	return s.searchFiltered(ctx, org, haft.ToolFilter{Search: text, Limit: limit, Disabled: true})
}

// searchFiltered searches for f.Search and leaves out what does not fit f.
func (s Tools) searchFiltered(ctx context.Context, org string, f haft.ToolFilter) ([]haft.Tool, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultFound
	}
	found, err := s.search(ctx, org, f.Search)
	if err != nil {
		return nil, fmt.Errorf("search tools: %w", err)
	}
	var fit []haft.Tool
	for len(found) > 0 && len(fit) < page(f.Limit) {
		n := min(len(found), maxRows, page(f.Limit)-len(fit))
		tools, err := s.load(ctx, org, found[:n])
		if err != nil {
			return nil, err
		}
		for _, t := range tools {
			if fits(f, &t) {
				fit = append(fit, t)
			}
		}
		found = found[n:]
	}
	return fit, nil
}

// fits reports whether a tool is among those that f lists, but for the search.
func fits(f haft.ToolFilter, t *haft.Tool) bool {
	return f.Shows(t.Disabled) && (f.Category == "" || t.Category == f.Category) &&
		(f.Kind == "" || t.Version.Kind == f.Kind) && (f.Tag == "" || slices.Contains(t.Tags, f.Tag)) &&
		t.Name > f.After
}

// loadQuery asks by id. What is compared with the organisation is not a column
// that has an index: SQLite would read all its tools instead.
func loadQuery(org string, ids []any) query {
	q := build(string(toolFrom)+"t.org || '' = ? AND t.id IN ", column(org))
	q.in(ids)
	return q.unlogged()
}

// load returns the tools of candidates, in their order.
func (s Tools) load(ctx context.Context, org string, part []*words.Candidate) ([]haft.Tool, error) {
	ids, rank := make([]any, len(part)), make(map[string]int, len(part))
	for i, c := range part {
		ids[i], rank[c.ID] = c.ID, i
	}
	tools, err := list(ctx, s.db, "search tools", stored.Listed(toolsOf(org)), loadQuery(org, ids))
	slices.SortFunc(tools, func(a, b haft.Tool) int {
		return cmp.Compare(rank[column(string(a.ID))], rank[column(string(b.ID))])
	})
	return tools, err
}

// search returns what has words of text, the best first.
func (s Tools) search(ctx context.Context, org, text string) ([]*words.Candidate, error) {
	asked := words.OfQuery(text)
	if len(asked) == 0 {
		return nil, nil
	}
	// First a short look: if some tools have a word that few have, they come first,
	// and nobody has to look at all that have the others.
	found, rare, full, err := s.poll(ctx, org, asked, firstLook)
	if err == nil && full && !slices.ContainsFunc(rare, func(says float64) bool { return says > common }) {
		found, rare, full, err = s.poll(ctx, org, asked, maxCandidates)
	}
	if err != nil {
		return nil, err
	}
	id, _, _, err := s.ToolStamp(ctx, org, strings.TrimSpace(text))
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return nil, err
	}
	best := found.Rank(rare, column(string(id)))
	if !full || len(asked) == 1 {
		return best, nil
	}
	// Of a word that many tools have not all were looked at: ask what the best
	// candidates have of it.
	if err := s.complete(ctx, found, best[:min(len(best), maxRows)], asked); err != nil {
		return nil, err
	}
	return found.Rank(rare, column(string(id))), nil
}

// common is what a word says that more tools have than a first look shows, or none.
const common = 1

// poll asks who has the words of a query, at most so many for each. It returns how
// much each word says, and whether it may not have seen all.
func (s Tools) poll(ctx context.Context, org string, asked []string,
	most int) (found words.Candidates, says []float64, full bool, err error) {
	found, says = make(words.Candidates), make([]float64, len(asked))
	gather := func(i int, q query, args ...any) (int, error) {
		all, err := list(ctx, s.db, "look for a word", scanPair[string, int64], q, args...)
		for _, has := range all {
			found.Note(i, has.a, has.b)
		}
		full = full || len(all) == most
		return len(all), err
	}
	for i, word := range asked {
		n, err := gather(i, exactQuery, column(org), word, most)
		if err != nil {
			return nil, nil, false, err
		}
		says[i] = common
		if n > 0 && n < most {
			says[i] = common + math.Log(1+maxCandidates/float64(n))
		}
	}
	word := asked[len(asked)-1]
	_, err = gather(len(asked)-1, prefixQuery, column(org), word, word+string(unicode.MaxRune), most)
	return found, says, full, err
}

const (
	exactQuery unlogged = "SELECT tool, weight * 2 FROM tool_words WHERE org = $1 AND word = $2 ORDER BY weight " +
		"DESC, tool DESC LIMIT $3"
	prefixQuery unlogged = "SELECT tool, weight FROM tool_words WHERE org = $1 AND word > $2 AND word < $3 ORDER BY " +
		"word, weight, tool LIMIT $4"
)

// completeQuery asks which of some words some tools have.
func completeQuery(ids []any, asked []string) query {
	q := build("SELECT tool, word, weight * 2 FROM tool_words WHERE tool IN ")
	q.in(ids)
	q.add(" AND word IN ")
	q.in(columns(asked))
	return q.unlogged()
}

// complete notes all words of a query that the best candidates have.
func (s Tools) complete(ctx context.Context, found words.Candidates, best []*words.Candidate, asked []string) error {
	ids := make([]any, len(best))
	for i, c := range best {
		ids[i] = c.ID
	}
	return each(ctx, s.db, func(r scanner) error {
		var id, word string
		var weight int64
		if err := r.Scan(&id, &word, &weight); err != nil {
			return err
		}
		found.Note(slices.Index(asked, word), id, weight)
		return nil
	}, completeQuery(ids, asked))
}
