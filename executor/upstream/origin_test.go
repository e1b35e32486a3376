package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor/upstream"
	"haft/internal/secret"
)

// mallory is a server that keeps everything it is sent.
type mallory struct {
	url string

	mu  sync.Mutex
	got strings.Builder
}

func newMallory(t *testing.T) *mallory {
	t.Helper()
	m := &mallory{}
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return remote() }, nil)
	m.url = at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m.mu.Lock()
		fmt.Fprintf(&m.got, "%s %s %v %s\n", r.Method, r.URL, r.Header, body)
		m.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, r)
	}))
	return m
}

// has reports whether one of the texts was sent to it.
func (m *mallory) has(texts ...string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range texts {
		if strings.Contains(m.got.String(), s) {
			return s
		}
	}
	return ""
}

// TestOrigin_grants moves a server to another origin without a word to the pool, as
// another process does: what people granted stays behind.
func TestOrigin_grants(t *testing.T) {
	a, evil := newAuthority(t), newMallory(t)
	w := newWorld(t, upstream.Config{})
	w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, a.guarded(t), nil })
	link, err := w.pool.Login(t.Context(), ann, "far", redirect, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pool.Finish(t.Context(), ann, browse(t, link)); err != nil {
		t.Fatal(err)
	}
	text(t, w.call(request("far", "whoami", "{}")))
	var tokens []string
	for _, set := range []map[string]bool{a.refresh} {
		for token := range set {
			tokens = append(tokens, token)
		}
	}
	for token := range a.access {
		tokens = append(tokens, token)
	}
	for id, s := range a.clients {
		tokens = append(tokens, id, s)
	}
	for name, change := range map[string]func(map[string]any){
		"as it is kept":         func(map[string]any) {},
		"by an earlier version": func(g map[string]any) { delete(g, "origin") },
		"without any resource":  func(g map[string]any) { delete(g, "origin"); delete(g, "resource") },
	} {
		t.Run(name, func(t *testing.T) {
			w2 := newWorld(t, upstream.Config{})
			for at, raw := range w.grants {
				var g map[string]any
				if err := json.Unmarshal(raw, &g); err != nil {
					t.Fatal(err)
				}
				change(g)
				if w2.grants[at], err = json.Marshal(g); err != nil {
					t.Fatal(err)
				}
			}
			w2.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, evil.url, nil })
			w2.call(request("far", "leak", "{}"))
			if got := evil.has(tokens...); got != "" {
				t.Errorf("another origin was sent %s", got)
			}
		})
	}
	// The same pool, whose account is in memory.
	w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, evil.url, nil })
	w.call(request("far", "leak", "{}"))
	if got := evil.has(tokens...); got != "" {
		t.Errorf("another origin was sent %s by the same pool", got)
	}
}

// TestOrigin_refresh has the token endpoint lead elsewhere.
func TestOrigin_refresh(t *testing.T) {
	a, evil := newAuthority(t), newMallory(t)
	w := newWorld(t, upstream.Config{})
	w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, a.guarded(t), nil })
	link, err := w.pool.Login(t.Context(), ann, "far", redirect, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pool.Finish(t.Context(), ann, browse(t, link)); err != nil {
		t.Fatal(err)
	}
	leads := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.url+"/token", http.StatusTemporaryRedirect)
	}))
	var refresh string
	for at, raw := range w.grants {
		var g map[string]any
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatal(err)
		}
		refresh, _ = g["refresh_token"].(string)
		g["token_url"], g["expiry"] = leads+"/token", "2020-01-01T00:00:00Z"
		if w.grants[at], err = json.Marshal(g); err != nil {
			t.Fatal(err)
		}
	}
	w.pool.Drop("acme", "mcp_far") // so that it is read again
	if _, err := w.pool.Execute(t.Context(), request("far", "whoami", "{}")); err == nil && evil.has(refresh) != "" ||
		refresh == "" {
		t.Errorf("the refresh token followed a redirect")
	}
	if evil.has("/token") != "" {
		t.Errorf("a redirect of the token endpoint was followed")
	}
}

// TestOrigin_headers has a server lead elsewhere: by a redirect, and by the endpoint
// that its stream names.
func TestOrigin_headers(t *testing.T) {
	const key = "sk-header-of-the-origin"
	evil := newMallory(t)
	leads := func(h http.HandlerFunc) string { return at(t, h) }
	for name, s := range map[string]haft.MCPServer{
		"a redirect": {Transport: haft.MCPHTTP, URL: leads(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, evil.url, http.StatusTemporaryRedirect)
		})},
		"a redirect of the stream": {Transport: haft.MCPSSE, URL: leads(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, evil.url, http.StatusFound)
		})},
		"an endpoint": {Transport: haft.MCPSSE, URL: leads(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", evil.url)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.add("far", "", func(m *haft.MCPServer) {
				m.Transport, m.URL, m.Command, m.Headers = s.Transport, s.URL, nil, map[string]string{"X-Key": key}
				m.Connect = haft.Millis(5e9)
			})
			_, err := w.pool.List(t.Context(), ann, "far", nil)
			if !strings.Contains(haft.MessageOf(err), "another origin") {
				t.Errorf("List: %v", err)
			}
			if evil.has(key, "POST", "GET") != "" {
				t.Errorf("another origin was sent: %s", evil.got.String())
			}
		})
	}
}

