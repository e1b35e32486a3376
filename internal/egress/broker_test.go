package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/egress"
	"haft/internal/secret"
)

const real = "sk-live/Real+Value=1234567890"

// bind makes a secret bound to rules at a place.
func bind(t testing.TB, place egress.Place, hosts ...string) egress.Secret {
	t.Helper()
	rules, err := egress.ParseRules(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return egress.Secret{
		Name: "api-key", Placeholder: secret.Placeholder(real), Hosts: rules, Place: place,
		Value: func(context.Context) (string, error) { return real, nil },
	}
}

// openBroker makes a world with one secret for api.example, on every port.
func openBroker(t testing.TB, place egress.Place, host string, h http.Handler) (*world, egress.Secret, *http.Client) {
	t.Helper()
	method, rest, ok := strings.Cut(host, " ")
	if !ok {
		method, rest = "", host
	}
	// Without a scheme a secret is for https only.
	s := bind(t, place, strings.TrimSpace(method+" http://"+rest), strings.TrimSpace(method+" https://"+rest))
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"http://api.example:HTTP_", "https://api.example:HTTPS",
		"http://other.example:HTTP_", "https://other.example:HTTPS"}, h)
	roots := w.roots.Clone()
	if !roots.AppendCertsFromPEM(b.CAPEM()) {
		t.Fatal("CAPEM is no certificate")
	}
	return w, s, w.client(roots)
}

// do sends a request and returns status and body.
func do(t testing.TB, c *http.Client, method, u, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = io.MultiReader(strings.NewReader(body[:len(body)/2]), strings.NewReader(body[len(body)/2:]))
	}
	req, err := http.NewRequest(method, u, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestBroker_puts_a_secret_in_its_place(t *testing.T) {
	tests := []struct {
		name   string
		place  egress.Place
		query  func(ph string) string
		header func(ph string) []string
		want   func(r *http.Request) bool
	}{
		{"header", egress.Place{Header: "authorization"}, nil,
			func(ph string) []string { return []string{"Authorization", "Bearer " + ph} },
			func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+real }},
		{"header with a prefix", egress.Place{Header: "Authorization", Prefix: "Bearer "}, nil,
			func(ph string) []string { return []string{"Authorization", "Bearer " + ph} },
			func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+real }},
		{"query", egress.Place{Query: "key"}, func(ph string) string {
			return "?a=1&key=" + strings.ReplaceAll(strings.ReplaceAll(ph, "+", "%2B"), "=", "%3D") + "&b=%20"
		}, nil,
			func(r *http.Request) bool { return r.URL.Query().Get("key") == real && r.URL.Query().Get("b") == " " }},
		{"password", egress.Place{Basic: "password"}, nil,
			func(ph string) []string {
				return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+ph))}
			},
			func(r *http.Request) bool { u, p, _ := r.BasicAuth(); return u == "me" && p == real }},
		{"user", egress.Place{Basic: "user"}, nil,
			func(ph string) []string {
				return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(ph+":"))}
			},
			func(r *http.Request) bool { u, _, _ := r.BasicAuth(); return u == real }},
	}
	for _, tt := range tests {
		for _, scheme := range []string{"http", "https"} {
			t.Run(tt.name+" over "+scheme, func(t *testing.T) {
				echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Echo", r.Header.Get("Authorization")+r.URL.Query().Get("key"))
					fmt.Fprint(w, r.Header.Get("Authorization"), " ", r.URL.RawQuery, " ", r.URL.Query().Get("key"))
				})
				w, s, c := openBroker(t, tt.place, "api.example:*", echo)
				u := map[string]string{"http": "http://api.example:" + w.http,
					"https": "https://api.example:" + w.https}[scheme] + "/x"
				if tt.query != nil {
					u += tt.query(s.Placeholder)
				}
				var h []string
				if tt.header != nil {
					h = tt.header(s.Placeholder)
				}
				status, body, header := do(t, c, "GET", u, "", h...)
				if status != 200 || len(w.served()) != 1 || !tt.want(w.served()[0]) {
					t.Fatalf("%d %q; the server got %v", status, body, w.served())
				}
				all := body + fmt.Sprint(header)
				parsed := http.Request{Header: http.Header{"Authorization": {header.Get("X-Echo")}}}
				if u, p, ok := parsed.BasicAuth(); ok {
					all += u + p
				}
				if strings.Contains(all, real) || strings.Contains(all, "Real") {
					t.Errorf("the program got the value: %q %v", body, header)
				}
				if h != nil && header.Get("X-Echo") != h[1] {
					t.Errorf("the echo is %q, want what was sent: %q", header.Get("X-Echo"), h[1])
				}
				r := w.records(1)[0]
				if !cmp.Equal(r.Secrets, []string{"api-key"}) || r.Outcome != "ok" || r.Method != "GET" ||
					r.Path != "" {
					t.Errorf("record %+v", r)
				}
			})
		}
	}
}

