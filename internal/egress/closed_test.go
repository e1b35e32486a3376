package egress_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"haft"
	"haft/internal/egress"
	"haft/internal/secret"
)

// Each check of a head refuses by itself, and does not leave it to the next reader.
func TestReadRequest_refuses(t *testing.T) {
	for name, tt := range map[string]struct{ send, want string }{
		"a fragment":            {"GET http://a.example/#x HTTP/1.1\r\nHost: a\r\n\r\n", "have to be escaped"},
		"a backslash":           {"GET http://a.example/\\x HTTP/1.1\r\nHost: a\r\n\r\n", "have to be escaped"},
		"a target beyond ASCII": {"GET http://a.example/é HTTP/1.1\r\nHost: a.example\r\n\r\n", "have to be escaped"},
		"a folded header":       {"GET / HTTP/1.1\r\nHost: a.example\r\n b: c\r\n\r\n", "folded"},
		"a length of 19 digits": {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000000000\r\n\r\n",
			"not a number"},
		"a length with a sign": {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "not a number"},
		"an empty length":      {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", "not a number"},
		"a coding in two": {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
			"not chunked"},
		"a coding with parameter": {"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;x\r\n\r\n", "not chunked"},
	} {
		if _, _, err := egress.ReadRequest(strings.NewReader(tt.send)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// What two readers could take for two destinations is refused for that reason, not because no rule happens to fit.
func TestProxy_refuses_what_names_no_host(t *testing.T) {
	w := open(t, egress.ProxyConfig{}, []string{"http://api.example:HTTP_", "[::1]:443", "[::1]:80"}, nil)
	for name, send := range map[string]string{
		"a target of a bad name":          "GET http://a_b%41/ HTTP/1.1\r\nHost: a_b\r\n\r\n",
		"a target with a bad port":        "GET http://api.example:99999/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a Host of a bad name":            "GET http://api.example:HTTP_/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n",
		"a Host without brackets":         "GET http://[::1]/ HTTP/1.1\r\nHost: ::1:80\r\n\r\n",
		"a CONNECT without brackets":      "CONNECT ::1:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"a CONNECT without a port":        "CONNECT [::1] HTTP/1.1\r\nHost: [::1]\r\n\r\n",
		"a CONNECT with a bad port":       "CONNECT api.example:0 HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a CONNECT with a bad port, long": "CONNECT api.example:65979 HTTP/1.1\r\nHost: api.example\r\n\r\n",
	} {
		resp, body := w.raw(send)
		r := w.records(1)
		if last := r[len(r)-1]; resp.StatusCode < 400 || last.Refusal == nil ||
			last.Refusal.Rule != egress.RuleName && last.Refusal.Rule != egress.RuleProtocol {
			t.Errorf("%s: %s %q, refused by %+v, want the rule %q", name, resp.Status, body, last.Refusal,
				egress.RuleName)
		}
	}
	if resp, body := w.raw("GET http://api.example:HTTP_/ HTTP/1.0\r\n\r\n"); resp.StatusCode != 200 {
		t.Errorf("HTTP/1.0 without a Host: %s %q", resp.Status, body)
	}
}

func TestCanonical_refuses(t *testing.T) {
	for _, host := range []string{"", "[::1", "[1.2.3.4]", "[]", "[a.example]", strings.Repeat("é.", 1000),
		strings.Repeat("a.", 127) + "aa"} {
		if got, err := egress.Canonical(host); err == nil || got != "" {
			t.Errorf("Canonical(%.20q) = %q, %v; want an error", host, got, err)
		}
	}
}

func TestFitsBinding(t *testing.T) {
	at := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	good := &secret.Binding{Hosts: []string{"a.example", "http://plain.example", "POST https://post.example"},
		Header: "X-Key"}
	for _, tt := range []struct {
		name, method string
		with         *secret.Binding
		to           *url.URL
		want         bool
	}{
		{"its host", "", good, at("https://a.example"), true},
		{"another host", "", good, at("https://b.example"), false},
		{"without TLS", "", good, at("http://a.example/"), false},
		{"without TLS where the binding says so", "", good, at("http://plain.example/"), true},
		{"another port", "", good, at("https://a.example:8443/"), false},
		{"a port that is none", "", good, &url.URL{Scheme: "https", Host: "a.example:65979"}, false},
		{"another method", "", good, at("https://post.example/"), false},
		{"its method", "POST", good, at("https://post.example/"), true},
		{"a binding that cannot be read", "", &secret.Binding{Hosts: []string{"*"}, Header: "X"},
			at("https://a.example"), false},
	} {
		if got := egress.FitsBinding(tt.with, tt.method, tt.to); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// A request that belongs to no call is not sent, and one that does is held against the rules of its call.
func TestByScope_needs_a_scope(t *testing.T) {
	sent := 0
	client := &http.Client{Transport: egress.ByScope(roundTrip(func(r *http.Request) (*http.Response, error) {
		sent++
		return text(200, ""), nil
	}))}
	send := func(scope *egress.Scope) error {
		ctx := t.Context()
		if scope != nil {
			ctx = scope.Context(ctx)
		}
		body := &closing{Reader: strings.NewReader("x")}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://a.example/", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		} else if !body.closed {
			t.Error("the body of a refused request is not closed")
		}
		return err
	}
	forbid := egress.ForbidBy(func(host string, _ uint16) string {
		return map[string]string{"a.example": "org/none"}[host]
	})
	if err := send(nil); haft.CodeOf(err) != haft.CodeDenied || sent > 0 {
		t.Errorf("without a scope: %v, %d sent", err, sent)
	}
	if err := send(&egress.Scope{Forbid: forbid}); haft.CodeOf(err) != haft.CodeDenied || sent > 0 {
		t.Errorf("forbidden: %v, %d sent", err, sent)
	}
	if egress.ForbidBy(nil) != nil {
		t.Error("nothing forbids something")
	}
	if err := send(&egress.Scope{Forbid: egress.ForbidBy(nil)}); err != nil || sent != 1 {
		t.Errorf("not forbidden: %v, %d sent", err, sent)
	}
}

// roundTrip is a function that is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// closing remembers that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestRanges(t *testing.T) {
	t.Setenv("HAFT_TEST_RANGES", "10.0.0.0/8, fd00::/8")
	if got, err := egress.Ranges("HAFT_TEST_RANGES"); err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	t.Setenv("HAFT_TEST_RANGES", "10.0.0.0/8,10.0.0.1")
	if got, err := egress.Ranges("HAFT_TEST_RANGES"); haft.CodeOf(err) != haft.CodeInvalid || len(got) > 0 {
		t.Errorf("an address for a range: %v %v", got, err)
	}
}

func TestSecret_Check(t *testing.T) {
	good := bind(t, egress.Place{Basic: "user"}, "a.example")
	bad := good
	bad.Place.Basic = "x"
	for _, tt := range []struct {
		name, value string
		with        egress.Secret
		want        haft.Code
	}{
		{"good", real, good, ""},
		{"without a value", "", good, ""},
		{"a place that is none", "", bad, haft.CodeInvalid},
		{"a value that does not fit", "user:name-and-more", good, haft.CodeInvalid},
	} {
		if err := tt.with.Check(tt.value); haft.CodeOf(err) != tt.want || err != nil && tt.value != "" &&
			strings.Contains(err.Error(), tt.value) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	many := make([]egress.Secret, egress.MaxBound+1)
	for i := range many {
		many[i] = good
		many[i].Placeholder = fmt.Sprintf("haft-placeholder-%08d", i)
	}
	if _, err := egress.NewBroker(egress.BrokerConfig{Secrets: many}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("too many secrets: %v", err)
	}
	if _, err := egress.NewBroker(egress.BrokerConfig{Secrets: many[1:]}); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}

// Of two Authorization headers, the server may read another than the broker.
func TestBroker_puts_no_secret_into_one_of_two_Authorizations(t *testing.T) {
	w, s, c := openBroker(t, egress.Place{Basic: "password"}, "api.example:*", nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example:"+w.http+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("ann", s.Placeholder)
	req.Header.Add("Authorization", "Basic YTpi")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := base64.StdEncoding.EncodeToString([]byte("ann:" + s.Placeholder))
	for _, r := range w.served() {
		if got := r.Header.Values("Authorization"); len(got) != 2 || got[0] != "Basic "+want {
			t.Errorf("the server got %q", got)
		}
	}
}

// An answer that is not encoded as it says could hide a secret.
func TestBroker_refuses_answers_that_are_not_as_they_say(t *testing.T) {
	for name, tt := range map[string]struct{ coding, body string }{
		"not gzip":            {"gzip", "plain " + real},
		"not zlib":            {"deflate", "\x78\x9c\xff\xff" + real},
		"begins like gzip":    {"", "\x1f\x8b\x08\xff\xff"},
		"begins like gzip, 2": {"identity", "\x1f\x8b\x00" + real},
	} {
		w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*",
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.coding != "" {
					w.Header().Set("Content-Encoding", tt.coding)
				}
				w.Header().Set("Content-Type", "application/octet-stream")
				fmt.Fprint(w, tt.body)
			}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example:"+w.http+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Key", s.Placeholder)
		resp, err := c.Do(req)
		if err != nil {
			t.Errorf("%s: no answer: %v", name, err)
			continue
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(got), real) || resp.StatusCode != http.StatusBadGateway && err == nil {
			t.Errorf("%s: %s %q %v", name, resp.Status, got, err)
		}
	}
}

// A mock that has no answer, and one whose answer cannot be had, give none.
func TestMock_without_an_answer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(egress.MockRequest) (*http.Response, error){
		"nothing":     func(egress.MockRequest) (*http.Response, error) { return nil, nil },
		"status 0":    func(egress.MockRequest) (*http.Response, error) { return text(0, "x"), nil },
		"status 101":  func(egress.MockRequest) (*http.Response, error) { return text(101, "x"), nil },
		"status 1000": func(egress.MockRequest) (*http.Response, error) { return text(1000, "x"), nil },
	} {
		g := egress.New(egress.Config{Mock: &egress.Mock{Answer: answer}})
		resp, err := g.Client().Get("https://api.example/") //nolint:noctx // nothing is sent
		if haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	asked := 0
	g := egress.New(egress.Config{Mock: &egress.Mock{Answer: func(egress.MockRequest) (*http.Response, error) {
		asked++
		return text(200, ""), nil
	}}})
	for name, body := range map[string]io.Reader{
		"a long body":                strings.NewReader(strings.Repeat("x", 8<<20+1)),
		"a body that cannot be read": iotest.ErrReader(errors.New("cut")),
	} {
		resp, err := g.Client().Post("https://api.example/", "", body) //nolint:noctx // nothing is sent
		if err == nil || asked > 0 {
			resp.Body.Close()
			t.Errorf("%s: %v, and the mock was asked %d times", name, err, asked)
		}
	}
	if _, err := egress.DialInside(t.Context(), g, "93.184.215.14:443"); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a connection of the proxy past the mock: %v", err)
	}
}

// What a real server answers to a mock is searched for secrets like any other answer.
func TestMock_sends_and_reads_no_answer_that_could_hide_a_secret(t *testing.T) {
	t.Parallel()
	sent := make(chan error, 1)
	m := openMock(t, egress.Place{Header: "Authorization"}, true, func(r egress.MockRequest) (*http.Response, error) {
		resp, err := r.Send()
		sent <- err
		return resp, err
	})
	status, body, _ := do(t, m.client, "POST", m.ports("https://api.example:HTTPS/"), "\x1f\x8b\x00"+real,
		"Authorization", m.secret.Placeholder)
	if err := <-sent; err == nil || status != http.StatusBadGateway || strings.Contains(body, real) {
		t.Errorf("%v, %d %q", err, status, body)
	}
}

// Without a broker TLS cannot be opened, so that a mock cannot answer.
func TestMock_needs_a_broker_for_TLS(t *testing.T) {
	t.Parallel()
	w := openMocked(t, egress.ProxyConfig{}, []string{"https://api.example"}, nil,
		&egress.Mock{Answer: func(egress.MockRequest) (*http.Response, error) { return text(200, ""), nil }})
	resp, err := w.client(nil).Get("https://api.example/") //nolint:noctx // it is refused
	if err == nil {
		resp.Body.Close()
	}
	if r := w.records(1)[0]; err == nil || r.Refusal == nil || r.Refusal.Rule != egress.RuleMock {
		t.Errorf("%v, on record as %+v, want refused by the mock", err, r)
	}
	if len(w.served()) > 0 {
		t.Error("something was sent past the mock")
	}
}

func TestRules_are_bounded(t *testing.T) {
	for name, texts := range map[string][]string{
		"too many rules":      slices.Repeat([]string{"a.example"}, 1001),
		"a rule that is none": {"a.example", "*"},
	} {
		if rules, err := egress.ParseRules(texts); haft.CodeOf(err) != haft.CodeInvalid || len(rules) > 0 {
			t.Errorf("%s: %d rules, %v", name, len(rules), err)
		}
	}
	// Not even the rule for every host allows what is no destination.
	for _, d := range []egress.Dest{{Host: "a.example"}, {Host: "a b", Port: 443}, {Host: "0x7f.1", Port: 443}} {
		if _, ok := (egress.Rules{egress.Full()}).Allows(d); ok {
			t.Errorf("%s:%d is allowed", d.Host, d.Port)
		}
	}
}

func TestScope_refuses_what_names_no_host(t *testing.T) {
	var made []egress.Connection
	scope := egress.Scope{Record: func(c egress.Connection) { made = append(made, c) }}
	next := scope.Wrap(roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return text(200, ""), nil
	}))
	for _, host := range []string{"0x7f.1", "a.example:0", "::1", "a b"} {
		req := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: host, Path: "/"}}
		resp, err := next.RoundTrip(req.WithContext(t.Context()))
		if haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	if len(made) != 4 || made[0].Refusal == nil || made[0].Refusal.Rule != egress.RuleName {
		t.Errorf("on record: %+v", made)
	}
}

