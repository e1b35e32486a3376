package memorystore

import (
	"cmp"
	"context"
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
// newest ones are looked at, and older ones only if they also have a word or a tag that fewer have.
const (
	maxPostings = 2_000 // items per word
	maxPrefixed = 500   // items per beginning of a word
	minPrefix   = 3     // characters of a word that longer ones may begin with
	maxFound    = 1_024 // items that are read
	readAtOnce  = 64
)

// tagMark begins a term that is a tag. No word has it.
const tagMark = "#"

// ofAgent is the condition for items of an agent that are asked for by id. What is compared is not a column that has an
// index: without statistics Postgres would read all items of the agent instead.
const ofAgent = "agent || '' = ?"

// insertTerms adds what items are found by.
var insertTerms = store.NewInsert("memory_terms", "agent", "term", "item", "weight")

// termRows adds the rows by which an item is found.
func termRows(rows []any, agent, item, text string, tags []string) []any {
	for word, weight := range words.OfText(text) {
		rows = append(rows, agent, word, item, weight)
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
	item, term string
	weight     int64
}

// postings lists items of a span that have a term, and all of some others.
func (s *Store) postings(ctx context.Context, sp span, term string, others []any, limit int) ([]posting, error) {
	q := query("SELECT item, term, weight FROM memory_terms t WHERE agent = ? AND term = ? AND item > ? AND "+
		"item < ?", sp.agent, term, sp.after, sp.before)
	if len(others) > 0 {
		// Of EXISTS Postgres would make a join, which without statistics compares each item with each.
		q.Add(" AND (SELECT COUNT(*) FROM memory_terms x WHERE x.agent = ? AND x.item = t.item AND x.term IN ",
			sp.agent)
		q.In(others)
		q.Add(") = ?", len(others))
	}
	q.Add(sp.order("item")+" LIMIT ?", limit)
	return s.terms(ctx, q)
}

// prefixed lists items of a span that have terms that are longer than a word and begin with it.
func (s *Store) prefixed(ctx context.Context, sp span, word string) ([]posting, error) {
	return s.terms(ctx, query(`SELECT item, term, weight FROM (SELECT item, term, weight FROM memory_terms
		WHERE agent = ? AND term > ? AND term < ? ORDER BY term, item LIMIT ?) t WHERE item > ? AND item < ?`,
		sp.agent, word, word+string(unicode.MaxRune), maxPrefixed, sp.after, sp.before))
}

func (s *Store) terms(ctx context.Context, q store.Query) ([]posting, error) {
	return list(ctx, s, func(r store.Scanner) (p posting, err error) {
		err = r.Scan(&p.item, &p.term, &p.weight)
		return p, err
	}, q)
}

// tagged lists items that have one of some tags, or all of them, in the order of the span.
func (s *Store) tagged(ctx context.Context, sp span, tags []string, all bool, limit int) ([]any, error) {
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	var others []any
	if all && len(tags) > 0 {
		others = anys(tags[1:], func(tag string) string { return tagMark + tag })
		tags = tags[:1]
	}
	var items []string
	for _, tag := range tags {
		found, err := s.postings(ctx, sp, tagMark+tag, others, limit)
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
	return anys(items[:min(len(items), limit)], strings.Clone), nil
}

// anys returns texts of a list as arguments.
func anys[T any](list []T, text func(T) string) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = text(v)
	}
	return args
}

// A search is a query for words.
type search struct {
	asked []string
	rare  []float64 // how much each word says
	found words.Candidates
}

// note notes that items have the words of the query that their terms are or begin with.
func (q *search) note(found []posting) {
	for _, p := range found {
		for i, word := range q.asked {
			if p.term == word {
				q.found.Note(i, p.item, p.weight*2)
			} else if strings.HasPrefix(p.term, word) && utf8.RuneCountInString(word) >= minPrefix {
				q.found.Note(i, p.item, p.weight)
			}
		}
	}
}

// search returns what has words of a query, the best first. What has more of the words comes before what has fewer, and
// what fits as well comes in the order of the span. If there are tags, it may return items without them.
func (s *Store) search(ctx context.Context, sp span, text string, tags []string, all bool) ([]*words.Candidate,
	error) {
	asked := words.OfQuery(text)
	q := &search{asked, slices.Repeat([]float64{1}, len(asked)), make(words.Candidates)}
	latest := sp
	latest.newest = true
	few, err := s.tagged(ctx, latest, tags, all, maxFound)
	switch {
	case err != nil:
	case len(tags) > 0 && len(few) < maxFound:
		err = s.complete(ctx, sp, q, few)
	default:
		err = s.poll(ctx, latest, q)
	}
	if err != nil {
		return nil, err
	}
	best := q.found.Rank(q.rare, "")
	if sp.newest {
		slices.SortStableFunc(best, func(a, b *words.Candidate) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(b.ID, a.ID))
		})
	}
	return best[:min(len(best), maxFound)], nil
}

// poll notes which items have the words of a query.
func (s *Store) poll(ctx context.Context, latest span, q *search) error {
	var common []posting // of words of which not all items were looked at
	for i, word := range q.asked {
		exact, err := s.postings(ctx, latest, word, nil, maxPostings)
		if err != nil {
			return err
		}
		q.rare[i] += math.Log(1 + maxPostings/float64(1+len(exact)))
		if len(exact) == maxPostings {
			common = append(common, exact...)
		} else {
			q.note(exact)
		}
		if utf8.RuneCountInString(word) < minPrefix {
			continue
		}
		longer, err := s.prefixed(ctx, latest, word)
		if err != nil {
			return err
		}
		q.note(longer)
	}
	if len(common) == 0 {
		return nil
	}
	best := anys(q.found.Rank(q.rare, ""), candidateID)
	q.note(common)
	return s.complete(ctx, latest, q, best[:min(len(best), maxFound/2)])
}

func candidateID(c *words.Candidate) string { return c.ID }

// complete notes all words of a query that some items have.
func (s *Store) complete(ctx context.Context, sp span, q *search, items []any) error {
	if len(q.asked) == 0 {
		return nil
	}
	for part := range slices.Chunk(items, readAtOnce) {
		text := query("SELECT item, term, weight FROM memory_terms WHERE "+ofAgent+" AND item IN ", sp.agent)
		text.In(part)
		text.Add(" AND (term IN ")
		text.In(anys(q.asked, strings.Clone))
		for _, word := range q.asked {
			text.Add(" OR term > ? AND term < ?", word, word+string(unicode.MaxRune))
		}
		text.Add(")")
		found, err := s.terms(ctx, text)
		if err != nil {
			return err
		}
		q.note(found)
	}
	return nil
}

// read reads the best items by a load function, until there are enough. That gives back those that fit, in any order.
func read[T any](found []*words.Candidate, limit int, id func(T) string, load func(ids []any) ([]T, error)) ([]T,
	error) {
	var all []T
	for part := range slices.Chunk(found, readAtOnce) {
		rank := make(map[string]int, len(part))
		for i, c := range part {
			rank[c.ID] = i
		}
		some, err := load(anys(part, candidateID))
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