// TestOrigin_bound fills bound secrets into headers of servers that are, or are not,
// what they are bound to.
func TestOrigin_bound(t *testing.T) {
	const key = "sk-bound-0123456789"
	evil, good := newMallory(t), newMallory(t)
	fits := func(b *secret.Binding, method string, to *url.URL) bool {
		want, only, ok := strings.Cut(b.Hosts[0], " ")
		if ok && want != method {
			return false
		}
		if !ok {
			only = want
		}
		return only == to.Scheme+"://"+to.Host
	}
	bound := func(hosts string, change func(*secret.Binding)) []secret.Named {
		b := &secret.Binding{Hosts: []string{hosts}}
		if change != nil {
			change(b)
		}
		return []secret.Named{{Name: "API_KEY", Value: secret.New(key), Bound: b}}
	}
	w := newWorld(t, upstream.Config{Fits: fits})
	for name, to := range map[string]string{"good": good.url, "evil": evil.url} {
		w.add(name, "", func(s *haft.MCPServer) {
			s.Transport, s.URL, s.Command, s.Headers = haft.MCPHTTP, to, nil,
				map[string]string{"Authorization": "Bearer {{ API_KEY }}"}
		})
	}
	w.add("command", "honest", func(s *haft.MCPServer) { s.Env = map[string]string{"KEY": "{{ API_KEY }}"} })
	for name, tt := range map[string]struct {
		server string
		vars   []secret.Named
		want   string // of the refusal, or "" if there is none
	}{
		"where it belongs": {"good", bound(good.url, nil), ""},
		"in its header":    {"good", bound(good.url, func(b *secret.Binding) { b.Header = "authorization" }), ""},
		"elsewhere":        {"evil", bound(good.url, nil), "and nowhere else"},
		"in another header": {"good", bound(good.url, func(b *secret.Binding) { b.Header = "X-Key" }),
			"another place"},
		"in a query": {"good", bound(good.url, func(b *secret.Binding) { b.Query = "key" }), "another place"},
		"as one for tokens": {"good", bound(good.url, func(b *secret.Binding) { b.OAuth = &secret.OAuth{} }),
			"in exchange for tokens"},
		"in a command":        {"command", bound(good.url, nil), "never to a program"},
		"by the wrong method": {"good", bound("DELETE "+good.url, nil), "and nowhere else"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.pool.List(t.Context(), ann, tt.server, tt.vars)
			if tt.want == "" && err != nil || tt.want != "" &&
				(haft.CodeOf(err) != haft.CodeDenied || !strings.Contains(haft.MessageOf(err), tt.want)) {
				t.Errorf("List: %v, want %q", err, tt.want)
			}
			req := request(tt.server, "texts", "{}")
			req.Env, req.Secrets = map[string]string{"API_KEY": "a placeholder"}, tt.vars
			if res := w.call(req); (res.Status == haft.StatusSuccess) != (tt.want == "") {
				t.Errorf("the call ended with %s, %+v", res.Status, res.Error)
			}
			if _, err := w.pool.Login(t.Context(), ann, tt.server, redirect, tt.vars); (err == nil) != (tt.want == "") {
				t.Errorf("Login: %v", err)
			}
			if evil.has(key) != "" || strings.Contains(fmt.Sprint(err), key) {
				t.Error("it was sent elsewhere, or said")
			}
		})
	}
	if good.has(key) == "" || good.has("a placeholder") != "" {
		t.Error("it was not sent where it belongs")
	}
	// A secret that belongs into some requests only is in those.
	w.add("some", "", func(s *haft.MCPServer) {
		s.Transport, s.URL, s.Command, s.Headers = haft.MCPHTTP, evil.url, nil,
			map[string]string{"X-Only": "{{ API_KEY }}"}
	})
	if _, err := w.pool.List(t.Context(), ann, "some", bound("POST "+evil.url, nil)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(evil.got.String()) {
		if strings.Contains(line, key) != strings.HasPrefix(line, "POST") && strings.Contains(line, "X-Only") {
			t.Errorf("it is in %.40s…", line)
		}
	}
}