func TestBroker_refuses_a_placeholder_that_strayed(t *testing.T) {
	w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "GET api.example:*/v1/*", nil)
	ph := s.Placeholder
	api, tlsAPI, other := "http://api.example:"+w.http, "https://api.example:"+w.https, "http://other.example:"+w.http
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+ph))
	tests := []struct {
		name, method, url, body string
		header                  []string
	}{
		{"another host", "GET", other + "/v1/x", "", []string{"X-Key", ph}},
		{"another host, inside TLS that is opened", "GET", tlsAPI + "/v2/x", "", []string{"X-Key", ph}},
		{"another path", "GET", api + "/v2/x", "", []string{"X-Key", ph}},
		{"another method", "POST", api + "/v1/x", "hello", []string{"X-Key", ph}},
		{"another header", "GET", api + "/v1/x", "", []string{"X-Other", ph}},
		{"its header and another", "GET", api + "/v1/x", "", []string{"X-Key", ph, "X-Other", ph}},
		{"the authorization", "GET", api + "/v1/x", "", []string{"Authorization", basic}},
		{"the authorization of the proxy", "GET", api + "/v1/x", "", []string{"Proxy-Authorization", basic}},
		{"the query", "GET", api + "/v1/x?k=" + strings.NewReplacer("+", "%2B", "/", "%2F").Replace(ph), "", nil},
		{"the path", "GET", api + "/v1/" + ph, "", nil},
		{"the body", "POST", api + "/v1/x", "hello " + ph + " there", nil},
		{"the body to another host", "POST", other + "/v1/x", "hello " + ph, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, header := do(t, c, tt.method, tt.url, tt.body, tt.header...)
			if status != 403 || header.Get("X-Haft-Refused") != egress.RulePlaceholder ||
				!strings.Contains(body, "api-key") {
				t.Errorf("%d %q", status, body)
			}
			if strings.Contains(body, ph) || strings.Contains(body, real) {
				t.Errorf("the refusal holds the secret: %q", body)
			}
			r := w.records(1)
			if last := r[len(r)-1]; last.Refusal == nil || last.Refusal.Rule != egress.RulePlaceholder {
				t.Errorf("record %+v", last)
			}
		})
	}
	for _, r := range w.served() {
		for _, v := range r.Header {
			if strings.Contains(strings.Join(v, " "), real) {
				t.Errorf("a server got the value: %s %v", r.URL, r.Header)
			}
		}
	}
	if status, body, _ := do(t, c, "GET", api+"/v1/x", "", "X-Key", ph); status != 200 {
		t.Errorf("in its place: %d %q", status, body)
	}
}

// A placeholder that is wrapped so that nobody can recognise it is not replaced
// either: what arrives is what was sent.
func TestBroker_replaces_nothing_that_is_wrapped(t *testing.T) {
	var mu sync.Mutex
	var arrived []string
	w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*",
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			arrived = append(arrived, fmt.Sprint(string(body), r.URL, r.Header, err))
		}))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, s.Placeholder); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, body := range []string{base64.StdEncoding.EncodeToString([]byte("x" + s.Placeholder)),
		hex.EncodeToString([]byte(s.Placeholder)), zipped.String()} {
		do(t, c, "POST", "http://api.example:"+w.http+"/", body)
		do(t, c, "POST", "http://other.example:"+w.http+"/", body)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, text := range arrived {
		for _, form := range []string{real, base64.StdEncoding.EncodeToString([]byte("x" + real)),
			hex.EncodeToString([]byte(real))} {
			if strings.Contains(text, form) {
				t.Errorf("a server got the value: %q", text)
			}
		}
	}
}

