package embedding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/embedding"
	"haft/internal/memorystore"
	"haft/internal/modelfile"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const agent haft.AgentID = "ag_A"

// meanings are the directions of words: those of the same meaning are in the same one.
var meanings = map[string]int{"automobile": 0, "car": 0, "dog": 1, "puppy": 1, "rain": 2, "weather": 2}

// A world is a memory with embeddings of a scripted server.
type world struct {
	*memorystore.Store
	memorystore.Vectors
	t     *testing.T
	db    *store.Store
	index *embedding.Index
	log   strings.Builder

	mu    sync.Mutex
	asked [][]string // the texts of each request
	serve func(w http.ResponseWriter, r *http.Request, texts []string) bool
}

// request answers a request with the vectors of the words of its texts, unless serve does.
func (w *world) request(rw http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &in) != nil || in.Model != "m" || r.URL.Path != "/v1/embeddings" ||
		r.Header.Get("Authorization") != "Bearer key of acme" {
		w.t.Errorf("the request is %s %s", r.URL, body)
	}
	w.mu.Lock()
	w.asked = append(w.asked, in.Input)
	serve := w.serve
	w.mu.Unlock()
	if serve != nil && serve(rw, r, in.Input) {
		return
	}
	var data []any
	for i, text := range in.Input {
		data = append(data, map[string]any{"index": i, "embedding": vectorOf(text)})
	}
	_ = json.NewEncoder(rw).Encode(map[string]any{"data": data})
}

func vectorOf(text string) []float64 {
	v := []float64{0, 0, 0, 0}
	for word := range strings.FieldsSeq(text) {
		if i, ok := meanings[word]; ok {
			v[i]++
		}
	}
	if v[0]+v[1]+v[2] == 0 {
		v[3] = 1 // something else
	}
	return v
}

// use has requests answered by a function, or as usual where that returns false. It returns what was asked before.
func (w *world) use(serve func(w http.ResponseWriter, r *http.Request, texts []string) bool) [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.serve, w.asked = serve, nil
	return asked
}

// setup makes a world whose endpoint is configured by a file; settings are further lines of it.
func setup(t *testing.T, settings string, cfg embedding.Config) *world {
	t.Helper()
	w := &world{t: t}
	server := httptest.NewServer(http.HandlerFunc(w.request))
	t.Cleanup(server.Close)
	file, err := modelfile.Parse("models.toml", fmt.Sprintf("[models.a]\nformat = \"openai\"\n[embeddings]\nurl = %q\n"+
		"model = \"m\"\nkey_secret = \"KEY\"\n%s", server.URL, settings))
	check(t, err)
	models, err := modelfile.NewCatalog(file, modelfile.CatalogConfig{Getenv: func(string) string { return "" },
		Secret: func(_ context.Context, org, _ string) (secret.Value, error) {
			if org != "acme" {
				return secret.Value{}, &haft.Error{Code: haft.CodeNotFound}
			}
			return secret.New("key of " + org), nil
		}})
	check(t, err)
	w.db, err = sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	check(t, err)
	t.Cleanup(func() { check(t, w.db.Close()) })
	w.Store = memorystore.New(w.db)
	w.Vectors = memorystore.VectorsOf(w.Store)
	for id, org := range map[haft.AgentID]string{agent: "acme", "ag_B": "acme", "ag_C": "evil"} {
		_, err := w.db.Agents.PutAgent(t.Context(), haft.Agent{ID: id, Org: org, Name: strings.ToLower(string(id))})
		check(t, err)
	}
	source, err := models.Embedder()
	check(t, err)
	cfg.Store, cfg.Source, cfg.Logger = w.Vectors, source, slog.New(slog.NewTextHandler(&w.log, nil))
	cfg.Redact = func(context.Context, string, haft.AgentID) (func(string) string, error) {
		return func(s string) string { return strings.ReplaceAll(s, "hunter2", "*") }, nil
	}
	w.index = embedding.New(cfg)
	t.Cleanup(w.index.Close)
	return w
}

// begin lets the store use the index; what was added before has no vectors.
func (w *world) begin() { w.Embed(w.index) }

func (w *world) add(text string) {
	w.t.Helper()
	_, err := w.AddPassage(w.t.Context(), "acme", "", agent, text, nil)
	check(w.t, err)
}

