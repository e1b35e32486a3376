package memorystore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/memorystore"
)

// An embedder answers queries by a table, and counts the passages that were added.
type embedder struct {
	queries map[string][]float32
	model   string
	mu      sync.Mutex
	added   string
}

func (e *embedder) Added(org string, agent haft.AgentID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.added += org + " " + string(agent) + "; "
}

func (e *embedder) Query(_ context.Context, _ string, _ haft.AgentID, text string) ([]float32, string) {
	return e.queries[text], e.model
}

// embedded gives the world an embedder of the model m.
func (w *world) embedded(queries map[string][]float32) *embedder {
	e := &embedder{queries: queries, model: "m"}
	w.Embed(e)
	return e
}

// vector keeps the vector of a passage of a.
func (w *world) vector(id haft.PassageID, model string, v ...float32) {
	w.t.Helper()
	check(w.t, w.PutVectors(w.ctx(), "acme", a, model, []haft.PassageID{id}, [][]float32{v}))
}

// unembedded lists the first words of passages of a that lack a vector.
func (w *world) unembedded(model string, dim, limit int) string {
	w.t.Helper()
	list, err := w.Unembedded(w.ctx(), "acme", a, model, dim, limit)
	check(w.t, err)
	var all []string
	for _, p := range list {
		first, _, _ := strings.Cut(p.Text, " ")
		all = append(all, first)
	}
	return strings.Join(all, " ")
}

func vectorsKept(t *testing.T, w *world) {
	e := w.embedded(nil)
	one, two := w.passage("one"), w.passage("two")
	_, err := w.AddPassage(w.ctx(), "acme", "", "ag_X", "text", nil)
	refused(t, "no such agent", err, haft.CodeNotFound)
	want(t, "what the embedder is told", e.added, "acme ag_A; acme ag_A; ")
	want(t, "without vectors", w.unembedded("m", 0, 9), "two one")
	want(t, "the newest", w.unembedded("m", 0, 1), "two")
	w.vector(one, "m", 0.6, 0.8)
	want(t, "without a vector", w.unembedded("m", 0, 9), "two")
	want(t, "of other dimensions", w.unembedded("m", 3, 9), "two one")
	want(t, "of another model", w.unembedded("n", 0, 9), "two one")
	w.vector(two, "m")
	want(t, "of which there is none", w.unembedded("m", 2, 9), "")
	w.vector(one, "n", 1)
	want(t, "of a model that was replaced", w.unembedded("m", 0, 9), "one")
	want(t, "rows", w.rows("passage_vectors"), 2)
	want(t, "bytes", w.rows("passage_vectors WHERE dim = 1 AND OCTET_LENGTH(vector) = 4"), 1)
	list, err := w.Unembedded(w.ctx(), "evil", a, "m", 0, 9)
	check(t, err)
	want(t, "of another organisation", len(list), 0)
}

func vectorsFound(t *testing.T, w *world) {
	w.embedded(map[string][]float32{"beverage": {1, 0}, "tea": {1, 0}, "elsewhere": {-1, 0}, "long": {1, 0, 0}})
	tea := w.passage("tea is green", "drink")
	cola := w.passage("cola is brown", "drink", "sweet")
	since := time.Now()
	rain := w.passage("rain is wet")
	w.vector(tea, "m", 0.8, 0.6)
	w.vector(cola, "m", 1, 0)
	w.vector(rain, "m", 0, 1)
	other, err := w.AddPassage(w.ctx(), "acme", "", b, "water", nil)
	check(t, err)
	check(t, w.PutVectors(w.ctx(), "acme", b, "m", []haft.PassageID{other.ID}, [][]float32{{1, 0}}))
	theirs, err := w.AddPassage(w.ctx(), "evil", "", c, "theirs", nil)
	check(t, err)
	check(t, w.PutVectors(w.ctx(), "evil", c, "m", []haft.PassageID{theirs.ID}, [][]float32{{1, 0}}))
	check(t, w.PutVectors(w.ctx(), "acme", a, "m", []haft.PassageID{theirs.ID}, [][]float32{{1, 0}}))
	for name, tt := range map[string]struct {
		f    haft.PassageFilter
		want string
	}{
		"no common word":    {haft.PassageFilter{Query: "beverage"}, "cola tea"},
		"the best":          {haft.PassageFilter{Query: "beverage", Limit: 1}, "cola"},
		"words and vectors": {haft.PassageFilter{Query: "tea"}, "tea cola"},
		"a tag":             {haft.PassageFilter{Query: "beverage", Tags: []string{"sweet"}}, "cola"},
		"all tags": {haft.PassageFilter{Query: "tea", Tags: []string{"sweet", "drink"}, AllTags: true},
			"cola"},
		"no such tag":              {haft.PassageFilter{Query: "beverage", Tags: []string{"none"}}, ""},
		"since":                    {haft.PassageFilter{Query: "beverage", Since: since}, ""},
		"till":                     {haft.PassageFilter{Query: "beverage", Till: since}, "cola tea"},
		"after":                    {haft.PassageFilter{Query: "beverage", After: tea}, "cola"},
		"the other way":            {haft.PassageFilter{Query: "elsewhere"}, ""},
		"of other dimensions":      {haft.PassageFilter{Query: "long"}, ""},
		"a query without a vector": {haft.PassageFilter{Query: "wet"}, "rain"},
		"without a query":          {haft.PassageFilter{Newest: true}, "rain cola tea"},
		"no words and no vector":   {haft.PassageFilter{Query: "?!"}, ""},
		"a word that all have, is": {haft.PassageFilter{Query: "is"}, "tea cola rain"},
	} {
		want(t, name, w.found(tt.f), tt.want)
	}
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "tea"})
	if check(t, err); list[0].Score <= list[1].Score || list[1].Score <= 0 {
		t.Errorf("the scores are %v and %v", list[0].Score, list[1].Score)
	}
	list, err = w.Passages(w.ctx(), "evil", a, haft.PassageFilter{Query: "beverage"})
	check(t, err)
	want(t, "the agent of another organisation", len(list), 0)
	w.vector(cola, "n", 1, 0)
	want(t, "a vector of another model", w.found(haft.PassageFilter{Query: "beverage"}), "tea")
	w.exec("UPDATE passage_vectors SET vector = $1 WHERE passage = $2", []byte("short"), string(tea))
	want(t, "a vector that is damaged", w.found(haft.PassageFilter{Query: "beverage"}), "")
}

