package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/internal/egress"
)

// mockWorld is a world with a mock that answers with what it was asked.
type mockWorld struct {
	*world
	secret egress.Secret
	client *http.Client

	mu    sync.Mutex
	asked []string // method, URL, Authorization and body of each request
	calls []haft.CallID
}

// openMock makes a world whose mock answers by next, or with "mocked" if that is nil.
func openMock(t *testing.T, place egress.Place, real bool,
	next func(egress.MockRequest) (*http.Response, error)) *mockWorld {
	t.Helper()
	m := &mockWorld{secret: bind(t, place, "http://api.example", "https://api.example", "https://api.example:1-65535")}
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{m.secret}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(r egress.MockRequest) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		m.mu.Lock()
		m.asked = append(m.asked, fmt.Sprintf("%s %s %q %s", r.Method, r.URL, r.Header.Get("Authorization"), body))
		m.calls = append(m.calls, r.Call)
		m.mu.Unlock()
		if err != nil || next != nil {
			return next(r)
		}
		return text(200, "mocked"), nil
	}
	m.world = openMocked(t, egress.ProxyConfig{Broker: b, Caller: egress.Caller{Call: "c_1"}}, []string{"api.example",
		"https://api.example:HTTPS",
		"http://api.example:HTTP_", "tcp://raw.example:5432", "10.0.0.7:80", "GET https://narrow.example/open/*"}, nil,
		&egress.Mock{Answer: answer, Real: real})
	m.client = m.world.client(nil)
	roots := m.roots.Clone()
	roots.AppendCertsFromPEM(b.CAPEM())
	m.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
	return m
}

// text makes a response.
func text(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body))}
}

// untouched fails the test if a server or the DNS was asked.
func (m *mockWorld) untouched() {
	m.t.Helper()
	if n := len(m.served()); n > 0 {
		m.t.Errorf("%d requests reached a server past the mock", n)
	}
	m.zone.mu.Lock()
	defer m.zone.mu.Unlock()
	if len(m.zone.asked) > 0 {
		m.t.Errorf("names were looked up past the mock: %v", m.zone.asked)
	}
}

func TestMock_answers_instead_of_servers(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"http://api.example/a?b=c", "https://api.example/a?b=c",
		"https://api.example:HTTPS/a?b=c",
		"http://api.example:HTTP_/a?b=c"} {
		t.Run(u, func(t *testing.T) {
			t.Parallel()
			m := openMock(t, egress.Place{Header: "Authorization"}, false, nil)
			for range 2 { // on one connection
				status, body, _ := do(t, m.client, "POST", m.ports(u), "the body")
				if status != 200 || body != "mocked" {
					t.Errorf("%s = %d %q, want the mock's answer", u, status, body)
				}
			}
			want := fmt.Sprintf("POST %s \"\" the body", m.ports(u))
			if len(m.asked) != 2 || m.asked[1] != want || m.calls[0] != "c_1" {
				t.Errorf("the mock was asked %q of calls %q, want %q of c_1", m.asked, m.calls, want)
			}
			m.untouched()
		})
	}
}

func TestMock_shows_names_of_secrets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		place egress.Place
		url   string
		auth  func(placeholder string) string
		want  string
	}{
		"header": {egress.Place{Header: "Authorization"}, "https://api.example/",
			func(p string) string { return "Bearer " + p }, `GET https://api.example/ "Bearer ${secrets.api-key}" `},
		"query": {egress.Place{Query: "key"}, "https://api.example/?key=PLACEHOLDER", nil,
			`GET https://api.example/?key=%24%7Bsecrets.api-key%7D "" `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMock(t, c.place, false, func(r egress.MockRequest) (*http.Response, error) {
				return text(200, fmt.Sprint(r.Header, r.URL)), nil
			})
			var header []string
			if c.auth != nil {
				header = []string{"Authorization", c.auth(m.secret.Placeholder)}
			}
			_, body, _ := do(t, m.client, "GET", strings.Replace(c.url, "PLACEHOLDER",
				url.QueryEscape(m.secret.Placeholder), 1), "", header...)
			if len(m.asked) != 1 || m.asked[0] != c.want {
				t.Errorf("the mock was asked %q, want %q", m.asked, c.want)
			}
			if strings.Contains(body, real) {
				t.Error("the mock got the value of the secret")
			}
			if got := m.records(1)[0].Secrets; len(got) != 1 || got[0] != "api-key" {
				t.Errorf("secrets on record: %q", got)
			}
		})
	}
}