// A tunnel that is opened here connects only later: the host is held against the guard before all the same.
func TestProxy_refuses_tunnels_to_local_names(t *testing.T) {
	b, err := egress.NewBroker(egress.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"GET https://vault.internal/v1/*"}, nil)
	resp, _ := w.raw("CONNECT vault.internal:443 HTTP/1.1\r\nHost: vault.internal:443\r\n\r\n")
	if r := w.records(1)[0]; resp.StatusCode != http.StatusForbidden || r.Refusal == nil ||
		r.Refusal.Rule != egress.RuleName {
		t.Errorf("%s, on record as %+v", resp.Status, r)
	}
}

// Of many values of one secret, no more are sent than can be kept out of answers.
func TestBroker_sends_no_more_values_than_it_can_keep(t *testing.T) {
	s := bind(t, egress.Place{Header: "X-Key"}, "http://api.example:*")
	n := 0
	s.Value = func(context.Context) (string, error) {
		n++
		return fmt.Sprintf("value-%08d-of-a-secret", n), nil
	}
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"http://api.example:HTTP_"}, nil)
	c := w.client(nil)
	for sent := range 1000 {
		status, body, _ := do(t, c, "GET", "http://api.example:"+w.http+"/", "", "X-Key", s.Placeholder)
		if status == http.StatusBadGateway {
			if len(w.served()) != sent || sent == 0 {
				t.Errorf("%d requests were served, want %d: %s", len(w.served()), sent, body)
			}
			return
		}
	}
	t.Error("1000 values were sent, of each of which several forms have to be kept out of answers")
}
