package modelfile_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/modelfile"
	"haft/schema"
)

const key = "sk-very-secret"

// a is a table to which lines can be added.
const a = "[models.a]\nformat = \"openai\""

func TestParse(t *testing.T) {
	got, err := modelfile.Parse("models.toml", `
default = "local"

[models.claude]
format = "anthropic"
model = "claude-sonnet-5"
key_secret = "ANTHROPIC_KEY"
context_tokens = 200000
max_output_tokens = 8192
price_input = 2
price_output = 10.5
options = { thinking = { type = "adaptive" } }

[models.local]
format = "openai"
url = "http://localhost:11434/v1"

[models."far/away:1.5"]
format = "gemini"
url = "http://10.0.0.1/v1beta"
insecure = true
key_env = "GEMINI_API_KEY"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &modelfile.File{Default: "local", Models: []modelfile.Model{
		{Name: "claude", Format: schema.FormAnthropic, URL: "https://api.anthropic.com/v1", Model: "claude-sonnet-5",
			KeySecret: "ANTHROPIC_KEY", ContextTokens: 200000, MaxOutputTokens: 8192, PriceInput: 2, PriceOutput: 10.5,
			Options: map[string]any{"thinking": map[string]any{"type": "adaptive"}}},
		{Name: "local", Format: schema.FormOpenAI, URL: "http://localhost:11434/v1", Model: "local"},
		{Name: "far/away:1.5", Format: schema.FormGemini, URL: "http://10.0.0.1/v1beta", Model: "far/away:1.5",
			KeyEnv: "GEMINI_API_KEY", Insecure: true},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the models differ (-want +got):\n%s", d)
	}
	if m, err := got.Find(""); err != nil || m.Name != "local" {
		t.Errorf("the default is %v, %v", m, err)
	}
	_, err = got.Find("other")
	if haft.CodeOf(err) != haft.CodeNotFound || !strings.Contains(err.Error(), "claude, local") {
		t.Errorf("a model that is not there gives %v", err)
	}
	if first, err := modelfile.Parse("x", "[models.b]\nformat='openai'\n[models.a]\nformat='openai'"); err != nil ||
		first.Default != "b" {
		t.Errorf("without a default it is %+v, %v", first, err)
	}
}

// A file that is wrong is refused with the line, and without what stands there.
func TestParse_refuses(t *testing.T) {
	for _, test := range []struct{ name, text, says string }{
		{"empty", "", "1 to 100"},
		{"no TOML", "[models.a]\nformat = " + key, "line 2: it is not TOML"},
		{"wrong type", a + "\ncontext_tokens = \"" + key + "\"", "not TOML, or a value"},
		{"a key in the file", a + "\n\nkey = \"" + key + "\"", "line 4: this key is not known"},
		{"a key at the top", "api_key = \"" + key + "\"\n" + a, "line 1: this key is not known"},
		{"a key as variable", a + "\nkey_env = \"" + key + "\"", "line 1: key_env and key_secret"},
		{"a key as secret", "\n" + a + "\nkey_secret = \"" + key + "\"", "line 2: key_env and key_secret"},
		{"both", a + "\nkey_env = \"A\"\nkey_secret = \"B\"", "not both"},
		{"no format", "[models.a]\nmodel = \"x\"", "format is one of"},
		{"other format", "[models.a]\nformat = \"mcp\"", "format is one of"},
		{"name", "[models.\"a b\"]\nformat = \"openai\"", "the name of a model"},
		{"vendor's name", a + "\nmodel = \"a b\"", "the vendor's name"},
		{"http", a + "\nurl = \"http://10.0.0.1/v1\"", "insecure = true"},
		{"http to a name like loopback", a + "\nurl = \"http://127.0.0.1.example/v1\"", "insecure = true"},
		{"scheme", a + "\nurl = \"ftp://a/" + key + "\"", "url is an address"},
		{"password", a + "\nurl = \"https://u:" + key + "@a\"", "no user"},
		{"key in the query", "[models.a]\nformat = \"gemini\"\nurl = \"https://a/v1?key=" + key + "\"", "no user"},
		{"negative", a + "\nmax_output_tokens = -1", "numbers of tokens"},
		{"more output than context", a + "\ncontext_tokens = 5\nmax_output_tokens = 5", "less than"},
		{"price", a + "\nprice_input = nan", "prices"},
		{"default", "default = \"b\"\n" + a, "line 1: default is none"},
		{"options that are no JSON", a + "\noptions = { a = nan }", "options has"},
		{"cached price", a + "\nprice_cached = -1", "prices"},
		{"a key with a quoted name", a + "\n[models.\"a/b\"]\nformat = \"openai\"\nx = 1", "line 5: this key"},
		{"a dotted key", "models.a.format = \"openai\"\nmodels.a.x = 1", "line 2: this key"},
		{"an inline table", "# first\nmodels = { a = { format = \"openai\", x = 1 } }", "line 2: this key"},
		{"a table after a list of lines", a + "\noptions = { a = [\n1,\n2,\n] }\n[models.b]\nformat = \"x\"",
			"line 7: format is one of"},
		{"the last of many lines", strings.Repeat("#\n", 30_000) + a + "\nx = 1", "line 30003: this key"},
		{"large", strings.Repeat("#\n", 40_000), "bytes"},
		{"many", manyModels(), "1 to 100"},
		{"embeddings without a model", a + "\n[embeddings]\nurl = \"https://a\"", "line 3: embeddings have a model"},
		{"negative dimensions", a + "\n[embeddings]\nmodel = \"m\"\ndimensions = -1", "up to 4096 dimensions"},
		{"many dimensions", a + "\n[embeddings]\nmodel = \"m\"\ndimensions = 4097", "up to 4096 dimensions"},
		{"embeddings by http", a + "\n[embeddings]\nmodel = \"m\"\nurl = \"http://10.0.0.1\"", "insecure = true"},
		{"a key of embeddings", a + "\n[embeddings]\nmodel = \"m\"\nkey = \"" + key + "\"", "line 5: this key"},
		{"a key as variable of embeddings", a + "\n[embeddings]\nmodel = \"m\"\nkey_env = \"" + key + "\"",
			"key_env and"},
		{"embeddings alone", "[embeddings]\nmodel = \"m\"", "1 to 100"},
	} {
		began := time.Now()
		_, err := modelfile.Parse("models.toml", test.text)
		// The file of many lines takes longer if its lines are parsed one by one.
		if took := time.Since(began); took > 90*time.Second {
			t.Errorf("%s: it took %v", test.name, took)
		}
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(err.Error(), test.says) ||
			!strings.HasPrefix(err.Error(), "models.toml: ") || strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error is %v, want %q", test.name, err, test.says)
		}
	}
}

func manyModels() string {
	var b strings.Builder
	for i := range 101 {
		fmt.Fprintf(&b, "[models.m%d]\nformat = \"openai\"\n", i)
	}
	return b.String()
}

func TestFromEnvironment(t *testing.T) {
	none := modelfile.FromEnvironment(environment())
	_, err := none.Find("")
	if len(none.Models) != 0 || err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("without variables the models are %+v, %v", none, err)
	}
	all := modelfile.FromEnvironment(environment("OPENAI_API_KEY", key, "ANTHROPIC_API_KEY", key, "GEMINI_API_KEY", key,
		"OLLAMA_HOST", "0.0.0.0"))
	if len(all.Models) != 4 || all.Default != "anthropic" ||
		strings.Contains(fmt.Sprintf("%v %+v %#v", all, all, all), key) {
		t.Errorf("the models are %+v", all)
	}
	for host, want := range map[string]string{
		"127.0.0.1:1234":         "http://127.0.0.1:1234/v1",
		"localhost":              "http://localhost:11434/v1",
		"0.0.0.0:80":             "http://127.0.0.1:80/v1",
		":99":                    "http://127.0.0.1:99/v1",
		"[::1]:80":               "http://[::1]:80/v1",
		"https://ollama.example": "https://ollama.example/v1",
		"http://10.0.0.1":        "",
		"http://[":               "",
	} {
		f := modelfile.FromEnvironment(environment("OLLAMA_HOST", host))
		got := ""
		if m, err := f.Find("ollama"); err == nil {
			got = m.URL
		}
		if got != want || (want == "") != (len(f.Notes) == 1) {
			t.Errorf("OLLAMA_HOST %s gives %q and %q, want %q", host, got, f.Notes, want)
		}
	}
}

// A person names any model of a vendor, and a server that speaks Chat Completions; users of a server do not.
func TestFromEnvironment_any_model(t *testing.T) {
	f := modelfile.FromEnvironment(environment("OPENAI_BASE_URL", "https://a.example/v1", "OLLAMA_HOST", "localhost"))
	for _, test := range []struct{ name, model, url, says string }{
		{"", "gpt-5.5", "https://a.example/v1", ""},
		{"openai/org/large", "org/large", "https://a.example/v1", ""},
		{"ollama/qwen3:8b", "qwen3:8b", "http://localhost:11434/v1", ""},
		{"ollama/", "", "", "such as openai/MODEL"},
		{"gemini/pro", "", "", "there are openai, ollama"},
		{"ollama/a b", "", "", "cannot be used"},
		{"ollama/" + strings.Repeat("a", 200), "", "", "cannot be used"},
	} {
		m, err := f.Find(test.name)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) ||
			m.Model != test.model || m.URL != test.url || m.KeyEnv != "" {
			t.Errorf("%q gives %+v, %v", test.name, m, err)
		}
		if err == nil && m.Format != schema.FormOpenAI {
			t.Errorf("%q speaks %s", test.name, m.Format)
		}
	}
	keyed := modelfile.FromEnvironment(environment("OPENAI_BASE_URL", "https://a.example/v1", "OPENAI_API_KEY", key))
	if m, err := keyed.Find("openai/x"); err != nil || m.KeyEnv != "OPENAI_API_KEY" {
		t.Errorf("with a key the model is %+v, %v", m, err)
	}
	far := modelfile.FromEnvironment(environment("OPENAI_BASE_URL", "http://a.example/v1", "OPENAI_API_KEY", key))
	if len(far.Models) != 0 || len(far.Notes) != 1 {
		t.Errorf("a key is sent without encryption: %+v", far)
	}
	server, err := modelfile.ForServer("env", environment("OLLAMA_HOST", "localhost"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := server.Find("ollama/large"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a user of a server gets %+v, %v", m, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("default = 'a'\n[models.a]\nformat = \"openai\"\nurl = \"https://a\"\noptions = {a = [1]}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := modelfile.Parse("f", text)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if _, err := file.Find(""); err != nil {
			t.Errorf("there is no default: %v", err)
		}
	})
}