// What is refused without a mock is refused with one, and what a mock cannot answer is not sent.
func TestMock_keeps_refusals(t *testing.T) {
	t.Parallel()
	m := openMock(t, egress.Place{Header: "Authorization"}, false, nil)
	for _, c := range []struct{ name, request, want string }{
		{"host that is not listed", "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n", "not-listed"},
		{"tunnel that is not listed", "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example\r\n\r\n",
			"not-listed"},
		{"private address", "GET http://10.0.0.7/ HTTP/1.1\r\nHost: 10.0.0.7\r\n\r\n", "range"},
		{"placeholder in the path", "GET http://api.example/" + m.secret.Placeholder +
			" HTTP/1.1\r\nHost: api.example\r\n\r\n", "placeholder"},
		{"websocket", "GET http://api.example/ HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\n" +
			"Upgrade: websocket\r\n\r\n", "mock"},
		{"fronting", "GET http://api.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n", "fronting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := m.raw(c.request)
			if got.StatusCode != 403 || got.Header.Get("X-Haft-Refused") != c.want {
				t.Errorf("%d by %q, want 403 by %q", got.StatusCode, got.Header.Get("X-Haft-Refused"), c.want)
			}
		})
	}
	if status, _, h := do(t, m.client, "POST", "https://narrow.example/open/x", ""); status != 403 {
		t.Errorf("a method that the rule does not allow: %d %v", status, h)
	}
	if len(m.asked) > 0 {
		t.Errorf("the mock was asked %q", m.asked)
	}
	m.untouched()
}

// A port for plain TCP, by CONNECT and by SOCKS, leads to no server: neither before nor after the first bytes.
func TestMock_passes_no_bytes_on(t *testing.T) {
	t.Parallel()
	m := openMock(t, egress.Place{Header: "Authorization"}, false, nil)
	for _, to := range []string{"api.example:" + m.https, "raw.example:5432"} {
		for name, hello := range map[string]string{
			"connect": "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n",
			"socks":   socksHello(t, to),
		} {
			t.Run(name+" "+to, func(t *testing.T) {
				c, err := net.Dial("tcp", m.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, hello+"\x00\x01raw bytes"); err != nil {
					t.Fatal(err)
				}
				if b, _ := io.ReadAll(c); strings.Contains(string(b), "served") {
					t.Errorf("a server answered: %q", b)
				}
			})
		}
	}
	for _, r := range m.records(4) {
		if r.Outcome != egress.OutcomeRefused {
			t.Errorf("on record as %+v, want refused", r)
		}
	}
	if _, err := m.guard.DialContext(t.Context(), "tcp", "api.example:"+m.https); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("DialContext past the mock: %v", err)
	}
	m.untouched()
}

// socksHello is a greeting and a CONNECT by name.
func socksHello(t *testing.T, to string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		t.Fatal(err)
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	return "\x05\x01\x00\x05\x01\x00\x03" + string(rune(len(host))) + host + string([]byte{byte(n >> 8), byte(n)})
}

