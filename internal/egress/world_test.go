package egress_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"haft/internal/egress"
)

// world is a proxy with servers behind it: DNS, HTTP and HTTPS, all real and on
// loopback, where every name below .example leads.
type world struct {
	t      testing.TB
	proxy  *egress.Proxy
	addr   string // of the proxy
	guard  *egress.Guard
	http   string // port of the plain server
	https  string // port of the TLS server
	zone   *zone
	roots  *x509.CertPool // that the servers' certificates are from
	mu     sync.Mutex
	log    []egress.Connection
	wake   chan struct{}
	served func() []*http.Request
}

// open makes a world. In rules, HTTP and HTTPS stand for the servers' ports.
func open(t testing.TB, cfg egress.ProxyConfig, rules []string, handler http.Handler) *world {
	t.Helper()
	return openMocked(t, cfg, rules, handler, nil)
}

// openMocked makes a world in which a mock answers.
func openMocked(t testing.TB, cfg egress.ProxyConfig, rules []string, handler http.Handler,
	mock *egress.Mock) *world {
	t.Helper()
	w := &world{t: t, wake: make(chan struct{}, 1000)}
	if handler == nil {
		handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, _ = rw.Write(b)
			_, _ = io.WriteString(rw, "served "+r.Host+" "+r.URL.Path)
		})
	}
	var reqs []*http.Request
	counted := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		reqs = append(reqs, r.Clone(context.Background()))
		w.mu.Unlock()
		handler.ServeHTTP(rw, r)
	})
	w.served = func() []*http.Request {
		w.mu.Lock()
		defer w.mu.Unlock()
		return reqs
	}
	plain := httptest.NewServer(counted)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(counted)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	cert, roots := certFor(t, "*.example", "a.b.example")
	w.roots = roots
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, w.http, _ = net.SplitHostPort(plain.Listener.Addr().String())
	_, w.https, _ = net.SplitHostPort(secure.Listener.Addr().String())
	var resolver *net.Resolver
	w.zone, resolver = serveDNS(t, map[string][]string{
		"api.example": {"127.0.0.1"}, "other.example": {"127.0.0.1"}, "evil.example": {"127.0.0.1"},
		"home.example":          {"10.0.0.7"},
		"xn--bcher-kva.example": {"127.0.0.1"}, "down.example": {"127.0.0.3"},
	})
	w.guard = egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: resolver,
		TLS: &egress.TLS{Roots: roots}, Timeout: 10 * time.Second, Mock: mock})
	for i, r := range rules {
		rules[i] = w.ports(r)
	}
	parsed, err := egress.ParseRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Guard, cfg.Rules = w.guard, parsed
	cfg.Record = func(c egress.Connection) {
		w.mu.Lock()
		w.log = append(w.log, c)
		w.mu.Unlock()
		w.wake <- struct{}{}
	}
	w.proxy = egress.NewProxy(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.proxy.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
		w.proxy.Close()
	})
	return w
}

// ports puts the servers' ports into a text.
func (w *world) ports(s string) string {
	return strings.NewReplacer("HTTPS", w.https, "HTTP_", w.http).Replace(s)
}

// records waits for n records and returns all.
func (w *world) records(n int) []egress.Connection {
	w.t.Helper()
	for range n {
		select {
		case <-w.wake:
		case <-time.After(3 * time.Minute):
			w.t.Fatalf("there are not %d records: %+v", n, w.log)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log
}

// client returns a client that goes through the proxy and trusts roots.
func (w *world) client(roots *x509.CertPool) *http.Client {
	tr := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: w.addr}),
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true,
		// Without it a body is sent before anybody asked for it.
		ExpectContinueTimeout: 10 * time.Second,
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// reply is what came back, without the body.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// raw sends text to the proxy, as it is but for ports, and returns the first
// answer.
func (w *world) raw(text string) (reply, string) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	if _, err := io.WriteString(c, w.ports(text)); err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatalf("no answer to %q: %v", text, err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Status, resp.Header}, string(b)
}

// certFor makes a certificate for names and a pool that trusts it.
func certFor(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		DNSNames: names, IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}
