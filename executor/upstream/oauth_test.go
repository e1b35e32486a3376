package upstream_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor/upstream"
)

// authority is an authorisation server: discovery, registration, codes bound to
// PKCE and a resource, tokens that expire, refresh tokens for one use.
type authority struct {
	url      string
	resource string // the server that it is for

	mu       sync.Mutex
	clients  map[string]string     // secret by id
	codes    map[string]url.Values // by code: what was asked for
	access   map[string]time.Time  // ends by token
	refresh  map[string]bool
	lives    time.Duration
	denies   bool
	refreshs int
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{clients: map[string]string{}, codes: map[string]url.Values{}, access: map[string]time.Time{},
		refresh: map[string]bool{}, lives: time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{
			"issuer": a.url, "authorization_endpoint": a.url + "/authorize", "token_endpoint": a.url + "/token",
			"registration_endpoint":    a.url + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"grant_types_supported":                 []string{"authorization_code", "refresh_token"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		var meta map[string]any
		if err := json.NewDecoder(r.Body).Decode(&meta); err != nil {
			write(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
			return
		}
		id := "client-" + rand.Text()
		a.clients[id] = rand.Text()
		meta["client_id"], meta["client_secret"], meta["token_endpoint_auth_method"] = id, a.clients[id],
			"client_secret_basic"
		write(w, http.StatusCreated, meta)
	})
	mux.HandleFunc("/authorize", a.authorize)
	mux.HandleFunc("/token", a.token)
	a.url = at(t, mux)
	return a
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asks is there
}

func (a *authority) authorize(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || a.clients[q.Get("client_id")] == "" || q.Get("code_challenge_method") != "S256" ||
		q.Get("resource") != a.resource {
		http.Error(w, "a bad request", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}}
	if a.denies {
		answer.Set("error", "access_denied")
	} else {
		code := rand.Text()
		a.codes[code] = q
		answer.Set("code", code)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (a *authority) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	no := func(why string) { write(w, http.StatusBadRequest, map[string]any{"error": why}) }
	id, secret, _ := r.BasicAuth()
	if err := r.ParseForm(); err != nil || a.clients[id] == "" || a.clients[id] != secret {
		no("invalid_client")
		return
	}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		asked := a.codes[r.Form.Get("code")]
		delete(a.codes, r.Form.Get("code")) // for one use
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			asked.Get("client_id") != id || r.Form.Get("resource") != a.resource {
			no("invalid_grant")
			return
		}
	case "refresh_token":
		if !a.refresh[r.Form.Get("refresh_token")] || r.Form.Get("resource") != a.resource {
			no("invalid_grant")
			return
		}
		delete(a.refresh, r.Form.Get("refresh_token"))
		a.refreshs++
	default:
		no("unsupported_grant_type")
		return
	}
	access, refresh := rand.Text(), rand.Text()
	a.access[access], a.refresh[refresh] = time.Now().Add(a.lives), true
	write(w, http.StatusOK, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer",
		"expires_in": int(a.lives.Seconds())})
}

// guarded is an MCP server that takes the tokens of an authority only.
func (a *authority) guarded(t *testing.T) string {
	t.Helper()
	s := remote()
	s.AddTool(&mcp.Tool{Name: "whoami", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			sum := sha256.Sum256([]byte(r.Extra.Header.Get("Authorization")))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: hex.EncodeToString(sum[:])}}}, nil
		})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true})
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			write(w, http.StatusOK, map[string]any{"resource": srv.URL + "/mcp",
				"authorization_servers": []string{a.url}, "scopes_supported": []string{"tools"}})
			return
		}
		a.mu.Lock()
		ends, ok := a.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		a.mu.Unlock()
		if !ok || time.Now().After(ends) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+srv.URL+
				`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	a.resource = srv.URL + "/mcp"
	return srv.URL + "/mcp"
}

const redirect = "http://127.0.0.1:9/callback"

// browse opens a link as a browser does, and returns what the redirect came with.
func browse(t *testing.T, link string) haft.MCPAnswer {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := c.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	u, err := resp.Location()
	if err != nil {
		t.Fatalf("the authorisation server says %s", resp.Status)
	}
	q := u.Query()
	return haft.MCPAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

func TestPool_login(t *testing.T) {
	a := newAuthority(t)
	w := newWorld(t, upstream.Config{})
	w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, a.guarded(t), nil })
	whoami := request("far", "whoami", "{}")

	res := w.call(whoami)
	if res.Error == nil || res.Error.Kind != haft.FailLogin ||
		!strings.Contains(res.Error.Message, "haft mcp-server login far") {
		t.Fatalf("a call before the login: %+v", res.Error)
	}
	begin := func() string {
		t.Helper()
		link, err := w.pool.Login(t.Context(), ann, "far", redirect, nil)
		if err != nil || link == "" {
			t.Fatalf("Login = %q, %v", link, err)
		}
		return link
	}
	// The person does not agree.
	a.denies = true
	if err := w.pool.Finish(t.Context(), ann, browse(t, begin())); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Finish of a login that was refused = %v", err)
	}
	a.denies = false
	// Somebody else has got hold of the answer.
	answer := browse(t, begin())
	if err := w.pool.Finish(t.Context(), haft.Principal{Org: "acme", User: "bob"},
		answer); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Finish by another = %v", err)
	}
	if err := w.pool.Finish(t.Context(), ann, haft.MCPAnswer{State: "guessed", Code: answer.Code}); haft.CodeOf(
		err) != haft.CodeNotFound {
		t.Errorf("Finish with a state that was guessed = %v", err)
	}
	if err := w.pool.Finish(t.Context(), ann, answer); err != nil {
		t.Fatalf("Finish = %v", err)
	}
	if err := w.pool.Finish(t.Context(), ann, answer); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Finish with an answer that was used = %v", err)
	}
	first := text(t, w.call(whoami))
	for token := range a.access {
		if got := text(t, w.call(request("far", "leak", "{}"))); strings.Contains(got, token) {
			t.Errorf("the server gives the token away: %q", got)
		}
	}
	// It is ann's, and nobody else's.
	bobs := whoami
	bobs.Principal.User = "bob"
	if res := w.call(bobs); res.Error == nil || res.Error.Kind != haft.FailLogin {
		t.Errorf("a call of somebody else: %+v", res)
	}
	// The token ends before its time: it is refreshed.
	a.mu.Lock()
	clear(a.access)
	a.mu.Unlock()
	second := text(t, w.call(whoami))
	if second == first || a.refreshs != 1 {
		t.Errorf("after the end of the token: %q, then %q, with %d refreshs", first, second, a.refreshs)
	}
	// A pool that is started later reads what was kept.
	w2 := newWorld(t, upstream.Config{})
	w2.servers, w2.grants = w.servers, w.grants
	if got := text(t, w2.call(whoami)); got != second {
		t.Errorf("another pool sends %q, want %q", got, second)
	}
	// What was granted is taken back: a person has to agree again.
	a.mu.Lock()
	clear(a.access)
	clear(a.refresh)
	a.mu.Unlock()
	if res := w.call(whoami); res.Error == nil || res.Error.Kind != haft.FailLogin {
		t.Errorf("after it was taken back: %+v", res.Error)
	}
}

func TestPool_refreshes_before_the_end(t *testing.T) {
	a := newAuthority(t)
	a.lives = 10 * time.Second // which is less than tokens are refreshed before their end
	w := newWorld(t, upstream.Config{})
	w.add("far", "", func(s *haft.MCPServer) { s.Transport, s.URL, s.Command = haft.MCPHTTP, a.guarded(t), nil })
	link, err := w.pool.Login(t.Context(), ann, "far", redirect, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pool.Finish(t.Context(), ann, browse(t, link)); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.lives = time.Hour
	a.mu.Unlock()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { w.call(request("far", "whoami", "{}")) })
	}
	all.Wait()
	if a.refreshs != 1 {
		t.Errorf("%d refreshs for calls at once, want 1", a.refreshs)
	}
}

func TestPool_login_is_refused(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.add("open", "", func(s *haft.MCPServer) {
		srv := remote()
		s.Transport, s.Command = haft.MCPHTTP, nil
		s.URL = at(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	})
	w.add("command", "honest", nil)
	if link, err := w.pool.Login(t.Context(), ann, "open", redirect, nil); err != nil || link != "" {
		t.Errorf("Login at a server that wants none = %q, %v", link, err)
	}
	if _, err := w.pool.Login(t.Context(), ann, "command", redirect, nil); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Login at a command = %v", err)
	}
	for _, bad := range []string{"", "http://evil.example/", "https://user@host/", "javascript:alert(1)",
		"http://127.0.0.1:1/#x", "http://localhost.evil.example/"} {
		if _, err := w.pool.Login(t.Context(), ann, "open", bad, nil); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("Login with redirect %q = %v", bad, err)
		}
	}
}

// TestPool_login_keeps_to_the_server_that_it_began_with: the server gets another
// address and another client while a login at the first begins. The second client's
// id and secret are not for the first server's authorisation server.
func TestPool_login_keeps_to_the_server_that_it_began_with(t *testing.T) {
	a := newAuthority(t)
	a.clients["one"], a.clients["two"] = "first secret", "second secret"
	w := newWorld(t, upstream.Config{})
	open := remote()
	second := at(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return open }, nil))
	target, err := url.Parse(a.guarded(t))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	first := at(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			once.Do(func() { // the login asks for the first time
				w.add("far", "", func(s *haft.MCPServer) {
					s.Transport, s.URL, s.Command = haft.MCPHTTP, second, nil
					s.OAuth = &haft.MCPOAuth{ClientID: "two", ClientSecret: "second secret"}
				})
				w.call(request("far", "whoami", "{}"))
			})
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.add("far", "", func(s *haft.MCPServer) {
		s.Transport, s.URL, s.Command = haft.MCPHTTP, first+"/mcp", nil
		s.OAuth = &haft.MCPOAuth{ClientID: "one", ClientSecret: "first secret"}
	})
	link, err := w.pool.Login(t.Context(), ann, "far", redirect, nil)
	if err != nil || !strings.Contains(link, "client_id=one&") {
		t.Errorf("the login at the first server is not with its client: %s, %v", link, err)
	}
}
