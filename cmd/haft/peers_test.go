package main

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// peers are the others that a script meets over the network, each a real server on a
// loopback address.
type peers struct {
	server *exec.Cmd
	url    string
	signer *ecdsa.PrivateKey // of tokens
	pair   *tls.Certificate  // of the authority that the script trusts

	mu     sync.Mutex
	got    []letter // guarded by mu
	status int      // what is answered to letters; guarded by mu
}

// A letter is what arrived at one of the peers.
type letter struct {
	path   string
	header http.Header
	body   []byte
}

type peersKey struct{}

// peerCommands are what scripts can do with peers.
var peerCommands = map[string]func(*testscript.TestScript, bool, []string){
	"serve": serveCmd, "stopserver": stopCmd, "reload": reloadCmd, "certificate": certificateCmd, "issuer": issuerCmd,
	"token":     tokenCmd,
	"collector": collectorCmd, "receiver": receiverCmd, "answer": answerCmd, "received": receivedCmd,
	"signed": signedCmd,
}

func at(ts *testscript.TestScript) *peers { return ts.Value(peersKey{}).(*peers) }

// serveCmd starts haft serve in the background, and has later commands work on it with
// its first key: serve ARGS…
func serveCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := at(ts)
	program, err := lookPath(ts, "haft")
	ts.Check(err)
	cmd := exec.Command(program, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...) //nolint:forbidigo // it is told to stop
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "HAFT_DATA", "HAFT_LOCK_WAIT", "HAFT_READY_WAIT",
		"SSL_CERT_FILE", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRIC_EXPORT_INTERVAL", "OTEL_BSP_SCHEDULE_DELAY",
		"HAFT_OIDC_AUDIENCE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	log, err := os.Create(ts.MkAbs("serve.log"))
	ts.Check(err)
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	w.server = cmd
	ts.Defer(func() {
		if w.server == cmd {
			_ = cmd.Process.Kill() // the script has failed
			_ = cmd.Wait()
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			w.url = url
		}
		if strings.HasPrefix(lines.Text(), "sandbox") {
			break
		}
	}
	if w.url == "" {
		_ = cmd.Wait()
		w.server = nil
		ts.Fatalf("the server does not start: %s", ts.ReadFile("serve.log"))
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the server ends
	ts.Setenv("HAFT_SERVER", w.url)
	ts.Setenv("HAFT_KEY_FILE", ts.MkAbs("data/admin.key"))
	ts.Setenv("HAFT_USER", "")
}

// lookPath finds a program where the script does.
func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("there is no %s", name)
}

// stopCmd tells the server to stop, which it does with the code 0.
func stopCmd(ts *testscript.TestScript, _ bool, _ []string) {
	w := at(ts)
	cmd := w.server
	w.server = nil
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	ts.Check(cmd.Wait())
}

// reloadCmd sends the server a SIGHUP and waits until its log has a line more that
// matches: reload PATTERN
func reloadCmd(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	count := func() int { return len(pattern.FindAllString(ts.ReadFile("serve.log"), -1)) }
	before := count()
	ts.Check(at(ts).server.Process.Signal(syscall.SIGHUP))
	for end := time.Now().Add(time.Minute); count() == before; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("the log never has %s: %s", args[0], ts.ReadFile("serve.log"))
		}
	}
}

// certificateCmd makes an authority, which later commands trust, and a certificate of
// it for this machine: ca.pem, cert.pem and key.pem.
func certificateCmd(ts *testscript.TestScript, _ bool, _ []string) {
	make := func(t *x509.Certificate, parent *x509.Certificate, with crypto.Signer) (*x509.Certificate,
		*ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		if parent == nil {
			parent, with = t, key
		}
		t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		raw, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), with)
		ts.Check(err)
		made, err := x509.ParseCertificate(raw)
		ts.Check(err)
		return made, key
	}
	ca, caKey := make(&x509.Certificate{SerialNumber: big.NewInt(1),
		Subject: pkix.Name{CommonName: "authority of a script"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	leaf, key := make(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature}, ca, caKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for name, block := range map[string]*pem.Block{"ca.pem": {Type: "CERTIFICATE", Bytes: ca.Raw},
		"cert.pem": {Type: "CERTIFICATE", Bytes: leaf.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: der}} {
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(block), 0o600))
	}
	at(ts).pair = &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
	ts.Setenv("SSL_CERT_FILE", ts.MkAbs("ca.pem"))
}

