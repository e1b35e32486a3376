package egress_test

import (
	"compress/gzip"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"haft"
	"haft/internal/egress"
)

// fetch reads url with the client of g.
func fetch(t testing.TB, g *egress.Guard, url string, header http.Header) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := g.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// rootsOf returns a pool that trusts a test server.
func rootsOf(s *httptest.Server) *egress.TLS {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &egress.TLS{Roots: pool}
}

func TestClient_follows_only_what_the_guard_allows(t *testing.T) {
	_, resolver := serveDNS(t, map[string][]string{"a.example": {"127.0.0.1"}, "b.example": {"127.0.0.1"},
		"sub.a.example": {"127.0.0.1"}, "evil.example": {"10.0.0.7"}})
	var got http.Header
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		fmt.Fprint(w, "fine")
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	g := egress.New(egress.Config{Allow: loopback, Resolver: resolver})
	defer g.CloseIdle()
	base := "http://a.example:" + port

	for to, rule := range map[string]string{
		"http://10.0.0.7/":                         egress.RuleRange,
		"http://169.254.169.254/latest/meta-data/": egress.RuleRange,
		"http://[::1]:" + port + "/ok":             egress.RuleRange,
		"http://[::ffff:10.0.0.7]/":                egress.RuleRange,
		"http://127.1:" + port + "/ok":             egress.RuleName,
		"http://2130706433:" + port + "/ok":        egress.RuleName,
		"http://evil.example/":                     egress.RuleRange,
		"http://metadata.google.internal/":         egress.RuleName,
		"file:///etc/passwd":                       egress.RuleScheme,
		"gopher://a.example/":                      egress.RuleScheme,
		base + "/loop":                             egress.RuleRedirects,
	} {
		_, err := fetch(t, g, base+"/to?u="+to, nil)
		if err == nil {
			t.Errorf("followed a redirect to %s", to)
			continue
		}
		if r := refusalIn(t, err); r.Rule != rule {
			t.Errorf("redirect to %s: rule %q (%v), want %q", to, r.Rule, err, rule)
		}
	}
	if body, err := fetch(t, g, base+"/to?u=/ok", http.Header{"Authorization": {"Bearer x"}}); err != nil ||
		body != "fine" || got.Get("Authorization") == "" {
		t.Errorf("a redirect on the same host: %q, %v, Authorization %q", body, err, got.Get("Authorization"))
	}
	for _, other := range []string{"b.example", "sub.a.example"} {
		h := http.Header{"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "X-Api-Key": {"k"}, "X-Other": {"o"}}
		if _, err := fetch(t, g, base+"/to?u=http://"+other+":"+port+"/ok", h); err != nil {
			t.Fatal(err)
		}
		if got.Get("Authorization")+got.Get("Cookie")+got.Get("X-Api-Key") != "" || got.Get("X-Other") != "o" {
			t.Errorf("%s got %v", other, got)
		}
	}
}

func TestClient_does_not_step_down_from_https(t *testing.T) {
	plain := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") }))
	defer plain.Close()
	s := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, plain.URL, http.StatusFound)
		}))
	defer s.Close()
	g := egress.New(egress.Config{Allow: loopback, TLS: rootsOf(s)})
	defer g.CloseIdle()
	_, err := fetch(t, g, s.URL, nil)
	if r := refusalIn(t, err); r.Rule != egress.RuleScheme {
		t.Errorf("rule %q, want %q", r.Rule, egress.RuleScheme)
	}
	g = egress.New(egress.Config{Allow: loopback, TLS: rootsOf(s), Downgrade: true})
	defer g.CloseIdle()
	if body, err := fetch(t, g, s.URL, nil); err != nil || body != "plain" {
		t.Errorf("with Downgrade: %q, %v", body, err)
	}
	if _, err := fetch(t, egress.New(egress.Config{Allow: loopback}), s.URL, nil); err == nil {
		t.Error("a certificate that nobody vouches for was believed")
	}
}

func TestClient_is_bounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 100<<10))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			z.Close()
		case "/just":
			_, _ = w.Write(make([]byte, 1000))
		default:
			_, _ = w.Write(make([]byte, 1001))
		}
	}))
	defer s.Close()
	g := egress.New(egress.Config{Allow: loopback, MaxBytes: 1000, MaxHeaderBytes: 10 << 10})
	defer g.CloseIdle()
	if body, err := fetch(t, g, s.URL+"/just", nil); err != nil || len(body) != 1000 {
		t.Errorf("a body that just fits: %d bytes, %v", len(body), err)
	}
	for _, path := range []string{"/long", "/bomb"} {
		body, err := fetch(t, g, s.URL+path, nil)
		if haft.CodeOf(err) != haft.CodeDenied || len(body) != 1000 {
			t.Errorf("%s: %d bytes, %v", path, len(body), err)
		}
	}
	if _, err := fetch(t, g, s.URL+"/header", nil); err == nil {
		t.Error("a header that is too long was read")
	}
}

func TestClient_ignores_the_proxy_of_the_environment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "direct") }))
	defer s.Close()
	_, resolver := serveDNS(t, map[string][]string{"a.example": {"127.0.0.1"}})
	g := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: resolver})
	defer g.CloseIdle()
	if body, err := fetch(t, g, strings.Replace(s.URL, "127.0.0.1", "a.example", 1), nil); err != nil ||
		body != "direct" {
		t.Errorf("got %q, %v", body, err)
	}
}
