package memorystore

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"haft"
	"haft/internal/store"
	"haft/internal/store/words"
)

// The bounds of vectors.
const (
	maxVectors     = 10_000   // newest passages of an agent that have one
	maxVectorBytes = 64 << 20 // that a search reads
	maxNear        = maxPage  // passages that a search finds by their vectors
	fusion         = 60       // of reciprocal rank fusion: how little the first ranks differ
)

// An Embedder makes the vectors of passages and queries.
type Embedder interface {
	// Added is called when an agent has a new passage. It does not wait.
	Added(org string, agent haft.AgentID)
	// Query returns the vector of a query for passages of an agent, of length 1, and the model that made it, or nil if
	// there is none now. It waits for no more than a moment.
	Query(ctx context.Context, org string, agent haft.AgentID, text string) (vector []float32, model string)
}

// Vectors are those of the passages of a store.
type Vectors struct{ s *Store }

// VectorsOf returns the vectors of a store.
func VectorsOf(s *Store) Vectors { return Vectors{s} }

// Embed lets searches for passages use vectors too. It must be called before the store is used.
func (v Vectors) Embed(e Embedder) { v.s.embedder = e }

// Unembedded lists passages of an agent that have no vector of a model and a number of dimensions, or of any number if
// that is 0. They are the newest first, and among the newest [maxVectors]. Passages of an agent that is gone, which
// [Store.Purge] has yet to remove, are not listed: their texts leave for nobody.
func (v Vectors) Unembedded(ctx context.Context, org string, agent haft.AgentID, model string, dim, limit int) (
	[]haft.Passage, error) {
	of := store.Column(string(agent))
	// Of EXISTS Postgres would make a join, which without statistics compares each passage with each vector.
	q := query(passageColumns+"org = ? AND agent = ? AND id >= COALESCE((SELECT id FROM passages WHERE agent = ? "+
		"ORDER BY id DESC LIMIT 1 OFFSET ?), '') AND (SELECT COUNT(*) FROM passage_vectors v WHERE v.agent = ? AND "+
		"v.passage = passages.id AND v.model = ?", store.Column(org), of, of, maxVectors-1, of, store.Column(model))
	if dim > 0 {
		q.Add(" AND v.dim IN (0, ?)", dim)
	}
	q.Add(") = 0 AND NOT EXISTS (SELECT 1 FROM memories WHERE agent = ? AND removed = 1) ORDER BY id DESC LIMIT ?",
		of, limit)
	return list(ctx, v.s, scanPassage, q)
}

// PutVectors keeps the vectors of passages of an agent that are still there, and removes those of passages that are not
// among the newest any more. An empty vector says that the model makes none of a text.
func (v Vectors) PutVectors(ctx context.Context, org string, agent haft.AgentID, model string, ids []haft.PassageID,
	vectors [][]float32) error {
	of := store.Column(string(agent))
	return v.s.db.Write(ctx, "keep vectors", func(ctx context.Context, t store.Tx) error {
		q := query("SELECT id FROM passages WHERE org = ? AND "+ofAgent+" AND id IN ", store.Column(org), of)
		q.In(anys(ids, func(id haft.PassageID) string { return string(id) }))
		q.Add(" ORDER BY id")
		kept, err := list(ctx, locked{t}, text[haft.PassageID], q) // nobody removes them before the transaction ends
		if err != nil {
			return err
		}
		for _, id := range kept {
			one := vectors[slices.Index(ids, id)]
			if _, err := t.Exec(ctx, `INSERT INTO passage_vectors (agent, passage, model, dim, vector) VALUES ($1, $2,
				$3, $4, $5) ON CONFLICT (agent, passage) DO UPDATE SET model = excluded.model, dim = excluded.dim,
				vector = excluded.vector`, of, string(id), store.Column(model), len(one), encodeVector(one)); err != nil {
				return err
			}
		}
		_, err = t.Exec(ctx, "DELETE FROM passage_vectors WHERE agent = $1 AND passage < (SELECT id FROM passages "+
			"WHERE agent = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)", of, maxVectors-1)
		return err
	})
}

// encodeVector returns the numbers of a vector one after the other, of 32 bits each, little-endian.
func encodeVector(v []float32) []byte {
	blob := make([]byte, 0, 4*len(v))
	for _, x := range v {
		blob = binary.LittleEndian.AppendUint32(blob, math.Float32bits(x))
	}
	return blob
}

// A near is a passage, and the cosine of the angle between its vector and that of a query.
type near struct {
	id     string
	cosine float64
}

// nearest returns passages of a span whose vectors are nearest to that of a query, the nearest first. It reads the
// newest vectors, or those of passages with the tags of the filter.
func nearest(ctx context.Context, s *Store, org string, agent haft.AgentID, sp span, f haft.PassageFilter) ([]near,
	error) {
	if s.embedder == nil {
		return nil, nil
	}
	v, model := s.embedder.Query(ctx, org, agent, f.Query)
	if len(v) == 0 {
		return nil, nil
	}
	sp.newest = true
	q := query("SELECT passage, vector FROM passage_vectors WHERE agent = ? AND model = ? AND dim = ? AND passage > ? "+
		"AND passage < ?", sp.agent, store.Column(model), len(v), sp.after, sp.before)
	if len(f.Tags) > 0 {
		tagged, err := s.tagged(ctx, sp, f.Tags, f.AllTags, maxFound)
		if err != nil || len(tagged) == 0 {
			return nil, err
		}
		q.Add(" AND passage IN ")
		q.In(tagged)
	}
	q.Add(" ORDER BY passage DESC LIMIT ?", min(maxVectors, maxVectorBytes/(4*len(v))))
	var all []near
	var id string
	var blob []byte
	err := s.each(ctx, func(r store.Scanner) error {
		err := r.Scan(&id, &blob)
		if cos := cosine(v, blob); err == nil && cos > 0 {
			all = append(all, near{id, cos})
		}
		return err
	}, q)
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.cosine, a.cosine), strings.Compare(b.id, a.id))
	})
	return all[:min(len(all), maxNear)], err
}

// cosine is that of the angle between two vectors of length 1, or 0 if they have not as many numbers.
func cosine(v []float32, blob []byte) float64 {
	if len(blob) != 4*len(v) {
		return 0
	}
	sum := float32(0)
	for i, x := range v {
		sum += x * math.Float32frombits(binary.LittleEndian.Uint32(blob[4*i:]))
	}
	return float64(sum)
}

// fuse puts what was found by words and by vectors in one order, by reciprocal rank fusion: the ranks in both count,
// since scores of words and cosines cannot be compared.
func fuse(found []*words.Candidate, by []near) []*words.Candidate {
	if len(by) == 0 {
		return found
	}
	all, at := make([]*words.Candidate, 0, len(found)+len(by)), map[string]*words.Candidate{}
	note := func(id string, rank int) {
		if at[id] == nil {
			at[id] = &words.Candidate{ID: id}
			all = append(all, at[id])
		}
		at[id].Score += 1 / float64(fusion+1+rank)
	}
	for rank, n := range by { // first: among equals, those that mean the same come before those that share a word
		note(n.id, rank)
	}
	for rank, c := range found {
		note(c.ID, rank)
	}
	slices.SortStableFunc(all, func(a, b *words.Candidate) int { return cmp.Compare(b.Score, a.Score) })
	return all
}
