package builtin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/egress"
	"haft/internal/secret"
)

// engineOf starts a provider over https, and a set that searches with it through
// the guard.
func engineOf(t *testing.T, provider, key string, h http.HandlerFunc) (*builtin.Set, string) {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	guard := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		TLS: &egress.TLS{Roots: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	t.Cleanup(guard.CloseIdle)
	s := builtin.New()
	if err := builtin.WebSearch(s, builtin.SearchConfig{Provider: provider, URL: srv.URL + "/", Key: secret.New(key),
		Client: guard.Client()}); err != nil {
		t.Fatal(err)
	}
	return s, srv.URL
}

// The answers of real providers, in their shapes, come out in one.
func TestWebSearch_speaks_to_providers(t *testing.T) {
	type found struct{ Title, URL, Text, Published string }
	want := []found{{"The <b> tag", "https://a.example/x?y=1", "of great importance", "2026-01-02"},
		{"Two", "http://b.example/", "", ""}}
	for _, tt := range []struct {
		provider, key string
		check         func(r *http.Request, body string) bool
		answer        string
	}{
		{"searxng", "", func(r *http.Request, _ string) bool {
			return r.Method == "GET" && r.URL.Path == "/search" && r.URL.Query().Get("q") == "why & how" &&
				r.URL.Query().Get("format") == "json" && r.Header.Get("Authorization") == ""
		},
			`{"query":"x","results":[{"title":"The &lt;b&gt; tag","url":"https://a.example/x?y=1","content":"of great\n importance","publishedDate":"2026-01-02","engine":"bing","score":1.5},{"title":"Two","url":"http://b.example/","content":null}]}`},
		{"brave", "brave-key-1234", func(r *http.Request, _ string) bool {
			return r.URL.Path == "/res/v1/web/search" && r.URL.Query().Get("q") == "why & how" &&
				r.URL.Query().Get("count") == "2" && r.Header.Get("X-Subscription-Token") == "brave-key-1234"
		},
			`{"type":"search","web":{"results":[{"title":"The &lt;b&gt; tag","url":"https://a.example/x?y=1","description":"of <strong>great</strong> importance","page_age":"2026-01-02"},{"title":"Two","url":"http://b.example/"}]}}`},
		{"tavily", "tvly-key-1234", func(r *http.Request, body string) bool {
			return r.Method == "POST" && r.URL.Path == "/search" &&
				r.Header.Get("Authorization") == "Bearer tvly-key-1234" &&
				strings.Contains(body, `"query":"why \u0026 how"`) && strings.Contains(body, `"max_results":2`)
		},
			`{"results":[{"title":"The &lt;b&gt; tag","url":"https://a.example/x?y=1","content":"of great importance","score":0.9,"published_date":"2026-01-02"},{"title":"Two","url":"http://b.example/","content":""}]}`},
		{"exa", "exa-key-1234", func(r *http.Request, body string) bool {
			return r.Method == "POST" && r.URL.Path == "/search" && r.Header.Get("X-Api-Key") == "exa-key-1234" &&
				strings.Contains(body, `"numResults":2`)
		},
			`{"results":[{"title":"The &lt;b&gt; tag","url":"https://a.example/x?y=1","text":"of great importance","publishedDate":"2026-01-02"},{"title":"Two","url":"http://b.example/"}]}`},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			s, _ := engineOf(t, tt.provider, tt.key, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if !tt.check(r, string(body)) {
					t.Errorf("the provider got %s %s %v %s", r.Method, r.URL, r.Header, body)
				}
				fmt.Fprint(w, tt.answer)
			})
			res := execute(t, s, "web_search", map[string]any{"query": " why & how ", "max_results": 2}, nil)
			var got struct {
				Results []struct {
					Title, URL, Text string
					Published        string `json:"published_date"`
				}
			}
			if err := json.Unmarshal(res.Value, &got); err != nil {
				t.Fatalf("%s %+v: %v", res.Status, res.Error, err)
			}
			var list []found
			for _, r := range got.Results {
				list = append(list, found(r))
			}
			if diff := cmp.Diff(want, list); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A key of the call goes before that of the server, and neither comes back.
func TestWebSearch_keys(t *testing.T) {
	s, _ := engineOf(t, "brave", "key-of-the-server", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"web":{"results":[{"title":"t","url":"https://a.example/","description":"%d"}]}}`,
			len(r.Header.Get("X-Subscription-Token")))
	})
	for env, want := range map[string]string{"": "17", "key-of-the-call": "15"} {
		res := execute(t, s, "web_search", map[string]any{"query": "x"},
			func(r *executor.Request) { r.Env = map[string]string{"BRAVE_API_KEY": env} })
		if !strings.Contains(string(res.Value), `"text":"`+want+`"`) {
			t.Errorf("with the key %q: %s %+v", env, res.Value, res.Error)
		}
	}
	none, _ := engineOf(t, "tavily", "", func(http.ResponseWriter,
		*http.Request) {
		t.Error("it was asked without a key")
	})
	if res := execute(t, none, "web_search", map[string]any{"query": "x"}, nil); res.Error == nil ||
		!strings.Contains(res.Error.Message, "TAVILY_API_KEY") {
		t.Errorf("without a key: %s %+v", res.Status, res.Error)
	}
}

func TestWebSearch_bounds_what_comes(t *testing.T) {
	many := `{"results":[` +
		strings.TrimSuffix(strings.Repeat(`{"title":"t","url":"https://a.example/","content":"`+
			strings.Repeat("x", 5000)+`"},`, 100), ",") + `]}`
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the value or the error
	}{
		{"many and long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, many) },
			`"text":"` + strings.Repeat("x", 2000) + `"`},
		{"other addresses", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w,
				`{"results":[{"title":"t","url":"javascript:alert(1)"},{"title":"f","url":"file:///etc/passwd"},{"title":"u","url":"::"}]}`)
		}, `"results":[]`},
		{"hidden characters", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w,
				"{\"results\":[{\"title\":\"a\u202eb\U000E0041c\",\"url\":\"https://a.example/\",\"content\":\"<script>x</script>d\"}]}")
		}, `"title":"abc"`},
		{"huge", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 5<<20)) },
			"more than"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "cannot be read"},
		{"too often", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "too often"},
		{"no JSON here", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "SearXNG"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "status 500"},
		{"redirect",
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"status 302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := engineOf(t, "searxng", "", tt.answer)
			res := execute(t, s, "web_search", map[string]any{"query": "x", "max_results": 1000}, nil)
			said := string(res.Value)
			if res.Error != nil {
				said = res.Error.Message
			}
			if !strings.Contains(said, tt.want) || strings.Count(said, `"url"`) > 20 {
				t.Errorf("%s %.300s", res.Status, said)
			}
		})
	}
	s, _ := engineOf(t, "searxng", "", func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for _, query := range []string{"", " \n", strings.Repeat("x", 3000)} {
		if res := execute(t, s, "web_search", map[string]any{"query": query}, nil); res.Error == nil {
			t.Errorf("the query of %d bytes: %s", len(query), res.Value)
		}
	}
}

func TestWebSearch_refuses_what_cannot_be(t *testing.T) {
	for name, cfg := range map[string]builtin.SearchConfig{
		"another provider":        {Provider: "altavista"},
		"no address":              {Provider: "searxng"},
		"a password in it":        {URL: "https://a:b@search.example"},
		"an address of a file":    {URL: "file:///etc/passwd"},
		"an address with a query": {URL: "https://search.example/?a=b"},
	} {
		cfg.Client = http.DefaultClient
		if err := builtin.WebSearch(builtin.New(), cfg); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A provider on a private address is for the operator to allow.
	s := builtin.New()
	guard := egress.New(egress.Config{})
	t.Cleanup(guard.CloseIdle)
	if err := builtin.WebSearch(s, builtin.SearchConfig{URL: "http://127.0.0.1:1",
		Client: guard.Client()}); err != nil {
		t.Fatal(err)
	}
	if res := execute(t, s, "web_search", map[string]any{"query": "x"}, nil); res.Error == nil ||
		!strings.Contains(res.Error.Message, "not public") {
		t.Errorf("a private address: %s %+v", res.Status, res.Error)
	}
}
