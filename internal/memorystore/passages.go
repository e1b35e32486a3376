package memorystore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"haft"
	"haft/internal/store"
)

// passagePrefix begins the id of every passage.
const passagePrefix = "passage-"

// checkTags reports what is wrong with tags.
func checkTags(tags []string) error {
	if len(tags) > haft.MaxPassageTags {
		return invalid("/tags", fmt.Sprintf("expected at most %d tags", haft.MaxPassageTags))
	}
	for i, tag := range tags {
		pointer := fmt.Sprintf("/tags/%d", i)
		if err := checkText(pointer, tag, maxTag); err != nil {
			return err
		}
		if tag == "" || strings.ContainsFunc(tag, unicode.IsControl) {
			return invalid(pointer, "expected a tag without control characters")
		}
	}
	return nil
}

// AddPassage adds a passage to the archive of an agent. It is erased with the user for whom the agent added it; one
// that a manager adds has none.
func (s *Store) AddPassage(ctx context.Context, org, user string, agent haft.AgentID, body string,
	tags []string) (*haft.Passage, error) {
	if err := cmp.Or(checkText("/text", body, haft.MaxPassage), checkTags(tags)); err != nil {
		return nil, err
	}
	if strings.TrimSpace(body) == "" {
		return nil, invalid("/text", "expected a text")
	}
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	p := haft.Passage{Agent: agent, Text: body, Tags: tags, Created: now()}
	p.ID = haft.PassageID(newID(passagePrefix, p.Created))
	doc, err := json.Marshal(tags)
	if err != nil {
		return nil, fmt.Errorf("encode tags: %w", err)
	}
	terms := termRows(nil, string(agent), "", string(p.ID), body, tags)
	size := int64(len(body) + len(doc))
	added, err := write(ctx, s, "add a passage", func(ctx context.Context, t store.Tx) (*haft.Passage, error) {
		has, err := touch(ctx, t, org, agent, counts{passages: 1, bytes: size})
		if err != nil {
			return nil, err
		}
		if has.passages > haft.MaxPassages {
			return nil, conflict(fmt.Sprintf("the agent has %d passages, the most there can be: remove some",
				haft.MaxPassages))
		}
		if err := share(ctx, t, agent, store.Column(user), size); err != nil {
			return nil, err
		}
		if _, err := t.Exec(ctx, "INSERT INTO passages (id, org, agent, usr, body, tags, created) VALUES ($1, $2, $3, "+
			"$4, $5, $6, $7)", string(p.ID), store.Column(org), string(agent), store.Column(user), body, string(doc),
			p.Created.UnixMicro()); err != nil {
			return nil, err
		}
		return &p, t.Add(ctx, insertTerms, terms)
	})
	if err == nil && s.embedder != nil {
		s.embedder.Added(org, agent)
	}
	return added, err
}

// RemovePassage removes a passage, or returns [haft.CodeNotFound].
func (s *Store) RemovePassage(ctx context.Context, org string, agent haft.AgentID, id haft.PassageID) error {
	return s.db.Write(ctx, "remove a passage", func(ctx context.Context, t store.Tx) error {
		size, user := int64(-1), ""
		err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&size, &user) }, "DELETE FROM passages "+
			"WHERE agent = $1 AND id = $2 AND org = $3 RETURNING OCTET_LENGTH(body) + OCTET_LENGTH(tags), usr",
			store.Column(string(agent)), store.Column(string(id)), store.Column(org))
		if err == nil && size < 0 {
			return missing("passage")
		}
		if err != nil {
			return err
		}
		if _, err := touch(ctx, t, org, agent, counts{passages: -1, bytes: -size}); err != nil {
			return err
		}
		if err := share(ctx, t, agent, user, -size); err != nil {
			return err
		}
		if _, err = t.Exec(ctx, "DELETE FROM memory_terms WHERE item = $1", string(id)); err != nil {
			return err
		}
		_, err = t.Exec(ctx, "DELETE FROM passage_vectors WHERE agent = $1 AND passage = $2",
			store.Column(string(agent)), string(id))
		return err
	})
}

// PassageTags lists the tags of the passages of an agent, at most [store.MaxPage] of them. It jumps from one to the
// next, however many passages have it.
func (s *Store) PassageTags(ctx context.Context, org string, agent haft.AgentID) ([]string, error) {
	of, end := store.Column(string(agent)), tagMark+string(unicode.MaxRune)
	tags, err := list(ctx, s, text[string], query(`WITH RECURSIVE tags (term) AS (
		SELECT (SELECT MIN(m.term) FROM memory_terms m WHERE m.agent = ? AND m.term > ? AND m.term < ?
			AND EXISTS (SELECT 1 FROM memories WHERE agent = ? AND org = ?))
		UNION ALL
		SELECT (SELECT MIN(m.term) FROM memory_terms m WHERE m.agent = ? AND m.term > tags.term AND m.term < ?)
			FROM tags WHERE tags.term IS NOT NULL
		) SELECT term FROM tags WHERE term IS NOT NULL LIMIT ?`,
		of, tagMark, end, of, store.Column(org), of, end, store.MaxPage))
	for i := range tags {
		tags[i] = strings.TrimPrefix(tags[i], tagMark)
	}
	return tags, err
}

