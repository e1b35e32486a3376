package builtin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
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

// all are all options of a search.
func all() map[string]any {
	return map[string]any{"query": "x", "num_results": 30, "category": "news", "include_text": true,
		"include_summary": true, "include_domains": []string{" A.example", "b.example"},
		"exclude_domains": []string{"c.example"}, "start_published_date": "2026-01-02T00:00:00.000Z",
		"end_published_date": "2026-02-03", "user_location": "us"}
}

// Each option gets to a provider that has it, and is refused for the others by name.
func TestWebSearch_options(t *testing.T) {
	for provider, tt := range map[string]struct {
		lacks []string
		want  string // of the query or the body
	}{
		"exa": {nil, `{"category":"news","contents":{"summary":{},"text":{"maxCharacters":10000}},"endPublishedDate":"2026-02-03","excludeDomains":["c.example"],"includeDomains":["a.example","b.example"],"numResults":30,"query":"x","startPublishedDate":"2026-01-02","type":"auto","userLocation":"US"}`},
		"tavily": {[]string{"include_summary", "user_location"},
			`{"end_date":"2026-02-03","exclude_domains":["c.example"],"include_domains":["a.example","b.example"],"include_raw_content":"text","max_results":20,"query":"x","start_date":"2026-01-02","topic":"news"}`},
		"brave": {[]string{"category", "include_text", "include_summary"},
			"count=20&country=US&freshness=2026-01-02to2026-02-03&" +
				"q=x (site:a.example OR site:b.example) -site:c.example"},
		"searxng": {[]string{"include_text", "include_summary", "include_domains", "exclude_domains",
			"start_published_date", "end_published_date", "user_location"}, "categories=news&format=json&q=x"},
	} {
		t.Run(provider, func(t *testing.T) {
			var got string
			s, _ := engineOf(t, provider, "key-of-the-server", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = string(body)
				if q, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
					got += q
				}
				fmt.Fprintf(w, `{"results":[{"title":"t","url":"https://a.example/","text":%q,"summary":"short"}]}`,
					strings.Repeat("x", 20_000))
			})
			args := all()
			for _, option := range tt.lacks {
				res := execute(t, s, "web_search", map[string]any{"query": "x", option: args[option]}, nil)
				if res.Error == nil || !strings.Contains(res.Error.Message, provider) ||
					!strings.Contains(res.Error.Message, option) || !strings.Contains(res.Error.Message, "exa") {
					t.Errorf("%s: %s %+v", option, res.Status, res.Error)
				}
			}
			if got != "" {
				t.Errorf("the provider was asked %s", got)
			}
			for _, option := range tt.lacks {
				delete(args, option)
			}
			res := execute(t, s, "web_search", args, nil)
			if got != tt.want || res.Error != nil {
				t.Errorf("the provider was asked %s, want %s; %+v", got, tt.want, res.Error)
			}
			if provider == "exa" && (!strings.Contains(string(res.Value), `"summary":"short"`) ||
				!strings.Contains(string(res.Value), `"text":"`+strings.Repeat("x", 10_000)+`"`)) {
				t.Errorf("the value is %.300s", res.Value)
			}
		})
	}
}

func TestWebSearch_refuses_options(t *testing.T) {
	s, _ := engineOf(t, "exa", "key-of-the-server",
		func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for name, args := range map[string]map[string]any{
		"a URL for a domain":     {"include_domains": []string{"https://a.example/x"}},
		"words for a domain":     {"exclude_domains": []string{"a.example OR site:evil.example"}},
		"an option for a domain": {"include_domains": []string{"-a.example"}},
		"too many domains":       {"include_domains": slices.Repeat([]string{"a.example"}, 51)},
		"a date":                 {"start_published_date": "yesterday"},
		"a date of nowhen":       {"end_published_date": "2026-02-31"},
		"a place":                {"user_location": "Berlin"},
		"a category":             {"category": "gossip"},
	} {
		args["query"] = "x"
		if res := execute(t, s, "web_search", args, nil); res.Error == nil || res.Error.Kind != haft.FailValidation {
			t.Errorf("%s: %s %+v", name, res.Status, res.Error)
		}
	}
}

// Without a provider, the key of the caller chooses one; who has none cannot search, and is told how to.
func TestWebSearch_without_a_provider(t *testing.T) {
	guard := egress.New(egress.Config{})
	t.Cleanup(guard.CloseIdle)
	s := builtin.New()
	if err := builtin.WebSearch(s, builtin.SearchConfig{Client: guard.Client()}); err != nil {
		t.Fatal(err)
	}
	to := ""
	res := execute(t, s, "web_search", map[string]any{"query": "x"}, func(r *executor.Request) {
		r.Env = map[string]string{"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k"}
		r.Egress = func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				to = r.URL.Host
				return nil, io.EOF
			})
		}
	})
	if to != "api.tavily.com" || res.Error == nil {
		t.Errorf("it asked %q: %+v", to, res.Error)
	}
	if res := execute(t, s, "web_search", map[string]any{"query": "x"}, nil); res.Error == nil ||
		!strings.Contains(res.Error.Message, "EXA_API_KEY") {
		t.Errorf("without a key: %+v", res.Error)
	}
	fixed, _ := engineOf(t, "brave", "", nil)
	keyed, _ := engineOf(t, "brave", "key", nil)
	free, _ := engineOf(t, "searxng", "", nil)
	for i, tt := range []struct {
		set       *builtin.Set
		has, want string
	}{
		{s, "", "HAFT_SEARCH_PROVIDER"}, {s, "BRAVE_API_KEY", ""}, {s, "OTHER_KEY", "EXA_API_KEY"},
		{fixed, "", "BRAVE_API_KEY"}, {fixed, "BRAVE_API_KEY", ""}, {fixed, "EXA_API_KEY", "HAFT_SEARCH_KEY"},
		{keyed, "", ""}, {free, "", ""},
	} {
		why := tt.set.Unavailable("web_search", func(v string) bool { return v == tt.has })
		if (why == "") != (tt.want == "") || !strings.Contains(why, tt.want) {
			t.Errorf("case %d: %q, want %q", i, why, tt.want)
		}
	}
}

// roundTrip is a transport that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
