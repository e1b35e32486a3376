package memorystore

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"haft/internal/store"
	"haft/internal/store/words"
)

// The bounds of a search. They make it cost the same however much there is: of a word that very many items have, the
// newest ones are looked at.
const (
	maxPostings = 4_000 // items per word
	maxPrefixed = 1_000 // items per beginning of a word
	minPrefix   = 3     // characters of a word that longer ones may begin with
	maxFound    = 1_024 // items that are read
	readAtOnce  = 64
)

// tagMark begins a term that is a tag. No word has it.
const tagMark = "#"

// insertTerms adds what items are found by.
var insertTerms = store.NewInsert("memory_terms", "agent", "term", "item", "weight")

// termRows are the rows by which an item is found.
func termRows(rows []any, agent, item, text string, tags []string) []any {
	weights := words.OfText(text)
	for _, word := range slices.Sorted(maps.Keys(weights)) {
		rows = append(rows, agent, word, item, weights[word])
	}
	for _, tag := range tags {
		rows = append(rows, agent, tagMark+tag, item, 1)
	}
	return rows
}

// A span is items of an agent of one kind: those with ids between two others, in their order.
type span struct {
	agent, after, before string
	newest               bool
}

// newSpan is the items of a kind of an agent, from one time on and up to another if they are set.
func newSpan(agent, kind string, since, till time.Time, newest bool) span {
	s := span{agent, kind, kind[:len(kind)-1] + string(kind[len(kind)-1]+1), newest}
	if !since.IsZero() {
		s.after = idTime(kind, since)
	}
	if !till.IsZero() {
		s.before = idTime(kind, till)
	}
	return s
}

// from is the span after an item, in its order.
func (s span) from(item string) span {
	if item == "" {
		return s
	}
	if s.newest {
		s.before = min(s.before, item)
	} else {
		s.after = max(s.after, item)
	}
	return s
}

// order sorts by a column.
func (s span) order(column string) string {
	if s.newest {
		return " ORDER BY " + column + " DESC"
	}
	return " ORDER BY " + column
}

// A posting is an item that has a term.
type posting struct {
	item   string
	weight int64
}

// postings lists items of a span that have a term, and one of each group of other terms. It looks at so many, and
// returns at most limit.
func (s *Store) postings(ctx context.Context, sp span, term string, groups [][]any, look, limit int) ([]posting, error) {
	q := store.NewQuery("SELECT item, weight FROM (SELECT item, weight FROM memory_terms WHERE agent = ? AND term = ? "+
		"AND item > ? AND item < ?"+sp.order("item")+" LIMIT ?) t WHERE 1 = 1", sp.agent, term, sp.after, sp.before, look)
	having(q, sp, groups)
	q.Add(sp.order("item")+" LIMIT ?", limit)
	return list(scanPosting, s.selected(ctx, "look for a word", q))
}

// prefixed is postings for terms that are longer than a word and begin with it.
func (s *Store) prefixed(ctx context.Context, sp span, word string, groups [][]any) ([]posting, error) {
	q := store.NewQuery("SELECT item, weight FROM (SELECT item, weight FROM memory_terms WHERE agent = ? AND term > ? AND "+
		"term < ? ORDER BY term, item LIMIT ?) t WHERE item > ? AND item < ?", sp.agent, word,
		word+string(unicode.MaxRune), maxPrefixed, sp.after, sp.before)
	having(q, sp, groups)
	return list(scanPosting, s.selected(ctx, "look for the beginning of a word", q))
}

func scanPosting(r store.Scanner) (p posting, err error) {
	err = r.Scan(&p.item, &p.weight)
	return p, err
}

// having demands one term of each group.
func having(q store.Query, sp span, groups [][]any) {
	for _, terms := range groups {
		q.Add(" AND EXISTS (SELECT 1 FROM memory_terms x WHERE x.agent = ? AND x.item = t.item AND x.term IN ", sp.agent)
		q.In(terms)
		q.Add(")")
	}
}

// tagTerms are the terms of tags.
func tagTerms(tags []string) []any {
	terms := make([]any, len(tags))
	for i, tag := range tags {
		terms[i] = tagMark + tag
	}
	return terms
}

// tagged lists items that have one of some tags, or all of them, in the order of the span.
func (s *Store) tagged(ctx context.Context, sp span, tags []string, all bool, limit int) ([]string, error) {
	var groups [][]any
	if all {
		for _, tag := range tags[1:] {
			groups = append(groups, tagTerms([]string{tag}))
		}
		tags = tags[:1]
	}
	var items []string
	for _, tag := range tags {
		found, err := s.postings(ctx, sp, tagMark+tag, groups, math.MaxInt32, limit)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			items = append(items, p.item)
		}
	}
	slices.Sort(items)
	items = slices.Compact(items)
	if sp.newest {
		slices.Reverse(items)
	}
	return items[:min(len(items), limit)], nil
}

// search returns what has words of a query, the best first. What has more of the words comes before what has fewer.
// What fits as well comes in the order of the span.
func (s *Store) search(ctx context.Context, sp span, query string, groups [][]any) ([]*words.Candidate, error) {
	asked := words.OfQuery(query)
	found, rare := make(words.Candidates), make([]float64, len(asked))
	latest := sp
	latest.newest = true
	for i, word := range asked {
		exact, err := s.postings(ctx, latest, word, groups, maxPostings, maxPostings)
		if err != nil {
			return nil, err
		}
		for _, p := range exact {
			found.Note(i, p.item, p.weight*2)
		}
		rare[i] = 1 + math.Log(1+maxPostings/float64(1+len(exact)))
		if utf8.RuneCountInString(word) < minPrefix {
			continue
		}
		longer, err := s.prefixed(ctx, sp, word, groups)
		if err != nil {
			return nil, err
		}
		for _, p := range longer {
			found.Note(i, p.item, p.weight)
		}
	}
	ranked := found.Rank(rare, "")
	if sp.newest {
		slices.SortStableFunc(ranked, func(a, b *words.Candidate) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(b.ID, a.ID))
		})
	}
	return ranked[:min(len(ranked), maxFound)], nil
}

// read reads the best items that a load function gives back, until there are enough. It gives back those that fit a
// filter, in any order.
func read[T any](found []*words.Candidate, limit int, id func(T) string, load func(ids []any) ([]T, error)) ([]T, error) {
	var all []T
	for part := range slices.Chunk(found, readAtOnce) {
		ids := make([]any, len(part))
		rank := make(map[string]int, len(part))
		for i, c := range part {
			ids[i], rank[c.ID] = c.ID, i
		}
		some, err := load(ids)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(some, func(a, b T) int { return cmp.Compare(rank[id(a)], rank[id(b)]) })
		if all = append(all, some...); len(all) >= limit {
			return all[:limit], nil
		}
	}
	return all, nil
}