// vectorsBounded: of an agent with very many passages, the newest 10,000 have vectors.
func vectorsBounded(t *testing.T, w *world) {
	w.embedded(map[string][]float32{"q": {1, 0}})
	w.exec("INSERT INTO passages (id, org, agent, usr, body, tags, created) SELECT 'passage-' || (100000 + i), "+
		"'acme', $1, '', 'p' || i, '[]', 1 FROM "+numbers(10_005), string(a))
	want(t, "the oldest without", w.unembedded("m", 0, 20_000)[:11], "p10005 p100")
	w.exec("INSERT INTO passage_vectors (agent, passage, model, dim, vector) SELECT agent, id, 'm', 2, $1 FROM "+
		"passages", []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0})
	want(t, "none lacks one", w.unembedded("m", 2, 9), "")
	w.vector("passage-110005", "m", 1, 0)
	want(t, "vectors", w.rows("passage_vectors"), 10_000)
	want(t, "the oldest lack one, and are left alone", w.unembedded("m", 0, 9), "")
	want(t, "the oldest", w.rows("passage_vectors WHERE passage <= 'passage-100005'"), 0)
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "q", Limit: 1000})
	check(t, err)
	want(t, "a page", len(list), 100)
	want(t, "the newest of equals", list[0].Text, "p10005")
}

func vectorsRemoved(t *testing.T, w *world) {
	w.embedded(nil)
	w.join("p1")
	vector := func(org, user string, agent haft.AgentID) haft.PassageID {
		t.Helper()
		p, err := w.AddPassage(w.ctx(), org, user, agent, "text", nil)
		check(t, err)
		check(t, w.PutVectors(w.ctx(), org, agent, "m", []haft.PassageID{p.ID}, [][]float32{{1}}))
		return p.ID
	}
	gone := vector("acme", "", a)
	vector("acme", "ann", a)
	vector("acme", "bob", a)
	vector("acme", "", b)
	vector("evil", "ann", c)
	check(t, w.RemovePassage(w.ctx(), "acme", a, gone))
	want(t, "vectors after a removal", w.rows("passage_vectors"), 4)
	check(t, w.PutVectors(w.ctx(), "acme", a, "m", []haft.PassageID{gone}, [][]float32{{1}}))
	want(t, "vectors of what is gone", w.rows("passage_vectors"), 4)
	check(t, w.Erase(w.ctx(), "acme", "ann"))
	want(t, "vectors after an erasure", w.rows("passage_vectors"), 3)
	w.passage("late")
	want(t, "what lacks a vector", w.unembedded("m", 0, 9), "late")
	check(t, w.db.Agents.RemoveAgent(w.ctx(), "acme", string(a), ""))
	want(t, "what lacks a vector of an agent that is gone", w.unembedded("m", 0, 9), "")
	check(t, w.Purge(w.ctx()))
	want(t, "vectors without the agent", w.rows("passage_vectors"), 2)
	check(t, w.Erase(w.ctx(), "acme", ""))
	want(t, "vectors without the organisation", w.rows("passage_vectors"), 1)
	want(t, "vectors of another", w.rows("passage_vectors WHERE agent = 'ag_C'"), 1)
}

// vectorsRace: while passages are removed, others keep vectors of them. None is left.
func vectorsRace(t *testing.T, w *world) {
	other := memorystore.VectorsOf(memorystore.New(w.open()))
	for range 5 {
		var ids []haft.PassageID
		var vectors [][]float32
		for i := range 20 {
			ids, vectors = append(ids, w.passage(fmt.Sprint("p", i))), append(vectors, []float32{1})
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				if err := other.PutVectors(w.ctx(), "acme", a, "m", ids, vectors); err != nil {
					t.Errorf("PutVectors: %v", err)
				}
			}
		})
		for _, id := range ids {
			check(t, w.RemovePassage(w.ctx(), "acme", a, id))
		}
		wg.Wait()
		want(t, "vectors", w.rows("passage_vectors"), 0)
	}
	agent := haft.AgentID("ag_gone")
	w.agent("acme", agent)
	p, err := w.AddPassage(w.ctx(), "acme", "", agent, "text", nil)
	check(t, err)
	check(t, w.db.Agents.RemoveAgent(w.ctx(), "acme", string(agent), ""))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 5 {
			err := other.PutVectors(w.ctx(), "acme", agent, "m", []haft.PassageID{p.ID}, [][]float32{{1}})
			if err != nil {
				t.Errorf("PutVectors: %v", err)
			}
		}
	})
	check(t, w.Purge(w.ctx()))
	wg.Wait()
	want(t, "vectors of an agent that is gone", w.rows("passage_vectors"), 0)
}
