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
	maxPostings = 2_000 // items per word or tag
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

// termRows adds the rows by which an item is found. Key begins the terms of its words.
func termRows(rows []any, agent, key, item, text string, tags []string) []any {
	for word, weight := range words.OfText(text) {
		rows = append(rows, agent, key+word, item, weight)
	}
	for _, tag := range tags {
		rows = append(rows, agent, tagMark+tag, item, 1)
	}
	return rows
}

// A span is items of an agent of one kind: those with ids between two others, in their order. Key begins the terms of
// their words.
type span struct {
	agent, after, before string
	newest               bool
	key                  string
}

// newSpan is the items of a kind of an agent, from one time on and up to another if they are set.
func newSpan(agent, kind string, since, till time.Time, newest bool) span {
	s := span{agent: agent, after: kind, before: kind[:len(kind)-1] + string(kind[len(kind)-1]+1), newest: newest}
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

// postings lists items of a span that have a term.
func (s *Store) postings(ctx context.Context, sp span, term string, limit int) ([]posting, error) {
	return s.terms(ctx, sp, query("SELECT item, term, weight FROM memory_terms WHERE agent = ? AND term = ? AND "+
		"item > ? AND item < ?"+sp.order("item")+" LIMIT ?", sp.agent, term, sp.after, sp.before, limit))
}

// prefixed lists items of a span that have terms that are longer than a word and begin with it.
func (s *Store) prefixed(ctx context.Context, sp span, word string) ([]posting, error) {
	if utf8.RuneCountInString(word) < minPrefix {
		return nil, nil
	}
	return s.terms(ctx, sp, query(`SELECT item, term, weight FROM (SELECT item, term, weight FROM memory_terms
		WHERE agent = ? AND term > ? AND term < ? ORDER BY term, item LIMIT ?) t WHERE item > ? AND item < ?`,
		sp.agent, sp.key+word, sp.key+word+string(unicode.MaxRune), maxPrefixed, sp.after, sp.before))
}

// terms reads postings, with what stands behind the key of the span.
func (s *Store) terms(ctx context.Context, sp span, q store.Query) ([]posting, error) {
	return list(ctx, s, func(r store.Scanner) (p posting, err error) {
		err = r.Scan(&p.item, &p.term, &p.weight)
		p.term = strings.TrimPrefix(p.term, sp.key)
		return p, err
	}, q)
}

// tagged lists items that have one of some tags, or all of them, in the order of the span.
func (s *Store) tagged(ctx context.Context, sp span, tags []string, all bool, limit int) ([]any, error) {
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	if all && len(tags) > 1 {
		return s.taggedAll(ctx, sp, tags, limit)
	}
	var items []string
	for _, tag := range tags {
		found, err := s.postings(ctx, sp, tagMark+tag, limit)
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

// taggedAll lists items that have all of some tags. Of those with the rarest tag it looks at the first [maxPostings].
func (s *Store) taggedAll(ctx context.Context, sp span, tags []string, limit int) ([]any, error) {
	rarest, fewest := 0, maxPostings+1
	for i, tag := range tags {
		n, err := s.postings(ctx, sp, tagMark+tag, min(fewest, maxPostings))
		if err != nil || len(n) == 0 {
			return nil, err
		}
		if len(n) < fewest {
			rarest, fewest = i, len(n)
		}
	}
	q := query("SELECT item FROM (SELECT item FROM memory_terms WHERE agent = ? AND term = ? AND item > ? AND item < ?"+
		sp.order("item")+" LIMIT ?) t WHERE 1 = 1", sp.agent, tagMark+tags[rarest], sp.after, sp.before, maxPostings)
	for _, tag := range slices.Delete(tags, rarest, rarest+1) {
		// Of EXISTS Postgres would make a join, which without statistics compares each item with each.
		q.Add(" AND (SELECT COUNT(*) FROM memory_terms x WHERE x.agent = ? AND x.term = ? AND x.item = t.item) = 1",
			sp.agent, tagMark+tag)
	}
	q.Add(sp.order("item")+" LIMIT ?", limit)
	items, err := list(ctx, s, text[string], q)
	return anys(items, strings.Clone), err
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
	*Store
	asked []string
	rare  []float64 // how much each word says
	found words.Candidates
}

func newSearch(s *Store, text string) *search {
	asked := words.OfQuery(text)
	return &search{s, asked, slices.Repeat([]float64{1}, len(asked)), make(words.Candidates)}
}

// rank returns what was found, the best first. What has more of the words comes before what has fewer, and what fits as
// well is in the order of the ids.
func (q *search) rank(newest bool) []*words.Candidate {
	best := q.found.Rank(q.rare, "")
	if newest {
		slices.SortStableFunc(best, func(a, b *words.Candidate) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(b.ID, a.ID))
		})
	}
	return best[:min(len(best), maxFound)]
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

// search returns what has words of a query, the best first. If there are tags, it may return items without them.
func (s *Store) search(ctx context.Context, sp span, text string, tags []string, all bool) ([]*words.Candidate,
	error) {
	q := newSearch(s, text)
	latest := sp
	latest.newest = true
	few, err := s.tagged(ctx, latest, tags, all, maxFound)
	switch {
	case err != nil:
	case len(tags) > 0 && len(few) < maxFound:
		err = q.among(ctx, sp, few)
	default:
		err = q.poll(ctx, latest)
	}
	if err != nil {
		return nil, err
	}
	return q.rank(sp.newest), nil
}

// poll notes which items have the words of a query.
func (q *search) poll(ctx context.Context, latest span) error {
	var common []posting // of words of which not all items were looked at
	for i, word := range q.asked {
		exact, err := q.postings(ctx, latest, latest.key+word, maxPostings)
		if err != nil {
			return err
		}
		q.rare[i] += math.Log(1 + maxPostings/float64(1+len(exact)))
		if len(exact) == maxPostings {
			common = append(common, exact...)
		} else {
			q.note(exact)
		}
		longer, err := q.prefixed(ctx, latest, word)
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
	return q.complete(ctx, latest, best[:min(len(best), maxFound/2)])
}

func candidateID(c *words.Candidate) string { return c.ID }

// among notes which of some items have the words of a query, or words that begin with them.
func (q *search) among(ctx context.Context, sp span, items []any) error {
	of := make(map[any]bool, len(items))
	for _, item := range items {
		of[item] = true
	}
	for _, word := range q.asked {
		longer, err := q.prefixed(ctx, sp, word)
		if err != nil {
			return err
		}
		q.note(slices.DeleteFunc(longer, func(p posting) bool { return !of[p.item] }))
	}
	return q.complete(ctx, sp, items)
}

// complete notes the words of a query that some items have. It asks for one word after the other: for several at once
// Postgres without statistics reads all words of each item.
func (q *search) complete(ctx context.Context, sp span, items []any) error {
	if len(q.asked) == 0 {
		return nil
	}
	for part := range slices.Chunk(items, readAtOnce) {
		text := query("")
		for i, word := range q.asked {
			if i > 0 {
				text.Add(" UNION ALL ")
			}
			text.Add("SELECT item, term, weight FROM memory_terms WHERE agent = ? AND term = ? AND item IN ", sp.agent,
				sp.key+word)
			text.In(part)
		}
		found, err := q.terms(ctx, sp, text)
		if err != nil {
			return err
		}
		q.note(found)
	}
	return nil
}

// read reads the best items by a load function, until there are enough. That gives back those that fit, in any order,
// and says whether they were too large to be loaded at once; then fewer are enough.
func read[T any](found []*words.Candidate, limit int, id func(T) string,
	load func(ids []any) (part []T, cut bool, err error)) ([]T, error) {
	var all []T
	for n := readAtOnce; len(found) > 0 && len(all) < limit && (n == readAtOnce || len(all) == 0); {
		part := found[:min(n, len(found))]
		rank := make(map[string]int, len(part))
		for i, c := range part {
			rank[c.ID] = i
		}
		some, cut, err := load(anys(part, candidateID))
		if err != nil {
			return nil, err
		}
		if cut && len(part) > 1 {
			n = max(1, len(part)/4)
			continue
		}
		slices.SortFunc(some, func(a, b T) int { return cmp.Compare(rank[id(a)], rank[id(b)]) })
		all, found = append(all, some...), found[len(part):]
	}
	return all[:min(len(all), limit)], nil
}
