package script_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/egress"
	"haft/internal/skiptest"
	"haft/sandbox"
)

// names is a resolver that knows the hosts of the tests.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := n[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// A way is a real proxy with real servers behind it, on loopback, where every name
// below .example leads: api.example may be reached, other.example not.
type way struct {
	proxy       *egress.Proxy
	ca          []byte
	http, https string // URLs of api.example
	secret      egress.Secret

	mu  sync.Mutex
	log []egress.Connection
}

// realKey is what the servers want, and no tool has.
const realKey = "the-real-key-of-the-server-4711"

// openWay makes one, or skips where no sandbox has egress. Everything below dir
// is served under /files/.
func openWay(t testing.TB, dir string) *way {
	t.Helper()
	needControl(t, haft.ControlNetNS)
	handler := http.NewServeMux()
	handler.HandleFunc("/hello", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "hello %s key=%t", r.Host, r.Header.Get("X-Key") == realKey)
	})
	handler.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(dir))))
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	cert, roots := certFor(t, "api.example", "other.example")
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	port := func(s *httptest.Server) string { return strings.TrimPrefix(s.Listener.Addr().String(), "127.0.0.1:") }
	w := &way{http: "http://api.example:" + port(plain), https: "https://api.example:" + port(secure)}
	rules := func(list ...string) egress.Rules {
		r, err := egress.ParseRules(list)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.secret = egress.Secret{
		Name: "key", Placeholder: "placeholder-of-the-key-0123456789abcdef",
		Value: func(context.Context) (string, error) { return realKey, nil },
		Hosts: rules(w.http, w.https), Place: egress.Place{Header: "X-Key"},
	}
	broker, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{w.secret}})
	if err != nil {
		t.Fatal(err)
	}
	w.ca = broker.CAPEM()
	w.proxy = egress.NewProxy(egress.ProxyConfig{
		Rules: rules(w.http, w.https), Broker: broker,
		Guard: egress.New(egress.Config{
			Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Resolver: names{"api.example": "127.0.0.1", "other.example": "127.0.0.1"},
			TLS:      &egress.TLS{Roots: roots},
		}),
		Record: func(c egress.Connection) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.log = append(w.log, c)
		},
	})
	t.Cleanup(w.proxy.Close)
	return w
}

// records returns what was recorded, and forgets it.
func (w *way) records() []egress.Connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

// egress serves a connection.
func (w *way) egress(ctx context.Context, conn net.Conn) { _ = w.proxy.ServeConn(ctx, conn) }

// request fills in the network of req.
func (w *way) request(req executor.Request) executor.Request {
	req.Network, req.ServeEgress, req.CA = sandbox.NetworkEgress, w.egress, w.ca
	return req
}

// certFor makes a certificate for names and a pool that trusts it.
func certFor(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
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

// siteVar names another directory of Python packages to test with.
const siteVar = "HAFT_TEST_SITE"

// sites are the directories in which real packages may be.
func sites() []string {
	found, _ := filepath.Glob("../../.haft/testenv/lib/python3*/site-packages")
	return append([]string{os.Getenv(siteVar)}, found...)
}

// packages returns real Python packages as one file, packages.zip, which Python
// can import from: wherever they are, they need not be mounted.
func packages(t testing.TB, names ...string) []sandbox.File {
	t.Helper()
	for _, site := range sites() {
		if _, err := os.Stat(filepath.Join(site, names[0])); site == "" || err != nil {
			continue
		}
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		for _, n := range names {
			for _, pattern := range []string{n + ".py", n + "/*", n + "/*/*", n + "/*/*/*"} {
				files, err := filepath.Glob(filepath.Join(site, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					add(t, w, site, f)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return []sandbox.File{{Name: "packages.zip", Data: buf.Bytes()}}
	}
	skiptest.Lacking(t, names[0], "it is not in the test environment")
	return nil
}

// add puts a file into an archive, if it is source or data.
func add(t testing.TB, w *zip.Writer, site, file string) {
	t.Helper()
	if ext := filepath.Ext(file); ext != ".py" && ext != ".pem" {
		return
	}
	rel, err := filepath.Rel(site, file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to, err := w.Create(rel)
	if err == nil {
		_, err = to.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// handOver copies the packages to where another user can read them.
func handOver(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "site")
	for _, site := range sites() {
		for _, n := range []string{"requests", "urllib3", "charset_normalizer", "httpx", "httpcore", "h11", "anyio",
			"certifi", "idna"} {
			if _, err := os.Stat(filepath.Join(site, n)); site == "" || err != nil {
				continue
			}
			if err := os.CopyFS(filepath.Join(to, n), os.DirFS(filepath.Join(site, n))); err != nil &&
				!os.IsExist(err) {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(site, "typing_extensions.py")); err == nil && site != "" {
			_ = os.WriteFile(filepath.Join(to, "typing_extensions.py"), b, 0o644) // as above: whoever needs it says so
		}
	}
	return to
}