// Passages lists passages of an agent in the order of their times, or the best ones first if f has a query.
func (s *Store) Passages(ctx context.Context, org string, agent haft.AgentID, f haft.PassageFilter) ([]haft.Passage,
	error) {
	if err := cmp.Or(checkQuery(f.Query), checkTags(f.Tags)); err != nil {
		return nil, err
	}
	if len(f.Tags) > haft.MaxSearchTags {
		return nil, invalid("/tags", fmt.Sprintf("expected at most %d tags", haft.MaxSearchTags))
	}
	limit := page(f.Limit)
	sp := newSpan(store.Column(string(agent)), passagePrefix, f.Since, f.Till, f.Newest).
		from(store.Column(string(f.After)))
	if f.Query != "" {
		return s.searchPassages(ctx, org, agent, sp, f)
	}
	q := query(passageColumns+"org = ? AND agent = ?", store.Column(org), sp.agent)
	if len(f.Tags) > 0 {
		ids, err := s.tagged(ctx, sp, f.Tags, f.AllTags, limit)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		q = passagesByID(org, agent, ids)
	}
	q.Add(" AND id > ? AND id < ?"+sp.order("id")+" LIMIT ?", sp.after, sp.before, limit)
	return list(ctx, s, scanPassage, q)
}

func checkQuery(query string) error {
	if len(query) > maxQuery {
		return invalid("/query", fmt.Sprintf("expected at most %d bytes", maxQuery))
	}
	return nil
}

// searchPassages returns the passages of a span that fit a query best.
func (s *Store) searchPassages(ctx context.Context, org string, agent haft.AgentID, sp span,
	f haft.PassageFilter) ([]haft.Passage, error) {
	found, err := s.search(ctx, sp, f.Query, f.Tags, f.AllTags)
	if err != nil {
		return nil, err
	}
	near, err := nearest(ctx, s, org, agent, sp, f)
	if err != nil {
		return nil, err
	}
	found = fuse(found, near)
	scores := make(map[string]float64, len(found))
	for _, c := range found {
		scores[c.ID] = c.Score
	}
	return read(found, page(f.Limit), func(p haft.Passage) string { return string(p.ID) },
		func(ids []any) ([]haft.Passage, bool, error) {
			part, cut, err := some(ctx, s, scanPassage, passagesByID(org, agent, ids))
			for i := range part {
				part[i].Score = scores[string(part[i].ID)]
			}
			return slices.DeleteFunc(part, func(p haft.Passage) bool { return !hasTags(p, f) }), cut, err
		})
}

// hasTags reports whether a passage has the tags of a filter.
func hasTags(p haft.Passage, f haft.PassageFilter) bool {
	n := 0
	for _, tag := range f.Tags {
		if slices.Contains(p.Tags, tag) {
			n++
		}
	}
	return n == len(f.Tags) || n > 0 && !f.AllTags
}

// passageColumns are those that scanPassage reads.
const passageColumns = "SELECT id, agent, body, tags, created FROM passages WHERE "

// passagesByID selects some passages of an agent.
func passagesByID(org string, agent haft.AgentID, ids []any) store.Query {
	q := query(passageColumns+"org = ? AND "+ofAgent+" AND id IN ", store.Column(org),
		store.Column(string(agent)))
	q.In(ids)
	return q
}

func scanPassage(r store.Scanner) (p haft.Passage, err error) {
	var tags string
	var created int64
	if err := r.Scan(&p.ID, &p.Agent, &p.Text, &tags, &created); err != nil {
		return p, err
	}
	p.Created = fromMicros(created)
	if err := json.Unmarshal([]byte(tags), &p.Tags); err != nil {
		return p, fmt.Errorf("read the tags of a passage: %w", err)
	}
	return p, nil
}

// UserPassages lists what agents of an organisation added for a user, after another one in the order of their ids.
func (s *Store) UserPassages(ctx context.Context, org, user string, after haft.PassageID, limit int) ([]haft.Passage,
	error) {
	return list(ctx, s, scanPassage, query(passageColumns+"org = ? AND usr = ? AND usr <> '' AND id > ? ORDER BY id "+
		"LIMIT ?", store.Column(org), store.Column(user), store.Column(string(after)), page(limit)))
}