func TestBroker_takes_echoes_out(t *testing.T) {
	upper := strings.ToUpper(real)
	quoted, _ := json.Marshal(real)
	echoes := map[string]string{
		"plain":     real,
		"twice":     real + real,
		"hex":       hex.EncodeToString([]byte(real)),
		"HEX":       strings.ToUpper(hex.EncodeToString([]byte(real))),
		"base64":    base64.StdEncoding.EncodeToString([]byte(real)),
		"base64 +1": base64.StdEncoding.EncodeToString([]byte("x" + real + "yz")),
		"base64 +2": base64.URLEncoding.EncodeToString([]byte("xx" + real + "y")),
		"JSON":      string(quoted),
		"JSON, /":   strings.ReplaceAll(string(quoted), "/", `\/`),
		"URL":       "k=sk-live%2FReal%2BValue%3D1234567890",
		"capitals":  upper,
	}
	for name, echo := range echoes {
		for _, how := range []string{"whole", "in pieces", "gzip"} {
			t.Run(name+" "+how, func(t *testing.T) {
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					text := "before " + echo + " after"
					switch how {
					case "whole":
						w.Header().Set("Content-Length", fmt.Sprint(len(text)))
						_, _ = io.WriteString(w, text)
					case "gzip":
						w.Header().Set("Content-Encoding", "gzip")
						z := gzip.NewWriter(w)
						_, _ = io.WriteString(z, text)
						z.Close()
					default:
						for i := range len(text) {
							_, _ = io.WriteString(w, text[i:i+1])
							_ = http.NewResponseController(w).Flush()
						}
					}
				})
				w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*", h)
				status, body, _ := do(t, c, "GET", "http://api.example:"+w.http+"/", "", "X-Key", s.Placeholder,
					"Accept-Encoding", "gzip, br", "Range", "bytes=0-10")
				if status != 200 || !strings.HasPrefix(body, "before ") || !strings.HasSuffix(body, " after") ||
					strings.Contains(body, echo) {
					t.Errorf("%d %q", status, body)
				}
				if name == "plain" && body != "before "+s.Placeholder+" after" {
					t.Errorf("%q, want the placeholder", body)
				}
				if got := w.served()[0].Header; got.Get("Range") != "" ||
					strings.Contains(got.Get("Accept-Encoding"), "br") {
					t.Errorf("the server got %v", got)
				}
			})
		}
	}
}

func TestBroker_refuses_answers_that_it_cannot_read(t *testing.T) {
	w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, real)
		}))
	status, body, _ := do(t, c, "GET", "http://api.example:"+w.http+"/", "", "X-Key", s.Placeholder)
	if status != 502 || strings.Contains(body, real) {
		t.Errorf("%d %q", status, body)
	}
}

