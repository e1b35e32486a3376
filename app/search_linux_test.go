package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

// searching opens a market whose https server is a provider of searches that repeats
// the key that it was given.
func searching(t *testing.T, provider, key string) *market {
	t.Helper()
	handle := func(w http.ResponseWriter, r *http.Request) bool {
		got := r.Header.Get("X-Subscription-Token") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if strings.HasPrefix(r.URL.Query().Get("q"), "redirect ") {
			http.Redirect(w, r, "https://other.example"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		w.Header().Set("X-Echo", got)
		one := fmt.Sprintf(`[{"title":"t %s","url":"https://a.example/?k=%s","description":"%x","content":"%x"}]`, got,
			got, got, got)
		fmt.Fprintf(w, `{"web":{"results":%s},"results":%s}`, one, one)
		return true
	}
	return openMarket(t, handle,
		app.ServiceConfig{Search: app.SearchConfig{Provider: provider, URL: "https://api.example:{https}",
			Key: secret.New(key)}})
}

// A key of the web search that is bound to the provider gets there, over https, and
// the search never has it, whatever the provider repeats; the audit names it.
func TestWebSearch_with_a_bound_key(t *testing.T) {
	for provider, tt := range map[string]struct {
		name string
		to   secret.Binding
		got  func(*http.Request) string
	}{
		"brave": {"BRAVE_API_KEY", secret.Binding{Header: "X-Subscription-Token"},
			func(r *http.Request) string { return r.Header.Get("X-Subscription-Token") }},
		"tavily": {"TAVILY_API_KEY", secret.Binding{Header: "Authorization", Prefix: "Bearer "},
			func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") }},
	} {
		t.Run(provider, func(t *testing.T) {
			const plain = "plain-key-of-the-organisation-4711"
			m := searching(t, provider, "")
			ask := func(query string) (*haft.Result, []*http.Request) {
				t.Helper()
				before := len(m.requests())
				res := m.do(root(), "web_search", map[string]string{"query": query}, nil)
				search(t, "the result", fmt.Appendf(nil, "%s %+v %v", res.Value, res.Error, res.Notices),
					map[string]string{tt.name: brokered})
				return res, m.requests()[before:]
			}
			m.bind("", tt.name, brokered, tt.to)
			if res, sent := ask("x"); res.Status != haft.StatusSuccess || len(sent) != 1 ||
				tt.got(sent[0]) != brokered || !strings.Contains(string(res.Value), "a.example") {
				t.Errorf("with a bound key: %s %s %+v %v; sent %v", res.Status, res.Value, res.Error, res.Notices, sent)
			}
			if all := m.audit(); !strings.Contains(all, `"secrets":["`+tt.name+`"]`) ||
				!strings.Contains(all, "api.example:"+m.https) {
				t.Errorf("the audit does not name the secret and where it went: %.2000s", all)
			}
			if res, sent := ask("redirect me"); provider == "brave" && (res.Error == nil || len(sent) != 1) {
				t.Errorf("a redirect was followed: %s %s; sent %v", res.Status, res.Value, sent)
			}
			// Bound elsewhere, or to another place of the request, it is not sent.
			for _, to := range []secret.Binding{{Hosts: m.hosts("other.example"), Header: tt.to.Header,
				Prefix: tt.to.Prefix}, {Header: "X-Other"}} {
				m.bind("", tt.name, brokered, to)
				if res, sent := ask("x"); res.Error == nil || len(sent) != 0 ||
					!strings.Contains(fmt.Sprint(res.Error, res.Notices), tt.name) {
					t.Errorf("bound to %v: %s %s, notices %v; sent %v", to, res.Status, res.Value, res.Notices, sent)
				}
			}
			// One that is not bound goes as it did.
			m.bind("", tt.name, plain, secret.Binding{Hosts: []string{}})
			if res, sent := ask("x"); res.Error == nil || len(sent) != 0 ||
				!strings.Contains(res.Error.Message, "not public") {
				t.Errorf("unbound, to where the search may not go by itself: %s %+v; sent %v", res.Status, res.Error,
					sent)
			}
			searchFiles(t, m.dir, map[string]string{tt.name: brokered})
		})
	}
}

// Where policy does not let tools go, a bound key does not go either.
func TestWebSearch_with_a_bound_key_is_under_policy(t *testing.T) {
	m := searching(t, "brave", "")
	m.bind("", "BRAVE_API_KEY", brokered, secret.Binding{Header: "X-Subscription-Token"})
	_, err := m.PutPolicy(t.Context(), root(), false,
		haft.PolicyText{Text: []byte("version: 1\nrules:\n  - {id: all, effect: allow}\n  - {id: few, effect: " +
			"limit, network: [somewhere.example]}\n")})
	must(t, err)
	res := m.do(root(), "web_search", map[string]string{"query": "x"}, nil)
	if res.Status != haft.StatusDenied || len(m.requests()) != 0 {
		t.Errorf("%s %s %+v; sent %v", res.Status, res.Value, res.Error, m.requests())
	}
}