// secure starts a server of the authority that the script trusts.
func (w *peers) secure(ts *testscript.TestScript, h http.Handler) string {
	if w.pair == nil {
		ts.Fatalf("make a certificate first")
	}
	web := httptest.NewUnstartedServer(h)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{*w.pair}}
	web.StartTLS()
	ts.Defer(web.Close)
	return web.URL
}

// issuerCmd starts an OpenID Connect issuer, and says where in $ISSUER.
func issuerCmd(ts *testscript.TestScript, _ bool, _ []string) {
	w := at(ts)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	w.signer = key
	var url string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(out http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(out).Encode(map[string]string{"issuer": url, "jwks_uri": url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(out http.ResponseWriter, _ *http.Request) {
		point, err := key.PublicKey.Bytes()
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(out).Encode(map[string]any{"keys": []any{map[string]string{
			"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "k1", "x": b64(point[1:33]),
			"y": b64(point[33:65]),
		}}})
	})
	url = w.secure(ts, mux)
	ts.Setenv("ISSUER", url)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// tokenCmd has the issuer sign a token with claims besides the usual ones, into
// $HAFT_KEY: token CLAIMS. With ! it is signed by somebody else.
func tokenCmd(ts *testscript.TestScript, neg bool, args []string) {
	claims := map[string]any{"iss": ts.Getenv("ISSUER"), "aud": "haft", "sub": "ann", "iat": time.Now().Unix(),
		"exp": time.Now().Add(time.Hour).Unix()}
	ts.Check(json.Unmarshal([]byte(args[0]), &claims))
	signer := at(ts).signer
	if neg {
		var err error
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
	}
	body, err := json.Marshal(claims)
	ts.Check(err)
	text := b64([]byte(`{"alg":"ES256","kid":"k1","typ":"JWT"}`)) + "." + b64(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, signer, sum[:])
	ts.Check(err)
	ts.Setenv("HAFT_KEY", text+"."+b64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)))
	ts.Setenv("HAFT_KEY_FILE", "")
}

// ServeHTTP keeps what arrives.
func (w *peers) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.got = append(w.got, letter{r.URL.Path, r.Header.Clone(), body})
	}
	out.WriteHeader(max(w.status, http.StatusOK))
}

// collectorCmd starts what takes spans and measures as OpenTelemetry sends them.
func collectorCmd(ts *testscript.TestScript, _ bool, _ []string) {
	web := httptest.NewServer(at(ts))
	ts.Defer(web.Close)
	ts.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
	ts.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
	ts.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
}

// receiverCmd starts what takes events of webhooks, and says where in $RECEIVER.
func receiverCmd(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("RECEIVER", at(ts).secure(ts, at(ts)))
}

// answerCmd says what is answered from now on: answer STATUS
func answerCmd(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	w := at(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// receivedCmd waits until something has arrived at a path that holds all of the texts:
// received PATH TEXT…
func receivedCmd(ts *testscript.TestScript, neg bool, args []string) {
	w := at(ts)
	for end := time.Now().Add(time.Minute); ; {
		if w.holds(args[0], args[1:]) != neg {
			return
		}
		if neg || time.Now().After(end) {
			ts.Fatalf("at %s: %q, neg %v", args[0], args[1:], neg)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (w *peers) holds(path string, texts []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
next:
	for _, l := range w.got {
		if l.path != path {
			continue
		}
		for _, text := range texts {
			if !bytes.Contains(l.body, []byte(text)) {
				continue next
			}
		}
		return true
	}
	return false
}

// signedCmd checks that everything that arrived is signed as Standard Webhooks has it:
// signed SECRET
func signedCmd(ts *testscript.TestScript, _ bool, args []string) {
	w := at(ts)
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(args[0], "whsec_"))
	ts.Check(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.got {
		sum := hmac.New(sha256.New, secret)
		fmt.Fprintf(sum, "%s.%s.%s", l.header.Get("Webhook-Id"), l.header.Get("Webhook-Timestamp"), l.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil)); l.header.Get("Webhook-Signature") != want {
			ts.Fatalf("%s is signed %q, want %q", l.header.Get("Webhook-Id"), l.header.Get("Webhook-Signature"), want)
		}
	}
	if len(w.got) == 0 {
		ts.Fatalf("nothing arrived")
	}
}