// Without a secret the broker still opens TLS for rules that look inside, and
// leaves the rest closed.
func TestBroker_lets_rules_look_inside_TLS(t *testing.T) {
	b, err := egress.NewBroker(egress.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b, Paths: true},
		[]string{"GET https://api.example:HTTPS/v1/*", "https://other.example:HTTPS"}, nil)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.CAPEM())
	c := w.client(roots)
	u := "https://api.example:" + w.https
	for _, tt := range []struct {
		method, path string
		want         int
	}{{"GET", "/v1/x", 200}, {"POST", "/v1/x", 403}, {"GET", "/v2", 403}, {"GET", "/v1/%2e%2e/v2", 403},
		{"GET", "/v1/y", 200}} {
		status, body, _ := do(t, c, tt.method, u+tt.path, "")
		if status != tt.want {
			t.Errorf("%s %s: %d %q, want %d", tt.method, tt.path, status, body, tt.want)
		}
		if tt.want == 403 && !strings.Contains(body, "network: [") {
			t.Errorf("%s %s: %q does not say what to ask for", tt.method, tt.path, body)
		}
	}
	if n := len(w.served()); n != 2 {
		t.Errorf("%d requests reached the server, want 2", n)
	}
	quiet := open(t, egress.ProxyConfig{}, []string{"GET http://api.example:HTTP_/v1/*"}, nil)
	if resp, body := quiet.raw("GET http://api.example:HTTP_/private/ann HTTP/1.1\r\nHost: " +
		"api.example:HTTP_\r\n\r\n"); resp.StatusCode != 403 || !strings.Contains(body, "/private/ann") {
		t.Errorf("%s %q", resp.Status, body)
	}
	if raw, _ := json.Marshal(quiet.records(1)[0]); bytes.Contains(raw, []byte("private/ann")) ||
		!bytes.Contains(raw, []byte("GET http://api.example:")) {
		t.Errorf("the record holds the path: %s", raw)
	}
	if r := w.records(5); r[0].Path != "/v1/x" || r[0].Via != "connect" || r[0].Scheme != "https" {
		t.Errorf("record %+v", r[0])
	}
	if _, _, err := get(t, w.client(w.roots), "https://other.example:"+w.https); err != nil {
		t.Errorf("TLS that nobody has to open was opened: %v", err)
	}
}

func TestBroker_inspects_all_if_configured(t *testing.T) {
	b, err := egress.NewBroker(egress.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b, Inspect: true}, []string{"https://api.example:HTTPS"}, nil)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.CAPEM())
	req, _ := http.NewRequest("GET", "https://api.example:"+w.https+"/", nil)
	req.Host = "evil.example"
	resp, err := w.client(roots).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || resp.Header.Get("X-Haft-Refused") != egress.RuleFronting {
		t.Errorf("another Host inside TLS: %s", resp.Status)
	}
	if status, body, _ := do(t, w.client(roots), "GET", "https://api.example:"+w.https+"/", ""); status != 200 {
		t.Errorf("%d %q", status, body)
	}
}

func TestBroker_verifies_the_server(t *testing.T) {
	s := bind(t, egress.Place{Header: "X-Key"}, "https://api.example:*")
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"https://api.example:HTTPS", "https://a.b.example:HTTPS",
		"https://other.example:1-65535"}, nil)
	// A proxy whose guard does not know the authority of the servers.
	p := egress.NewProxy(egress.ProxyConfig{Broker: b,
		Guard: egress.New(egress.Config{Allow: loopback, Resolver: fixed(loopback4())}),
		Rules: egress.Rules{egress.Full()}})
	defer p.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.CAPEM())
	status, body, _ := do(t, pipeClient(t, p, roots), "GET", "https://api.example:"+w.https+"/", "", "X-Key",
		s.Placeholder)
	if status != 502 || !strings.Contains(body, "certificate") || len(w.served()) != 0 {
		t.Errorf("%d %q, served %d", status, body, len(w.served()))
	}
}

