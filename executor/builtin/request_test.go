package builtin_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/egress"
)

// reply is the value of http_request.
type reply struct {
	URL       string            `json:"url"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	Truncated bool              `json:"truncated"`
	Notes     []string          `json:"notes"`
}

// newRequester starts a server, and a set that sends requests to it through a guard that allows it.
func newRequester(t testing.TB, h http.HandlerFunc) (*builtin.Set, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	guard := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	t.Cleanup(guard.CloseIdle)
	s := builtin.New()
	if err := builtin.HTTPRequest(s, guard.Client()); err != nil {
		t.Fatal(err)
	}
	return s, srv.URL
}

// ask sends a request, which must be answered.
func ask(t testing.TB, s *builtin.Set, args map[string]any) reply {
	t.Helper()
	res := execute(t, s, "http_request", args, nil)
	if res.Status != haft.StatusSuccess {
		t.Fatalf("got %s %+v", res.Status, res.Error)
	}
	var r reply
	if err := json.Unmarshal(res.Value, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequest_sends(t *testing.T) {
	s, at := newRequester(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Request-Id", "a\u202eb")
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s type=%q auth=%q %s", r.Method, r.URL.RawQuery, r.Header.Get("Content-Type"),
			r.Header.Get("Authorization"), body)
	})
	for name, tt := range map[string]struct {
		args map[string]any
		want string
	}{
		"get": {map[string]any{"method": "GET", "url": at + "/?a=1", "query": map[string]string{"b": "x y&c=2"},
			"headers": map[string]string{"authorization": "Basic eDp5"}}, `GET a=1&b=x+y%26c%3D2 type="" auth="Basic eDp5" `},
		"text": {map[string]any{"method": "POST", "url": at, "body": "plain"},
			`POST  type="text/plain; charset=utf-8" auth="" plain`},
		"JSON": {map[string]any{"method": "PUT", "url": at, "body": map[string]any{"n": 1}},
			`PUT  type="application/json" auth="" {"n":1}`},
		"JSON as a text": {map[string]any{"method": "PATCH", "url": at, "body": `[1]`},
			`PATCH  type="application/json" auth="" [1]`},
		"another type": {map[string]any{"method": "POST", "url": at, "body": "a=1",
			"headers": map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
			`POST  type="application/x-www-form-urlencoded" auth="" a=1`},
		"without":  {map[string]any{"method": "DELETE", "url": at}, `DELETE  type="" auth="" `},
		"an error": {map[string]any{"method": "GET", "url": at + "/none"}, `GET  type="" auth="" `},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, s, tt.args)
			var body string
			if err := json.Unmarshal(r.Body, &body); err != nil || body != tt.want {
				t.Errorf("the body is %s, want %s", r.Body, tt.want)
			}
			if want := map[bool]int{true: 404, false: 200}[name == "an error"]; r.Status != want {
				t.Errorf("the status is %d", r.Status)
			}
			if r.Headers["x-request-id"] != "ab" || r.Headers["set-cookie"] != "" || r.Truncated || r.Notes != nil {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestRequest_reads_answers(t *testing.T) {
	big := strings.Repeat("x", 60_000)
	for name, tt := range map[string]struct {
		kind, body, want, note string
		truncated              bool
	}{
		"JSON":             {"application/json", ` {"a":[1,null]} `, `{"a":[1,null]}`, "", false},
		"JSON of a vendor": {"application/vnd.api+json", `[]`, `[]`, "", false},
		"broken JSON":      {"application/json", `{"a"`, `"{\"a\""`, "", false},
		"deep JSON": {"application/json", strings.Repeat("[", 100) + strings.Repeat("]", 100),
			`"` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `"`, "", false},
		"a number as text": {"text/plain", `12`, `"12"`, "", false},
		"long":             {"text/plain", big, `"` + big[:50_000] + `"`, "", true},
		"long JSON":        {"application/json", `"` + big + `"`, `"\"` + big[:49_999] + `"`, "", true},
		"a picture":        {"image/png", "\x89PNG\x00", "null", "5 bytes of image/png", false},
		"an unknown text":  {"application/x-odd", "text", `"text"`, "", false},
		"latin1":           {"text/plain; charset=iso-8859-1", "caf\xe9", `"café"`, "", false},
		"hidden":           {"text/plain", "a\u202eb", "\"a\u202eb\"", "1 characters that nobody sees", false},
		"empty":            {"text/plain", "", "null", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, at := newRequester(t, serve(tt.kind, []byte(tt.body)).ServeHTTP)
			r := ask(t, s, map[string]any{"method": "GET", "url": at})
			if string(r.Body) != tt.want || r.Truncated != tt.truncated ||
				tt.note == "" != (r.Notes == nil) || !strings.Contains(strings.Join(r.Notes, ";"), tt.note) {
				t.Errorf("got %.200s truncated %v notes %q, want %.200s", r.Body, r.Truncated, r.Notes, tt.want)
			}
		})
	}
}

func TestRequest_refuses(t *testing.T) {
	s, at := newRequester(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	many := map[string]string{}
	for i := range 101 {
		many[fmt.Sprint("x-", i)] = "1"
	}
	for name, tt := range map[string]struct {
		args map[string]any
		want string
	}{
		"a method":             {map[string]any{"method": "CONNECT"}, "the method is one of"},
		"a method with a line": {map[string]any{"method": "GET / HTTP/1.1\r\nX: y"}, "the method is one of"},
		"a scheme":             {map[string]any{"url": "file:///etc/passwd"}, "http://"},
		"a password":           {map[string]any{"url": "http://a:b@example.com/"}, "before the @"},
		"a body of GET":        {map[string]any{"body": "x"}, "has no body"},
		"a large body": {map[string]any{"method": "POST", "body": strings.Repeat("x", 1<<20+1)},
			"is the most"},
		"a long query": {map[string]any{"query": map[string]string{"a": strings.Repeat("x", 9000)}},
			"longer than"},
		"many headers": {map[string]any{"headers": many}, "more than 50 headers"},
		"many queries": {map[string]any{"query": many}, "more than 100 parameters"},
		"a line end":   {map[string]any{"headers": map[string]string{"X-A": "1\r\nX-B: 2"}}, "line end"},
		"a line end in a name": {map[string]any{"headers": map[string]string{"X-A: 1\r\nX-B": "2"}},
			"the name of a header"},
		"a name of spaces": {map[string]any{"headers": map[string]string{"Host ": "x"}}, "the name of a header"},
		"a long header": {map[string]any{"headers": map[string]string{"X-A": strings.Repeat("x", 9000)}},
			"longer than"},
		"the host": {map[string]any{"headers": map[string]string{"hOST": "other.example"}}, "cannot be set"},
		"a length": {map[string]any{"headers": map[string]string{"Content-Length": "1"}}, "cannot be set"},
		"an encoding": {map[string]any{"headers": map[string]string{"Transfer-Encoding": "chunked"}},
			"cannot be set"},
		"a compression": {map[string]any{"headers": map[string]string{"Accept-Encoding": "br"}}, "cannot be set"},
		"of the proxy": {map[string]any{"headers": map[string]string{"Proxy-Authorization": "x"}},
			"cannot be set"},
		"twice": {map[string]any{"headers": map[string]string{"X-A": "1", "x-a": "2"}}, "there twice"},
		"an unbound secret": {map[string]any{"headers": map[string]string{"X-A": "{{ PLAIN }}"}},
			"haft secret set PLAIN"},
		"no secret": {map[string]any{"query": map[string]string{"k": "{{ NONE }}"}}, "haft secret set NONE"},
		"a secret for elsewhere": {map[string]any{"headers": map[string]string{"X-A": "{{ AWAY }}"}},
			"haft secret set AWAY"},
		"a private address": {map[string]any{"url": "http://10.0.0.1/"}, "not public"},
		"metadata":          {map[string]any{"url": "http://169.254.169.254/latest/"}, "not public"},
	} {
		t.Run(name, func(t *testing.T) {
			args := map[string]any{"method": "GET", "url": at}
			for k, v := range tt.args {
				args[k] = v
			}
			res := execute(t, s, "http_request", args, func(r *executor.Request) {
				r.Env = map[string]string{"PLAIN": "value-of-the-plain-secret", "AWAY": "placeholder-of-away"}
				r.Bound = map[string]bool{"AWAY": false}
			})
			if res.Error == nil || !strings.Contains(res.Error.Message, tt.want) ||
				strings.Contains(res.Error.Message, "value-of") ||
				strings.Contains(res.Error.Message, "placeholder-of") {
				t.Errorf("got %s %s %+v, want %q", res.Status, res.Value, res.Error, tt.want)
			}
		})
	}
}

func TestRequest_redirects(t *testing.T) {
	got := make(chan http.Header, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(other.Close)
	s, at := newRequester(t, func(w http.ResponseWriter, r *http.Request) {
		to, there := map[string]string{"/private": "http://10.0.0.1/", "/file": "file:///etc/passwd",
			"/metadata": "http://169.254.169.254/", "/loop": "/loop", "/other": other.URL, "/near": "/end"}[r.URL.Path]
		if there {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		got <- r.Header
	})
	headers := map[string]string{"X-Api-Token": "abc", "Authorization": "Bearer abc", "Accept": "text/csv"}
	for path, want := range map[string]string{"/private": "not public", "/metadata": "not public", "/file": "http://",
		"/loop": "redirects"} {
		res := execute(t, s, "http_request", map[string]any{"method": "GET", "url": at + path, "headers": headers}, nil)
		if res.Error == nil || !strings.Contains(res.Error.Message, want) {
			t.Errorf("%s: %s %s %+v", path, res.Status, res.Value, res.Error)
		}
	}
	ask(t, s, map[string]any{"method": "GET", "url": at + "/near", "headers": headers})
	if h := <-got; h.Get("X-Api-Token") != "abc" || h.Get("Authorization") != "Bearer abc" {
		t.Errorf("on the same server: %v", h)
	}
	ask(t, s, map[string]any{"method": "GET", "url": at + "/other?key=abc", "headers": headers})
	if h := <-got; strings.Contains(fmt.Sprint(h), "abc") || h.Get("Accept") != "text/csv" {
		t.Errorf("another server got %v", h)
	}
	r := ask(t, s, map[string]any{"method": "POST", "url": at + "/other", "body": "x", "headers": headers})
	if r.Status != 307 || r.Headers["location"] != other.URL || len(r.Notes) != 1 || len(got) != 0 {
		t.Errorf("a POST was answered with %+v", r)
	}
}

// A server that never stops, plain or compressed, costs a bounded part of it.
func TestRequest_bounds_what_comes(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s, at := newRequester(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("h", 2000))
			}
			out := io.Writer(w)
			if packed {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				out = z
			}
			for chunk := make([]byte, 1<<20); r.Context().Err() == nil; { // a gigabyte and more
				if _, err := out.Write(chunk); err != nil {
					return
				}
			}
		})
		r := ask(t, s, map[string]any{"method": "GET", "url": at, "max_chars": 1_000_000})
		var body string
		if err := json.Unmarshal(r.Body, &body); err != nil || len(body) != 200_000 || !r.Truncated {
			t.Errorf("packed %v: %d characters, truncated %v: %v", packed, len(body), r.Truncated, err)
		}
		if len(r.Headers) != 50 || len(r.Headers["x-0"]) != 1000 {
			t.Errorf("packed %v: %d headers", packed, len(r.Headers))
		}
	}
	s, at := newRequester(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	res := execute(t, s, "http_request", map[string]any{"method": "GET", "url": at, "timeout": 1}, nil)
	if res.Error == nil || !strings.Contains(res.Error.Message, "in time") {
		t.Errorf("a server that does not answer: %s %+v", res.Status, res.Error)
	}
}
