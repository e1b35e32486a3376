package apimock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/apimock"
	"haft/internal/egress"
	"haft/internal/secret"
	"haft/internal/yamltree"
)

// recordings are requests and what the real API answers.
var recordings = []struct{ name, request, contentType, body string }{
	{"json", "GET https://api.example/v1/now?q=b&city=Berlin", "application/json",
		`{"z": 1, "a": [1.50, 12345678901234567890, "ü\u2028\ud83d\ude00"], "n": null, "e": {}, "l": []}`},
	{"the same again", "GET https://api.example/v1/now?city=Berlin&q=b", "application/json", `{"z": 2}`},
	{"text", "GET https://api.example/text", "text/plain", "one\n  two: {x}\n# three\n"},
	{"text without a last newline", "GET https://api.example/text2", "text/plain", "one\ntwo"},
	{"text that YAML would change", "GET https://api.example/odd", "text/plain", " a\r\n\tb \n\n\n"},
	{"text with an escape", "GET https://api.example/esc", "text/plain", "\x1b[31mred"},
	{"empty", "DELETE https://api.example/x", "", ""},
	{"bytes", "GET https://api.example/png", "image/png", "\x89PNG\x00\xff"},
	{"deep json", "GET https://api.example/deep", "application/json",
		strings.Repeat("[", 60) + strings.Repeat("]", 60)},
	{"post", "POST https://api.example/v1\nContent-Type: application/json\n\n{\"a\": \"b\nc\"}", "text/html",
		"<p>hi</p>"},
	{"long post", "POST https://api.example/v1\n\n" + strings.Repeat("x", 10_000), "text/html", "<p>long</p>"},
}

func TestCassette_replays_what_was_recorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.cassette.yaml")
	rec := open(t, "mock: []", apimock.Options{Cassette: file, Record: true})
	for _, r := range recordings {
		req := request(t, r.request)
		req.Send = func() (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", r.contentType)
			w.Header().Set("Date", "today")
			w.WriteHeader(201)
			_, err := w.WriteString(r.body)
			return w.Result(), err
		}
		resp, err := rec.Answer(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != r.body {
			t.Errorf("%s: the tool got %q, %v", r.name, b, err)
		}
	}
	if err := rec.Save(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "    body: |\n      one\n") {
		t.Errorf("one odd answer makes all others hard to read: %v\n%s", err, text)
	}
	m := open(t, "mock: []", apimock.Options{Cassette: file})
	for _, r := range recordings {
		got := ask(t, m, r.request)
		body := strings.TrimPrefix(got, "201 ")
		if strings.HasPrefix(r.body, "{") { // written in another way
			if !sameJSON(t, body, r.body) {
				t.Errorf("%s: replayed as %s, want %s", r.name, body, r.body)
			}
		} else if want := strings.TrimSpace("201 " + r.body); got != want {
			t.Errorf("%s: replayed as %q, want %q", r.name, got, want)
		}
	}
	for request, want := range map[string]string{
		"GET https://api.example/text": "GET https://api.example/text was recorded 1 times, and this is one more",
		"GET https://api.example/other": "GET https://api.example/other is not in the cassette x.cassette.yaml; " +
			"there is no rule",
	} {
		if got := ask(t, m, request); got != "599 haft test: "+want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	if n := len(m.Report().Unexpected); n != 2 {
		t.Errorf("%d unexpected requests, want 2", n)
	}
}

// sameJSON compares JSON by value, numbers as they are written.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{a, b} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	return cmp.Equal(values[0], values[1])
}

func TestCassette_is_readable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.cassette.yaml")
	m := open(t, "mock: []", apimock.Options{Cassette: file, Record: true})
	req := request(t, "GET https://api.example/v1?b=2&a=1")
	req.Send = func() (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		_, err := w.WriteString(`{"temp":12,"wind":{"speed":3}}`)
		return w.Result(), err
	}
	resp, err := m.Answer(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `version: 1
exchanges:
- request:
    method: "GET"
    url: "https://api.example/v1?a=1&b=2"
  answer:
    status: 200
    headers:
      "Content-Type": ["application/json"]
    json: {
        "temp": 12,
        "wind": {
          "speed": 3
        }
      }
`
	if d := cmp.Diff(want, string(got[strings.Index(string(got), "version"):])); d != "" {
		t.Error(d)
	}
}

// Nothing that could be a credential is in a cassette, and a replay with other credentials finds its answers.
func TestCassette_has_no_secrets(t *testing.T) {
	t.Parallel()
	const value = "hunter2hunter2"
	file := filepath.Join(t.TempDir(), "x.cassette.yaml")
	values := func(v string) []secret.Named {
		return []secret.Named{{Name: "PASSWORD", Value: secret.New(v)}}
	}
	requests := func(v string) []string {
		return []string{
			"GET https://api.example/v1?api_key=" + v + "1&key=${secrets.KEY}&city=" + v +
				"\nAuthorization: Bearer " + v + "\nCookie: s=" + v,
			"POST https://api.example/form\nContent-Type: application/x-www-form-urlencoded\n\n" +
				"user=me&password=" + v + "2",
			"POST https://api.example/json\n\n" + `{"client_secret": "` + v + `3", "text": "` + v + `"}`,
			"POST https://api.example/long\n\n" + strings.Repeat("x", 5000) + v,
		}
	}
	rec := open(t, "mock: []", apimock.Options{Cassette: file, Record: true, Secrets: values(value)})
	for _, text := range requests(value) {
		req := request(t, text)
		req.Send = func() (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Set-Cookie", "session="+value)
			w.Header().Set("X-Secret", value)
			w.Header().Set("Location", "https://b.example/?code="+value+"9")
			fmt.Fprintf(w, `{"access_token": %q, "list": [{"password": %q}], "echo": %q, "error": {"code": "kept"}}`,
				"tok-"+value, value+"4", value)
			return w.Result(), nil
		}
		resp, err := rec.Answer(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(b), "tok-"+value) {
			t.Errorf("the tool, which needs its token, got %s", b)
		}
	}
	if err := rec.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"hunter", "Cookie", "Authorization", "X-Secret"} {
		if strings.Contains(string(got), bad) {
			t.Errorf("the cassette has %s:\n%s", bad, got)
		}
	}
	if !strings.Contains(string(got), "${secrets.KEY}") || !strings.Contains(string(got), `"kept"`) {
		t.Errorf("the cassette lacks what is no secret:\n%s", got)
	}
	m := open(t, "mock: []", apimock.Options{Cassette: file, Secrets: values("another-password")})
	for _, text := range requests("another-password") {
		if got := ask(t, m, text); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%.60s: %s", text, got)
		}
	}
}