func TestBroker_certificates(t *testing.T) {
	s := bind(t, egress.Place{Header: "X-Key"}, "api.example:*", "127.0.0.1:1-65535")
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := egress.NewBroker(egress.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(b.CAPEM(), other.CAPEM()) || bytes.Contains(b.CAPEM(), []byte("PRIVATE")) {
		t.Error("two sandboxes have one authority, or its key is given away")
	}
	block, _ := pem.Decode(b.CAPEM())
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !ca.IsCA || !ca.MaxPathLenZero || time.Until(ca.NotAfter) > 8*24*time.Hour {
		t.Fatalf("%+v, %v", ca, err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"https://api.example:HTTPS", "https://127.0.0.1:HTTPS"}, nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, name := range []string{"api.example", "127.0.0.1"} {
		c := tunnel(t, w, name+":"+w.https)
		conn := tls.Client(c, &tls.Config{ServerName: name, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
		if err := conn.Handshake(); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if st := conn.ConnectionState(); st.NegotiatedProtocol != "http/1.1" ||
			time.Until(st.PeerCertificates[0].NotAfter) > 25*time.Hour {
			t.Errorf("%s: %+v", name, st.NegotiatedProtocol)
		}
		conn.Close()
	}
}

func TestNewBroker_refuses_what_cannot_be_kept(t *testing.T) {
	good := bind(t, egress.Place{Header: "X-Key"}, "api.example")
	for name, change := range map[string]func(*egress.Secret){
		"no name":             func(s *egress.Secret) { s.Name = "" },
		"no value":            func(s *egress.Secret) { s.Value = nil },
		"no host":             func(s *egress.Secret) { s.Hosts = nil },
		"every host":          func(s *egress.Secret) { s.Hosts = egress.Rules{egress.Full()} },
		"no place":            func(s *egress.Secret) { s.Place = egress.Place{} },
		"two places":          func(s *egress.Secret) { s.Place.Query = "k" },
		"a header that hops":  func(s *egress.Secret) { s.Place.Header = "Connection" },
		"the Host":            func(s *egress.Secret) { s.Place.Header = "host" },
		"no header":           func(s *egress.Secret) { s.Place.Header = "a b" },
		"half of basic":       func(s *egress.Secret) { s.Place = egress.Place{Basic: "x"} },
		"a short placeholder": func(s *egress.Secret) { s.Placeholder = "short" },
	} {
		s := good
		change(&s)
		if _, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}}); haft.CodeOf(
			err) != haft.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{good, good}}); haft.CodeOf(
		err) != haft.CodeInvalid {
		t.Errorf("one placeholder for two secrets: %v", err)
	}
}

func TestBroker_values_that_are_not_to_be_had(t *testing.T) {
	for name, value := range map[string]func(context.Context) (string, error){
		"an error":      func(context.Context) (string, error) { return "", errors.New("vault sealed at 10.0.0.7") },
		"too short":     func(context.Context) (string, error) { return "abc", nil },
		"a line end":    func(context.Context) (string, error) { return "abcdefgh\r\nX-Evil: 1", nil },
		"much too long": func(context.Context) (string, error) { return strings.Repeat("x", 9<<10), nil },
	} {
		s := bind(t, egress.Place{Header: "X-Key"}, "http://api.example:*")
		s.Value = value
		b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, egress.ProxyConfig{Broker: b}, []string{"http://api.example:HTTP_"}, nil)
		status, body, _ := do(t, w.client(nil), "GET", "http://api.example:"+w.http+"/", "", "X-Key", s.Placeholder)
		if status != 502 || len(w.served()) != 0 || strings.Contains(body, "10.0.0.7") ||
			!strings.Contains(body, "api-key") {
			t.Errorf("%s: %d %q", name, status, body)
		}
	}
}

func TestBroker_hands_answers_to_the_redactor(t *testing.T) {
	s := bind(t, egress.Place{Header: "X-Key"}, "api.example:*")
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}, Redact: func(r io.Reader) io.Reader {
		b, _ := io.ReadAll(r)
		return strings.NewReader(strings.ReplaceAll(string(b), "served", "[gone]"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"http://api.example:HTTP_"}, nil)
	if status, body, _ := do(t, w.client(nil), "GET", "http://api.example:"+w.http+"/x", ""); status != 200 ||
		!strings.HasPrefix(body, "[gone] api.example") {
		t.Errorf("%d %q", status, body)
	}
}

func TestBroker_writes_the_whole_header_where_there_is_a_prefix(t *testing.T) {
	w, s, c := openBroker(t, egress.Place{Header: "Authorization", Prefix: "Bearer "}, "api.example:*", nil)
	for _, sent := range []string{s.Placeholder, "token " + s.Placeholder,
		"x" + s.Placeholder + s.Placeholder + ", y"} {
		before := len(w.served())
		if status, body, _ := do(t, c, "GET", "https://api.example:"+w.https+"/", "", "Authorization",
			sent); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if got := w.served()[before].Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+real {
			t.Errorf("of %q the server got %q", sent, got)
		}
	}
}
