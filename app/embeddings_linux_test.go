package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/agents"
	"haft/internal/modelfile"
	"haft/internal/secret"
	"haft/internal/store"
)

// An agent finds what it has stored by a question without a common word, through the built-in tools and through the API
// of its archive. Stored secrets do not leave for the endpoint, and an erasure leaves no vector.
func TestEmbeddings(t *testing.T) {
	var mu sync.Mutex
	var sent strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Input []string `json:"input"`
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &in) != nil || r.URL.Path != "/v1/embeddings" {
			t.Errorf("the request is %s %s, %v", r.URL, body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		sent.Write(body)
		var data []string
		for i, text := range in.Input {
			vector := "[0,1]"
			if strings.Contains(text, "sunny") || strings.Contains(text, "weather") {
				vector = "[1,0]"
			}
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, vector))
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
	}))
	t.Cleanup(server.Close)
	models, err := modelfile.Parse("models.toml", fmt.Sprintf("[models.m]\nformat = \"openai\"\n[embeddings]\n"+
		"url = %q\nmodel = \"m\"\n", server.URL))
	must(t, err)
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{AllowReduced: true}, Data: t.TempDir(),
		Agents: agents.Config{Models: models}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	ctx, who := t.Context(), root()
	must(t, s.PutSecret(ctx, who, "", "GARAGE_CODE", secret.New("hunter2-hunter2-hunter2")))
	a, err := s.PutAgent(ctx, who, haft.Agent{Name: "helper", Tools: []string{"archival_memory_insert",
		"archival_memory_search"}})
	must(t, err)
	who.Agent = string(a.ID)
	call := func(tool, args string) string {
		t.Helper()
		res, err := s.Call(ctx, haft.Call{Tool: tool, Args: json.RawMessage(args), Principal: who})
		must(t, err)
		if res.Status != haft.StatusSuccess {
			t.Fatalf("%s: %+v", tool, res)
		}
		return string(res.Value)
	}
	call("archival_memory_insert", `{"content":"Oslo is sunny today","tags":["oslo"]}`)
	_, err = s.API.Memory.AddPassage(ctx, root(), "helper", "Ann's code is hunter2-hunter2-hunter2", nil)
	must(t, err)
	vectors := func() (n int) {
		must(t, store.TablesOf(s.Store).Each(ctx, "count", func(r store.Scanner) error { return r.Scan(&n) },
			"SELECT COUNT(*) FROM passage_vectors"))
		return n
	}
	deadline := time.Now().Add(time.Minute)
	found := ""
	// On a busy machine a search may not wait for the vectors.
	for (vectors() < 2 || !strings.Contains(found, "sunny")) && time.Now().Before(deadline) {
		found = call("archival_memory_search", `{"query":"how will the weather be?","top_k":1}`)
	}
	if !strings.Contains(found, "Oslo is sunny") || strings.Contains(found, "hunter2") {
		t.Errorf("found is %s", found)
	}
	list, err := s.API.Memory.Passages(ctx, root(), "helper", haft.PassageFilter{Query: "weather", Limit: 1})
	if must(t, err); len(list) != 1 || list[0].Text != "Oslo is sunny today" {
		t.Errorf("the API finds %+v", list)
	}
	mu.Lock()
	if strings.Contains(sent.String(), "hunter2") {
		t.Errorf("a secret has left: %s", sent.String())
	}
	mu.Unlock()
	if n := vectors(); n != 2 {
		t.Errorf("there are %d vectors", n)
	}
	_, err = s.API.Data.Erase(ctx, root(), haft.Subject{User: "root"})
	must(t, err)
	if n := vectors(); n != 1 {
		t.Errorf("after the erasure of a user there are %d vectors", n)
	}
}