func TestCassette_refuses(t *testing.T) {
	t.Parallel()
	_, err := apimock.New(nil, apimock.Options{Cassette: filepath.Join(t.TempDir(), "none.yaml")})
	if haft.CodeOf(err) != haft.CodeNotFound || !strings.Contains(haft.MessageOf(err), "haft test --record") {
		t.Errorf("no cassette: %v", err)
	}
	for name, text := range map[string]string{
		"another version": "version: 2\nexchanges: []\n",
		"unknown field":   "version: 1\nexchanges: []\nx: 1\n",
		"bad status":      "version: 1\nexchanges:\n- {request: {method: GET, url: x}, answer: {status: 1}}\n",
		"template": "version: 1\nexchanges:\n- {request: {method: GET, url: x}, " +
			"answer: {body: x, template: true}}\n",
		"too many": "version: 1\nexchanges:\n" +
			strings.Repeat("- {request: {method: GET, url: x}, answer: {status: 200}}\n", 1001),
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := apimock.New(nil, apimock.Options{Cassette: file}); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}

// A recording that failed is not saved: half a cassette would fail later, and elsewhere.
func TestCassette_is_not_saved_after_errors(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func() (*http.Response, error){
		"not permitted": nil,
		"no answer":     func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"too long": func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.LimitReader(zeros{}, 2<<20))}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.yaml")
			m := open(t, "mock: []", apimock.Options{Cassette: file, Record: true})
			req := request(t, "GET https://api.example/")
			req.Send = send
			if _, err := m.Answer(req); err == nil { //nolint:bodyclose // there is none
				t.Error("an answer, want an error")
			}
			if err := m.Save(); err == nil {
				t.Error("Save has no error")
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("there is a cassette")
			}
		})
	}
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Rules win over the cassette, and are not recorded.
func TestCassette_comes_after_rules(t *testing.T) {
	t.Parallel()
	m := open(t, "mock:\n- {request: {path: /a}, answer: {body: ruled}}\n",
		apimock.Options{Cassette: filepath.Join(t.TempDir(), "x.yaml"), Record: true})
	if got := ask(t, m, "GET https://api.example/a"); got != "200 ruled" {
		t.Error(got)
	}
}

func FuzzCassette(f *testing.F) {
	f.Add("version: 1\nexchanges:\n- {request: {method: GET, url: x}, answer: {status: 200, body: x}}\n")
	f.Add("version: 1\nexchanges:\n- request: {method: GET, url: x}\n  answer: {json: {a: [1]}, headers: {a: b}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := apimock.New(nil, apimock.Options{Cassette: file})
		if err != nil {
			if code := haft.CodeOf(err); code != haft.CodeInvalid {
				t.Errorf("%q: code %s of %v", text, code, err)
			}
			return
		}
		ask(t, m, "GET https://api.example/")
	})
}

func FuzzRules(f *testing.F) {
	f.Add("mock:\n- {request: {method: GET, path: /a*, query: {a: /b/}, json: {a: 1}}, answer: {body: x}}\n", "{}")
	f.Add("mock:\n- {answers: [{template: true, body: \"{{range .JSON}}{{json .}}{{end}}\"}], rate: 1/s}\n", `[1]`)
	f.Add("mock:\n- {request: {headers: {a: null}, body: /x/}, answer: {base64: aGk=, cut: in-body}, per: a}\n", "x")
	f.Fuzz(func(t *testing.T, text, body string) {
		var doc struct {
			Mock []apimock.Rule `json:"mock"`
		}
		if yamltree.Read("x", []byte(text), &doc) != nil {
			return
		}
		for i := range doc.Mock { // what would wait
			for j := range doc.Mock[i].Answers {
				doc.Mock[i].Answers[j].Delay = 0
			}
			if a := doc.Mock[i].Answer; a != nil {
				a.Delay = 0
			}
		}
		m, err := apimock.New(doc.Mock, apimock.Options{})
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://api.example/a?b=c",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.Answer(egress.MockRequest{Request: req})
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); len(b) > 1<<20 || resp.StatusCode < 200 || resp.StatusCode > 599 {
			t.Errorf("status %d, %d bytes", resp.StatusCode, len(b))
		}
	})
}

// A recording without an answer leaves what was recorded before.
func TestSave_without_answers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nexchanges: []\n# kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := apimock.New(nil, apimock.Options{Cassette: file, Record: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(got), "# kept\n") {
		t.Errorf("the file has %q, %v", got, err)
	}
}
