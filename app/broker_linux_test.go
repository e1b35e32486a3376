package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/egress"
	"haft/internal/secret"
)

// directory is a resolver under which every name below .example is this machine.
type directory struct{}

func (directory) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if strings.HasSuffix(strings.TrimSuffix(host, "."), ".example") {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// certificate makes one for names, and a pool that trusts it.
func certificate(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// A market is a service with servers outside, over http and https, that repeat all
// that they are sent.
type market struct {
	*app.Service
	t           *testing.T
	dir         string
	logs        *buffer
	http, https string // ports

	mu   sync.Mutex
	seen []*http.Request
}

// openMarket opens one. handle answers before the echo does, if it wants to, and
// {https} in the address of a search is the port.
func openMarket(t *testing.T, handle func(http.ResponseWriter, *http.Request) bool, cfg app.ServiceConfig) *market {
	t.Helper()
	open(t, app.Config{}) // or skip
	m := &market{t: t, dir: t.TempDir(), logs: &buffer{}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.seen = append(m.seen, r.Clone(context.Background()))
		m.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if handle != nil && handle(w, r) {
			return
		}
		all := fmt.Sprint(r.URL.RawQuery, " ", r.Header)
		if u, p, ok := r.BasicAuth(); ok {
			all += " " + u + " " + p
		}
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, "%s\n%s\n%s\n%s", all, strings.ToUpper(all), hex.EncodeToString([]byte(all)),
			base64.StdEncoding.EncodeToString([]byte(all)))
	})
	plain := httptest.NewServer(h)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	cert, roots := certificate(t, "api.example", "other.example", "login.example")
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, m.http, _ = net.SplitHostPort(plain.Listener.Addr().String())
	_, m.https, _ = net.SplitHostPort(secure.Listener.Addr().String())
	cfg.Data, cfg.SelfReview = m.dir, true
	cfg.Logger = slog.New(slog.NewJSONHandler(m.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Egress = egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: directory{},
		TLS: &egress.TLS{Roots: roots}, Mock: cfg.Egress.Mock}
	cfg.Search.URL = strings.ReplaceAll(cfg.Search.URL, "{https}", m.https)
	var err error
	cfg.AllowReduced = true // what a machine gives is what is tried
	m.Service, err = app.OpenService(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// requests returns what the servers got.
func (m *market) requests() []*http.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// hosts are the rules for both servers under a name.
func (m *market) hosts(name string) []string {
	return []string{"http://" + name + ":" + m.http, "https://" + name + ":" + m.https}
}

// bind stores a secret for api.example.
func (m *market) bind(agent, name, value string, b secret.Binding) {
	m.t.Helper()
	if b.Hosts == nil {
		b.Hosts = m.hosts("api.example")
	}
	must(m.t, m.BindSecret(m.t.Context(), root(), agent, name, secret.New(value), &b))
}

// do calls a tool with arguments.
func (m *market) do(who haft.Principal, tool string, args any, env map[string]string) *haft.Result {
	m.t.Helper()
	raw, err := json.Marshal(args)
	must(m.t, err)
	res, err := m.Call(m.t.Context(), haft.Call{Tool: tool, Principal: who, Args: raw, Env: env})
	must(m.t, err)
	return res
}

// audit returns all of it.
func (m *market) audit() string {
	m.t.Helper()
	entries, err := m.Store.Audit.AuditEntries(m.t.Context(), "local", 0, 1000)
	must(m.t, err)
	var all strings.Builder
	for _, e := range entries {
		all.Write(e.Body)
	}
	return all.String()
}

// sender sends what it is told to send, as any tool would.
const sender = `
import base64, json, os, urllib.request, urllib.error, urllib.parse

def send(url: str, name: str, how: str) -> str:
    """Send a variable somewhere.

    Args:
        url: where
        name: the variable
        how: the place
    """
    value, head, data = os.environ[name], {}, None
    if how.startswith("header "): head[how[7:]] = value
    if how == "bearer": head["Authorization"] = "Bearer " + value
    if how == "query": url += "?key=" + urllib.parse.quote(value, safe="")
    if how == "basic": head["Authorization"] = "Basic " + base64.b64encode(("me:" + value).encode()).decode()
    if how == "body": data = value.encode()
    if how == "encoded": data = base64.b64encode(value.encode()) + value.encode().hex().encode()
    if how == "path": url += "/" + value
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=head, data=data), timeout=20) as r:
            return value + " " + str(r.status) + " " + r.read().decode()
    except urllib.error.HTTPError as e:
        return value + " " + str(e.code) + " " + e.read().decode()
`

// sent asks the tool to send a variable, and returns what it had and what it got.
func (m *market) sent(who haft.Principal, url, name, how string,
	env map[string]string) (placeholder, status, body string, res *haft.Result) {
	m.t.Helper()
	res = m.do(who, "send", map[string]string{"url": url, "name": name, "how": how}, env)
	var text string
	if err := json.Unmarshal(res.Value, &text); err != nil || text == "" {
		m.t.Fatalf("sending %s as %s: %s %+v %s", name, how, res.Status, res.Error, res.Stderr)
	}
	parts := append(strings.SplitN(text, " ", 3), "", "")
	return parts[0], parts[1], parts[2], res
}

const brokered = "Zx8Qv1Lm4Rt7/real+Value=99"

// A bound secret gets to its host and place, over http and https, and the tool
// never has it, whatever the server repeats; the audit names it.
func TestService_brokers_stored_secrets(t *testing.T) {
	m := openMarket(t, nil, app.ServiceConfig{})
	put(t, m.Service, sender,
		haft.Settings{Network: append(m.hosts("api.example"), "http://other.example:"+m.http,
			"GET https://other.example:"+m.https), Secrets: []string{"API_KEY"}})
	for _, tt := range []struct {
		how string
		to  secret.Binding
		got func(*http.Request) string
	}{
		{"bearer", secret.Binding{Header: "Authorization", Prefix: "Bearer "},
			func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") }},
		{"header X-Key", secret.Binding{Header: "x-key"},
			func(r *http.Request) string { return r.Header.Get("X-Key") }},
		{"query", secret.Binding{Query: "key"}, func(r *http.Request) string { return r.URL.Query().Get("key") }},
		{"basic", secret.Binding{Basic: "password"},
			func(r *http.Request) string { _, p, _ := r.BasicAuth(); return p }},
	} {
		m.bind("", "API_KEY", brokered, tt.to)
		for _, base := range m.hosts("api.example") {
			before := len(m.requests())
			stand, status, body, res := m.sent(root(), base+"/x", "API_KEY", tt.how, nil)
			if status != "200" || len(m.requests()) != before+1 || tt.got(m.requests()[before]) != brokered {
				t.Errorf("%s to %s: %s, notices %v; the server got %v", tt.how, base, status, res.Notices,
					m.requests()[before:])
			}
			if len(stand) != len(brokered) || stand == brokered || !strings.ContainsAny(stand, "/+=") {
				t.Errorf("%s: the tool had %q", tt.how, stand)
			}
			search(t, "what the tool got", []byte(body), map[string]string{"API_KEY": brokered})
			if again, _, _, _ := m.sent(root(), base+"/x", "API_KEY", tt.how, nil); again == stand {
				t.Errorf("%s: two calls had the same placeholder", tt.how)
			}
		}
		// Elsewhere it is refused.
		for _, base := range m.hosts("other.example") {
			before := len(m.requests())
			_, status, _, res := m.sent(root(), base+"/x", "API_KEY", tt.how, nil)
			if status != "403" || !strings.Contains(fmt.Sprint(res.Notices),
				"the secret API_KEY is not for other.example") || len(m.requests()) != before {
				t.Errorf("%s to %s: %s, notices %v", tt.how, base, status, res.Notices)
			}
		}
	}
	if all := m.audit(); !strings.Contains(all, `"secrets":["API_KEY"]`) ||
		!strings.Contains(all, `"bound":{"hosts":`) {
		t.Errorf("the audit does not name the secret: %.2000s", all)
	}
	searchFiles(t, m.dir, map[string]string{"API_KEY": brokered})
}

// What stands anywhere but in its place is not replaced.
func TestService_brokers_nothing_out_of_place(t *testing.T) {
	m := openMarket(t, nil, app.ServiceConfig{})
	put(t, m.Service, sender, haft.Settings{Network: m.hosts("api.example")})
	m.bind("", "API_KEY", brokered, secret.Binding{Hosts: []string{"GET https://api.example:" + m.https + "/v1/*"},
		Header: "X-Key"})
	for _, tt := range []struct{ path, how string }{
		{"/v1/a", "body"}, {"/v1/a", "query"}, {"/v1/a", "basic"}, {"/v1/a", "bearer"}, {"/v1/a", "header X-Other"},
		{"/v1/a", "encoded"},
		{"/v2/a", "header X-Key"}, {"/v1/../v2/a", "header X-Key"}, {"/v1", "path"},
	} {
		before := len(m.requests())
		_, status, body, _ := m.sent(root(), "https://api.example:"+m.https+tt.path, "API_KEY", tt.how, nil)
		if status != "403" && tt.how != "encoded" && tt.how != "path" {
			t.Errorf("%s as %s: %s %s", tt.path, tt.how, status, body)
		}
		for _, r := range m.requests()[before:] {
			search(t, "the request "+tt.path+" "+tt.how, fmt.Appendf(nil, "%v %v", r.URL, r.Header),
				map[string]string{"API_KEY": brokered})
		}
	}
	// The placeholder of another call is text like any other.
	at := "https://api.example:" + m.https + "/v1/a"
	old, status, _, _ := m.sent(root(), at, "API_KEY", "header X-Key", nil)
	before := len(m.requests())
	_, again, _, _ := m.sent(root(), at, "GIVEN", "header X-Key", map[string]string{"GIVEN": old})
	if got := m.requests()[before].Header.Get("X-Key"); status != "200" || again != "200" || got != old {
		t.Errorf("the placeholder of another call: %s %s, the server got %q", status, again, got)
	}
	// Over http it is not for, though the tool may go there.
	if _, status, _, _ := m.sent(root(), "http://api.example:"+m.http+"/v1/a", "API_KEY", "header X-Key",
		nil); status != "403" {
		t.Errorf("over http: %s", status)
	}
}

// A name that is bound stays so whoever replaces its value; an agent's own binding
// counts for its calls.
func TestService_binds_by_name(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"HOOKED": "value-of-the-webhook-4711"})
	}))
	t.Cleanup(hook.Close)
	m := openMarket(t, nil,
		app.ServiceConfig{Credentials: app.CredentialsConfig{URL: hook.URL,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	put(t, m.Service, sender, haft.Settings{Network: m.hosts("api.example")})
	agent, err := m.PutAgent(t.Context(), root(), haft.Agent{Name: "helper", Tools: []string{"send"}})
	must(t, err)
	for _, name := range []string{"HOOKED", "OWN", "GIVEN", "MINE"} {
		m.bind("", name, "value-of-the-organisation", secret.Binding{Header: "X-Key"})
	}
	must(t, m.PutSecret(t.Context(), root(), "helper", "OWN", secret.New("value-of-the-agent-4711")))
	m.bind("helper", "MINE", "another-of-the-agent-4711", secret.Binding{Header: "X-Mine"})
	who := root()
	who.Agent = string(agent.ID)
	for _, tt := range []struct{ name, header, want string }{
		{"HOOKED", "X-Key", "value-of-the-webhook-4711"}, {"OWN", "X-Key", "value-of-the-agent-4711"},
		{"GIVEN", "X-Key", "value-of-the-call-4711"}, {"MINE", "X-Mine", "another-of-the-agent-4711"},
	} {
		before := len(m.requests())
		stand, status, body, res := m.sent(who, "https://api.example:"+m.https, tt.name, "header "+tt.header,
			map[string]string{"GIVEN": "value-of-the-call-4711"})
		if status != "200" || stand == tt.want {
			t.Fatalf("%s: the tool had %q and got %s %s %v", tt.name, stand, status, body, res.Notices)
		}
		if got := m.requests()[before].Header.Get(tt.header); got != tt.want {
			t.Errorf("%s: the server got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A secret that can get nowhere says so, and is not given out because of it.
func TestService_reports_bound_secrets_that_get_nowhere(t *testing.T) {
	m := openMarket(t, nil, app.ServiceConfig{})
	m.bind("", "API_KEY", brokered, secret.Binding{Header: "X-Key"})
	for _, network := range [][]string{nil, m.hosts("other.example")} {
		put(t, m.Service, "import os\ndef look() -> str:\n    \"\"\"Look.\"\"\"\n    return "+
			"os.environ['API_KEY'][::-1]\n", haft.Settings{Network: network, Secrets: []string{"API_KEY"}})
		res := m.do(root(), "look", map[string]string{}, nil)
		if res.Status != haft.StatusSuccess || strings.Contains(string(res.Value), reversed(brokered)) ||
			!strings.Contains(fmt.Sprint(res.Notices), "API_KEY goes to http://api.example") {
			t.Errorf("with the network %v: %s %s, notices %v", network, res.Status, res.Value, res.Notices)
		}
	}
}

// reversed returns s backwards.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