// found returns the first words of what a search finds.
func (w *world) found(query string) string {
	w.t.Helper()
	list, err := w.Passages(w.t.Context(), "acme", agent, haft.PassageFilter{Query: query, Limit: 5})
	check(w.t, err)
	var all []string
	for _, p := range list {
		first, _, _ := strings.Cut(p.Text, " ")
		all = append(all, first)
	}
	return strings.Join(all, " ")
}

// vectors counts the vectors of a condition.
func (w *world) vectors(where string) (n int) {
	w.t.Helper()
	check(w.t, store.TablesOf(w.db).Each(w.t.Context(), "count", func(r store.Scanner) error { return r.Scan(&n) },
		"SELECT COUNT(*) FROM passage_vectors WHERE "+where))
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A search finds what means the same in other words, also what was there before, and no secret leaves.
func TestIndex_finds_by_meaning(t *testing.T) {
	w := setup(t, "", embedding.Config{SearchTime: time.Minute})
	w.add("one red car, hunter2 is its password, a car")
	w.begin()
	w.add("two white puppy at home")
	_, err := w.AddPassage(t.Context(), "acme", "", "ag_B", "other car car", nil)
	check(t, err)
	_, err = w.AddPassage(t.Context(), "evil", "", "ag_C", "theirs car car", nil)
	check(t, err)
	want(t, "a car", w.found("automobile"), "one")
	want(t, "a dog", w.found("dog hunter2"), "two one")
	w.add("three rain")
	want(t, "what was just added", w.found("weather"), "three")
	list, err := w.Passages(t.Context(), "evil", "ag_C", haft.PassageFilter{Query: "automobile"})
	check(t, err)
	want(t, "an organisation without a key", len(list), 0)
	w.index.Close()
	for _, texts := range w.use(nil) {
		if all := strings.Join(texts, " "); strings.Contains(all, "hunter2") || strings.Contains(all, "theirs") {
			t.Errorf("the endpoint is asked for %q", texts)
		}
	}
	log := w.log.String()
	if strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "org=evil kind=not_found") {
		t.Errorf("the log is %s", log)
	}
}

// However the endpoint fails, a passage is added and found by its words without delay, and that is logged once; when
// the endpoint is back, so are the vectors.
func TestIndex_fails(t *testing.T) {
	answer := func(status int, text string) func(http.ResponseWriter, *http.Request, []string) bool {
		return func(rw http.ResponseWriter, _ *http.Request, _ []string) bool {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, text)
			return true
		}
	}
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request, []string) bool{
		"down":            answer(503, "red car"),
		"no such model":   answer(404, `{"error":"red car"}`),
		"NaN":             answer(200, `{"data":[{"index":0,"embedding":[1,NaN,0,0]}]}`),
		"a wrong number":  answer(200, `{"data":[]}`),
		"other dimension": answer(200, `{"data":[{"index":0,"embedding":[1]}]}`),
		"huge":            answer(200, strings.Repeat(" ", 17<<20)),
		"slow": func(_ http.ResponseWriter, r *http.Request, _ []string) bool {
			<-r.Context().Done()
			return true
		},
		"cut": func(http.ResponseWriter, *http.Request, []string) bool { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, "dimensions = 4", embedding.Config{SearchTime: 200 * time.Millisecond, FirstPause: time.Hour})
			w.begin()
			w.use(serve)
			began := time.Now()
			want(t, "before there is anything", w.found("automobile"), "")
			w.add("one red car")
			for range 20 {
				want(t, "by its words", w.found("car"), "one")
				want(t, "by its meaning", w.found("automobile"), "")
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			w.index.Close()
			if n := len(w.use(nil)); n == 0 || n > 5 {
				t.Errorf("the endpoint is asked %d times", n)
			}
			log := w.log.String()
			if strings.Count(log, "level=WARN") != 1 || strings.Contains(log, "red car") {
				t.Errorf("the log is %s", log)
			}
			index := embedding.New(embedding.Config{Store: w.Vectors, Source: source{},
				Redact: func(context.Context, string, haft.AgentID) (func(string) string, error) {
					return strings.ToUpper, nil
				}})
			defer index.Close()
			w.Embed(index)
			want(t, "when the endpoint is back", w.found("automobile"), "one")
		})
	}
}

// A source makes the same vector of everything.
type source struct{}

func (source) Model() string { return "m" }

func (source) Embed(_ context.Context, _ string, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if text != strings.ToUpper(text) {
			return nil, errors.New("the text was not redacted")
		}
		vectors[i] = []float32{1}
	}
	return vectors, nil
}

