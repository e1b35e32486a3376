package modelfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/model"
	"haft/internal/modelfile"
	"haft/internal/modeltest"
	"haft/internal/secret"
	"haft/schema"
)

// environment is one with these variables.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// catalog returns a catalog of a file.
func catalog(t *testing.T, text string, cfg modelfile.CatalogConfig) *modelfile.Catalog {
	t.Helper()
	f, err := modelfile.Parse("models.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Getenv == nil {
		cfg.Getenv = environment()
	}
	c, err := modelfile.NewCatalog(f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The example of the documentation can be read, and is listed without secrets.
func TestCatalog_example(t *testing.T) {
	getenv := environment("ANTHROPIC_API_KEY", key)
	f, err := modelfile.Load("testdata/models.toml", getenv)
	if err != nil {
		t.Fatal(err)
	}
	c, err := modelfile.NewCatalog(f, modelfile.CatalogConfig{Getenv: getenv})
	if err != nil {
		t.Fatal(err)
	}
	got := c.List(t.Context(), "acme")
	want := []haft.Model{
		{Name: "claude", Default: true, Model: "claude-sonnet-5", Provider: "anthropic", Context: 200_000},
		{Name: "gpt", Model: "gpt-5.5", Provider: "openai", Context: 256_000,
			Unavailable: "the model gpt has no key: there are no secrets here; use key_env instead of key_secret"},
		{Name: "local", Model: "gpt-oss:20b", Provider: "openai", Context: 16_384},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the list differs (-want +got):\n%s", d)
	}
	m, err := c.Model(t.Context(), haft.Principal{Org: "acme"}, "")
	if err != nil || m.Name != "claude-sonnet-5" || m.Context != 200_000 || m.MaxOutput != 16_384 ||
		m.Input != 3_000_000 || m.Cached != 300_000 || m.Output != 15_000_000 {
		t.Errorf("the default model is %+v, %v", m, err)
	}
}

// Every format asks the server of its model, with the key of the organisation that asks, as it is now.
func TestCatalog_asks(t *testing.T) {
	for _, form := range []schema.Form{schema.FormOpenAI, schema.FormOpenAIResponses, schema.FormAnthropic,
		schema.FormGemini} {
		s := modeltest.Start(t, modeltest.Step{Text: "one"}, modeltest.Step{Text: "two"}, modeltest.Step{Text: "three"})
		keys := map[string]string{"acme": "sk-acme-1", "other": "sk-other"}
		c := catalog(t, fmt.Sprintf("[models.a]\nformat = %q\nurl = %q\nmodel = \"vendors\"\nkey_secret = \"KEY\"\n"+
			"price_input = 2.01\nmax_output_tokens = 100\n[models.b]\nformat = %[1]q\nurl = %[2]q\nkey_env = \"KEY\"\n"+
			"options = { metadata = { a = \"b\" } }", form, s.URL),
			modelfile.CatalogConfig{Getenv: environment("KEY", " sk-environment\n"),
				Secret: func(_ context.Context, org, name string) (secret.Value, error) {
					if name != "KEY" {
						return secret.Value{}, errors.New("another name")
					}
					return secret.New(keys[org]), nil
				}})
		acme, err := c.Model(t.Context(), haft.Principal{Org: "acme"}, "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.Model(t.Context(), haft.Principal{Org: "other"}, "")
		if err != nil {
			t.Fatal(err)
		}
		if acme.Input != 2010000 || acme.Cached != 2010000 || acme.Output != 0 || acme.Name != "vendors" {
			t.Errorf("%s: the model is %+v", form, acme)
		}
		keys["acme"] = "sk-acme-2"
		req := model.Request{Model: acme.Name, Messages: []haft.Message{{Role: haft.RoleUser, Text: "hello"}}}
		for _, m := range []interface {
			Generate(context.Context, model.Request, func(model.Chunk)) (*model.Answer, error)
		}{acme, other} {
			if _, err := m.Generate(t.Context(), req, nil); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
		}
		if form != schema.FormGemini { // which has no such field
			b, err := c.Model(t.Context(), haft.Principal{Org: "acme"}, "b")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Generate(t.Context(), req, nil); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
		}
		for i, r := range s.Requests() {
			want := []string{"sk-acme-2", "sk-other", "sk-environment"}[i]
			h := r.Header
			got := h.Get("Authorization") + h.Get("X-Api-Key") + h.Get("X-Goog-Api-Key")
			if !strings.HasSuffix(got, want) {
				t.Errorf("%s: the key of request %d is %q, want %q", form, i, got, want)
			}
			if i == 2 && !strings.Contains(string(r.Body), `"metadata":{"a":"b"}`) {
				t.Errorf("%s: the options are not sent", form)
			}
		}
	}
}

// Whoever cannot have a model is told why, and what to do.
func TestCatalog_refuses(t *testing.T) {
	const text = a + "\nkey_env = \"KEY\"\n[models.b]\nformat = \"openai\"\nkey_secret = \"KEY\""
	away := &haft.Error{Code: haft.CodeUnavailable, Message: "the database is away"}
	secretOf := func(v string, err error) modelfile.CatalogConfig {
		return modelfile.CatalogConfig{Secret: func(context.Context, string, string) (secret.Value, error) {
			return secret.New(v), err
		}}
	}
	for _, test := range []struct {
		name, model string
		cfg         modelfile.CatalogConfig
		code        haft.Code
		says        string
	}{
		{"another name", "c", modelfile.CatalogConfig{}, haft.CodeNotFound, "there are a, b"},
		{"no variable", "a", modelfile.CatalogConfig{}, haft.CodeNotFound, "the model a has no key: set the"},
		{"a blank variable", "a", modelfile.CatalogConfig{Getenv: environment("KEY", " \n")}, haft.CodeNotFound, "KEY"},
		{"no secrets", "b", modelfile.CatalogConfig{}, haft.CodeNotFound, "use key_env"},
		{"no secret", "b", secretOf("", &haft.Error{Code: haft.CodeNotFound}), haft.CodeNotFound, "secret set KEY"},
		{"an empty secret", "b", secretOf("", nil), haft.CodeNotFound, "haft secret set KEY"},
		{"a secret that cannot be read", "b", secretOf(key, away), haft.CodeUnavailable, "the database is away"},
	} {
		c := catalog(t, text, test.cfg)
		_, err := c.Model(t.Context(), haft.Principal{Org: "acme"}, test.model)
		if haft.CodeOf(err) != test.code || !strings.Contains(haft.MessageOf(err), test.says) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
		for _, m := range c.List(t.Context(), "acme") {
			if m.Name == test.model && !strings.Contains(m.Unavailable, test.says) {
				t.Errorf("%s: the list says %q", test.name, m.Unavailable)
			}
		}
	}
	for _, test := range []struct{ host, says string }{{"", "--models"}, {"http://10.0.0.1", "ollama is left out"}} {
		f, err := modelfile.Load("", environment("OLLAMA_HOST", test.host))
		if err != nil {
			t.Fatal(err)
		}
		none, err := modelfile.NewCatalog(f, modelfile.CatalogConfig{Getenv: environment()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = none.Model(t.Context(), haft.Principal{Org: "acme"}, "")
		if haft.CodeOf(err) != haft.CodeNotFound || !strings.Contains(err.Error(), "no model is configured: set") ||
			!strings.Contains(err.Error(), test.says) || len(none.List(t.Context(), "acme")) != 0 {
			t.Errorf("without models the error is %v", err)
		}
	}
	if _, err := modelfile.NewCatalog(&modelfile.File{}, modelfile.CatalogConfig{}); err == nil {
		t.Error("a catalog without an environment is made")
	}
}

// Neither a key nor an address is in what is shown.
func TestCatalog_shows_no_secret(t *testing.T) {
	c := catalog(t, a+"\nkey_env = \"KEY\"\nurl = \"https://gateway.example/path-"+key+"/v1\"",
		modelfile.CatalogConfig{Getenv: environment("KEY", key)})
	raw, err := json.Marshal(c.List(t.Context(), "acme"))
	if err != nil || strings.Contains(string(raw), key) || strings.Contains(string(raw), "gateway") {
		t.Errorf("the list is %s, %v", raw, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.toml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", 40_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{large: "65536 is the most", dir: "cannot be read",
		filepath.Join(dir, "none"): "cannot be read"} {
		if _, err := modelfile.Load(path, environment()); haft.CodeOf(err) != haft.CodeInvalid ||
			!strings.Contains(haft.MessageOf(err), says) {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
	// A file replaces the environment.
	f, err := modelfile.Load("testdata/models.toml", environment("GEMINI_API_KEY", key))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := f.Find("gemini"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the environment adds %v", m)
	}
}

func TestHTTPClient(t *testing.T) {
	c, proxied := modelfile.HTTPClient()
	if c.Timeout != 0 || !proxied {
		t.Errorf("answers end after %v, proxies are used: %v", c.Timeout, proxied)
	}
}

// A model is found by its name, by that of its vendor, and by a provider before either.
func TestFind(t *testing.T) {
	f, err := modelfile.Load("testdata/models.toml", environment())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "claude", "gpt": "gpt", "gpt-5.5": "gpt", "openai/gpt-5.5": "gpt",
		"openai/gpt": "gpt", "anthropic/claude-sonnet-5": "claude", "local/gpt-oss:20b": "local",
		"openai/gpt-oss:20b": "local", "anthropic/gpt-5.5": "", "openai/": "", "/gpt": "", "gpt/": "", "/": "",
		"openai": "", "google_ai/gpt": "", "openai/openai/gpt": ""} {
		m, err := f.Find(name)
		if m.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, want %q: %v", name, m.Name, want, err)
		}
	}
	gemini := haft.Model{Name: "g", Model: "gemini-flash-latest", Provider: "gemini"}
	if !gemini.Is("google_ai/gemini-flash-latest") || gemini.Is("google_ai/g2") {
		t.Error("a handle of Letta for Gemini")
	}
}

// Only a file names an endpoint of embeddings, and the key is that of the organisation as it is now.
func TestCatalog_embeddings(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got = fmt.Sprint(r.URL, " ", r.Header.Get("Authorization"), " ", string(body), err)
		_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[0,1]}]}`)
	}))
	defer server.Close()
	c := catalog(t, a+"\n[embeddings]\nmodel = \"m\"\nkey_secret = \"KEY\"\ndimensions = 2\nurl = \""+server.URL+"/x\"",
		modelfile.CatalogConfig{Secret: func(_ context.Context, org, _ string) (secret.Value, error) {
			if org == "" {
				return secret.Value{}, &haft.Error{Code: haft.CodeNotFound}
			}
			return secret.New("sk-" + org), nil
		}})
	e, err := c.Embedder()
	if err != nil || e.Model() != "m" {
		t.Fatalf("the endpoint is %v, %v", e, err)
	}
	v, err := e.Embed(t.Context(), "acme", []string{"tea"})
	if err != nil || len(v) != 1 || got != `/x/embeddings Bearer sk-acme {"dimensions":2,"input":["tea"],"model":"m"}<nil>` {
		t.Errorf("the request is %s, the vectors are %v, %v", got, v, err)
	}
	if _, err := e.Embed(t.Context(), "", []string{"tea"}); haft.CodeOf(err) != haft.CodeNotFound ||
		!strings.Contains(err.Error(), "haft secret set KEY") {
		t.Errorf("without a key the error is %v", err)
	}
	file := modelfile.FromEnvironment(environment("OPENAI_API_KEY", key))
	none, err := modelfile.NewCatalog(file, modelfile.CatalogConfig{Getenv: environment()})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := none.Embedder(); e != nil || err != nil {
		t.Errorf("the environment has the endpoint %v, %v", e, err)
	}
}

// Models are sent images by default where the format is that of a vendor whose models see them.
func TestCatalog_images(t *testing.T) {
	c := catalog(t, `
[models.openai]
format = "openai"
[models.openai-seeing]
format = "openai"
images = true
[models.openai-responses]
format = "openai-responses"
[models.anthropic]
format = "anthropic"
[models.gemini]
format = "gemini"
[models.gemini-blind]
format = "gemini"
images = false
`, modelfile.CatalogConfig{})
	for name, want := range map[string]int{"openai": 0, "openai-seeing": 4, "openai-responses": 4, "anthropic": 4,
		"gemini": 3, "gemini-blind": 0} {
		m, err := c.Model(t.Context(), haft.Principal{Org: "acme"}, name)
		if err != nil || len(m.Images) != want {
			t.Errorf("%s is sent %q, %v", name, m.Images, err)
		}
	}
}