func TestMock_cuts_connections(t *testing.T) {
	t.Parallel()
	failing := func(r egress.MockRequest) (*http.Response, error) {
		resp := text(200, strings.Repeat("x", 1000))
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("xxxx"), &failingReader{egress.ErrCut}))
		return resp, nil
	}
	for name, c := range map[string]struct {
		answer func(egress.MockRequest) (*http.Response, error)
		status int
	}{
		"before the headers": {func(egress.MockRequest) (*http.Response, error) { return nil, egress.ErrCut }, 0},
		"in the body":        {failing, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openMock(t, egress.Place{Header: "Authorization"}, false, c.answer)
			for _, u := range []string{"http://api.example/", "https://api.example/"} {
				resp, err := m.client.Post(u, "", strings.NewReader("x"))
				if c.status == 0 {
					if err == nil {
						resp.Body.Close()
						t.Errorf("%s has an answer: %d", u, resp.StatusCode)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil || len(b) > 100 {
					t.Errorf("%s: %d bytes and error %v, want a part of the body and an error", u, len(b), err)
				}
			}
		})
	}
}

// failingReader fails.
type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestMock_sends_only_if_permitted(t *testing.T) {
	t.Parallel()
	for _, permitted := range []bool{false, true} {
		t.Run(fmt.Sprint(permitted), func(t *testing.T) {
			t.Parallel()
			echo := func(r egress.MockRequest) (*http.Response, error) {
				if r.Send == nil {
					return nil, errors.New("no way to send")
				}
				resp, err := r.Send()
				if err != nil {
					return nil, err
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				return text(resp.StatusCode, string(b)+" by "+r.Header.Get("Authorization")), err
			}
			m := openMock(t, egress.Place{Header: "Authorization"}, permitted, echo)
			u := m.ports("https://api.example:HTTPS/x")
			status, body, _ := do(t, m.client, "POST", u, "hello ", "Authorization", m.secret.Placeholder)
			if !permitted {
				if status != 502 {
					t.Errorf("status %d, want 502", status)
				}
				m.untouched()
				return
			}
			if status != 200 || body != "hello served "+m.ports("api.example:HTTPS")+" /x by ${secrets.api-key}" {
				t.Errorf("%d %q", status, body)
			}
			if got := m.served(); len(got) != 1 || got[0].Header.Get("Authorization") != real {
				t.Error("the server did not get the request with the secret's value")
			}
			// Past the mock there is still no way.
			if _, err := m.guard.DialContext(t.Context(), "tcp", "api.example:"+m.https); err == nil {
				t.Error("DialContext connects past the mock")
			}
		})
	}
}

func TestMock_bounds_bodies(t *testing.T) {
	t.Parallel()
	m := openMock(t, egress.Place{Header: "Authorization"}, false, nil)
	resp, err := m.client.Post("http://api.example/", "", strings.NewReader(strings.Repeat("x", 8<<20+1)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || len(m.asked) > 0 {
		t.Errorf("status %d, and the mock was asked %d times", resp.StatusCode, len(m.asked))
	}
}

// Requests of this process, as those of built-in tools and of token endpoints, are answered too.
func TestMock_answers_the_client_of_the_guard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the server was reached")
	}))
	defer server.Close()
	var got []string
	g := egress.New(egress.Config{Mock: &egress.Mock{Answer: func(r egress.MockRequest) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		got = append(got, fmt.Sprintf("%s %s %s %s %v", r.Call, r.Method, r.URL, body, r.Send == nil))
		return text(201, "made"), err
	}}})
	client := *g.Client()
	client.Transport = egress.Scope{Caller: egress.Caller{Call: "c_9"}}.Wrap(client.Transport)
	req, err := http.NewRequestWithContext(context.Background(), "PUT", "https://api.example/x",
		strings.NewReader("in"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := "c_9 PUT https://api.example/x in true"; resp.StatusCode != 201 || len(got) != 1 || got[0] != want {
		t.Errorf("status %d, asked %q, want %q", resp.StatusCode, got, want)
	}
	if _, err := g.Client().Get(server.URL); haft.CodeOf(err) != haft.CodeDenied { //nolint:bodyclose,noctx // refused
		t.Errorf("a loopback address: %v, want it refused", err)
	}
}