// What the endpoint did not embed while it was away is embedded in the background when it is back.
func TestIndex_tries_again(t *testing.T) {
	w := setup(t, "", embedding.Config{FirstPause: time.Millisecond, SearchTime: time.Minute})
	w.begin()
	var tries atomic.Int32 // the third and that of the search may come together
	done := make(chan struct{})
	w.use(func(rw http.ResponseWriter, _ *http.Request, _ []string) bool {
		try := tries.Add(1)
		switch try {
		case 1, 2:
			rw.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			close(done)
		}
		return try <= 2
	})
	w.add("one red car")
	<-done
	want(t, "after two failures", w.found("automobile"), "one")
}

// Many passages are embedded in bounded batches; one that the endpoint refuses does not hold up the others, and one
// that is too long for its model is embedded by its beginning.
func TestIndex_batches(t *testing.T) {
	w := setup(t, "", embedding.Config{SearchTime: time.Minute})
	for i := range 40 {
		w.add(fmt.Sprint("dog", i))
	}
	w.add("poison rain")
	w.add("long car " + strings.Repeat("é", 10_000) + " puppy")
	w.begin()
	w.use(func(rw http.ResponseWriter, _ *http.Request, texts []string) bool {
		all := strings.Join(texts, " ")
		switch {
		case len(texts) > 32:
			t.Errorf("a batch has %d texts", len(texts))
		case strings.Contains(all, "poison"):
			rw.WriteHeader(http.StatusInternalServerError) // as Ollama does where a model yields NaN
			return true
		case strings.Contains(all, strings.Repeat("é", 1500)):
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, `{"error":{"message":"the input length exceeds the context length"}}`)
			return true
		}
		return false
	})
	want(t, "a long one", w.found("automobile"), "long")
	want(t, "one that is refused", w.found("weather"), "")
	want(t, "one that is refused, by its words", w.found("poison"), "poison")
	for w.vectors("1 = 1") < 42 {
		w.found("automobile") // which waits for a batch
	}
	want(t, "vectors", w.vectors("dim = 4"), 41)
	w.use(nil)
	want(t, "later", w.found("weather"), "")
	want(t, "requests", len(w.use(nil)), 1) // of the query
	want(t, "a warning", w.log.String(), "")
}

// After a change of the model, or of its dimensions, passages are embedded anew.
func TestIndex_changes(t *testing.T) {
	w := setup(t, "", embedding.Config{SearchTime: time.Minute})
	w.begin()
	w.add("one red car")
	want(t, "before", w.found("automobile"), "one")
	for range 2 {
		w.use(func(rw http.ResponseWriter, _ *http.Request, texts []string) bool {
			_, _ = io.WriteString(rw, `{"data":[{"index":0,"embedding":[1,2,3]}]}`)
			return true
		})
		want(t, "with other dimensions", w.found("automobile"), "one")
	}
	want(t, "vectors", w.vectors("dim = 3 AND model = 'm'"), 1)
}

// Whoever gives up says nothing about the endpoint, and closing ends what waits.
func TestIndex_ends(t *testing.T) {
	w := setup(t, "", embedding.Config{SearchTime: time.Hour, FirstPause: time.Hour})
	w.begin()
	began := make(chan struct{}, 10)
	w.use(func(_ http.ResponseWriter, r *http.Request, _ []string) bool {
		began <- struct{}{}
		<-r.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if v, _ := w.index.Query(ctx, "acme", agent, "car"); v != nil {
		t.Errorf("the vector is %v", v)
	}
	w.add("one red car")
	<-began // there is no outage
	w.index.Close()
	w.index.Close()
	w.add("two red car") // of which nothing is done
	want(t, "the log", w.log.String(), "")
	want(t, "vectors", w.vectors("1 = 1"), 0)
}

// An organisation with very many agents, whose passages cannot be embedded, does not keep out another one.
func TestIndex_has_places_for_all_organisations(t *testing.T) {
	w := setup(t, "", embedding.Config{SearchTime: time.Minute, FirstPause: time.Hour})
	const agents = 1000
	check(t, store.TablesOf(w.db).Write(t.Context(), "add passages", func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) INSERT "+
			"INTO passages (id, org, agent, usr, body, tags, created) SELECT 'passage-' || i, 'evil', 'ag_' || i, '', "+
			"'red car', '[]', 1 FROM n", agents)
		return err
	}))
	for i := range agents {
		w.index.Added("evil", haft.AgentID(fmt.Sprint("ag_", i+1)))
	}
	w.begin()
	w.add("one red car")
	want(t, "found by its meaning", w.found("automobile"), "one")
}
