package apimock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/apimock"
	"haft/internal/egress"
	"haft/internal/yamltree"
)

// rules reads rules as a test file has them.
func rules(t testing.TB, text string) []apimock.Rule {
	t.Helper()
	var doc struct {
		Mock []apimock.Rule `json:"mock"`
	}
	if err := yamltree.Read("x_test.yaml", []byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Mock
}

// open makes a mock of rules.
func open(t testing.TB, text string, o apimock.Options) *apimock.Mock {
	t.Helper()
	m, err := apimock.New(rules(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// request makes a request: METHOD URL, then headers as NAME: VALUE, then an empty line and the body.
func request(t testing.TB, text string) egress.MockRequest {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	method, to, _ := strings.Cut(lines[0], " ")
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		r.Header.Add(name, value)
	}
	return egress.MockRequest{Request: r}
}

// ask returns status and body of the answer to a request.
func ask(t testing.TB, m *apimock.Mock, text string) string {
	t.Helper()
	resp, err := m.Answer(request(t, text))
	if err != nil {
		return "error: " + err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%d %s then %v", resp.StatusCode, b, err)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, b))
}

func TestMock_matches_requests(t *testing.T) {
	t.Parallel()
	const yes = "200 yes"
	for _, c := range []struct{ name, rule, request, want string }{
		{"everything", `{}`, "GET https://a.example/x", yes},
		{"method", `{method: get}`, "GET https://a.example/", yes},
		{"one of methods", `{method: GET|POST}`, "POST https://a.example/", yes},
		{"another method", `{method: GET}`, "POST https://a.example/", "the method is POST, want GET"},
		{"host", `{host: A.example}`, "GET https://a.example:8443/", yes},
		{"host and port", `{host: "a.example:8443"}`, "GET https://a.example:8443/", yes},
		{"host on another port", `{host: "a.example:8443"}`, "GET https://a.example/",
			`the host is "a.example", want a.example:8443`},
		{"hosts", `{host: "*.example"}`, "GET https://a.b.example/", yes},
		{"a host that only ends so", `{host: "*.example"}`, "GET https://example/", `the host is "example", want *.example`},
		{"path", `{path: /v1/*}`, "GET https://a.example/v1/x/y", yes},
		{"no path", `{path: /}`, "GET https://a.example", yes},
		{"middle of a path", `{path: /v1/*/now}`, "GET https://a.example/v1/x/now", yes},
		{"overlap in a path", `{path: /ab*ba}`, "GET https://a.example/aba", `the path is "/aba", want /ab*ba`},
		{"escaped path", `{path: /a b}`, "GET https://a.example/a%20b", yes},
		{"query", `{query: {q: x, n: 1}}`, "GET https://a.example/?n=1&q=x&z=2", yes},
		{"another parameter", `{query: {q: x}}`, "GET https://a.example/?q=y", `the parameter q is "y", want "x"`},
		{"missing parameter", `{query: {q: /^a+$/}}`, "GET https://a.example/", `the parameter q is missing, want /^a+$/`},
		{"expression", `{query: {q: /^a+$/}}`, "GET https://a.example/?q=aaa", yes},
		{"none of a parameter", `{query: {q: null}}`, "GET https://a.example/", yes},
		{"one where none is wanted", `{query: {q: null}}`, "GET https://a.example/?q=", `the parameter q is "", want none`},
		{"header", `{headers: {x-a: b}}`, "GET https://a.example/\nX-A: b", yes},
		{"secret by name", `{headers: {authorization: "Bearer ${secrets.KEY}"}}`,
			"GET https://a.example/\nAuthorization: Bearer ${secrets.KEY}", yes},
		{"another header", `{headers: {x-a: b}}`, "GET https://a.example/\nX-A: c", `the header x-a is "c", want "b"`},
		{"body", `{body: abc}`, "POST https://a.example/\n\nabc", yes},
		{"another body", `{body: abc}`, "POST https://a.example/\n\nabcd", `the body is "abcd", want "abc"`},
		{"part of a body", `{body: /b+/}`, "POST https://a.example/\n\nabba", yes},
		{"json", `{json: {a: {b: 1.0}, l: [{x: y}]}}`, "POST https://a.example/\n\n" +
			`{"z": 0, "a": {"b": 1, "c": 2}, "l": [{"x": "y", "w": null}]}`, yes},
		{"json that differs", `{json: {a: {b: 2}}}`, "POST https://a.example/\n\n" + `{"a": {"b": 1}}`,
			"/a/b of the body is 1, want 2"},
		{"json with a longer list", `{json: {a: [1]}}`, "POST https://a.example/\n\n" + `{"a": [1, 2]}`,
			"/a of the body is no list of 1"},
		{"json without a field", `{json: {a: null}}`, "POST https://a.example/\n\n" + `{}`, `the body has no field "a"`},
		{"no json", `{json: {a: 1}}`, "POST https://a.example/\n\n<a>", "the body is not JSON"},
		{"two values of json", `{json: {a: 1}}`, "POST https://a.example/\n\n" + `{"a": 1} {"a": 1}`, "the body is not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := open(t, "mock:\n- request: "+c.rule+"\n  answer: {body: \"yes\"}\n", apimock.Options{})
			got := ask(t, m, c.request)
			if c.want == yes && got != yes || c.want != yes && (!strings.HasPrefix(got, "599 ") ||
				!strings.Contains(got, "the nearest is rule 1 (line 2): "+c.want)) {
				t.Errorf("%s for %q: %s, want %s", c.rule, c.request, got, c.want)
			}
			if n := len(m.Report().Unexpected); n != map[bool]int{true: 0, false: 1}[c.want == yes] {
				t.Errorf("%d unexpected requests", n)
			}
		})
	}
}

func TestMock_answers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		requests   []string
		want       []string
	}{
		{"in order, the last again", `answers: [{status: 500}, {status: 503, body: wait}, {json: {a: 1}}]`,
			[]string{"GET https://a.example/", "GET https://a.example/", "GET https://a.example/",
				"GET https://a.example/"},
			[]string{"500", "503 wait", `200 {"a":1}`, `200 {"a":1}`}},
		{"a number of times", `{answer: {body: x}, times: 1}`, []string{"GET https://a.example/", "GET https://a.example/"},
			[]string{"200 x", "599 haft test: no rule is for GET https://a.example/; the nearest is rule 1 (line 2): " +
				"it is for 1 requests, and this is one more"}},
		{"in order for each token", `{answers: [{body: fresh}, {status: 401}], per: authorization}`,
			[]string{"GET https://a.example/\nAuthorization: a", "GET https://a.example/\nAuthorization: a",
				"GET https://a.example/\nAuthorization: b"}, []string{"200 fresh", "401", "200 fresh"}},
		{"template", `answer: {template: true, body: "{{.Method}} {{.Host}} {{index .Segments 1}} {{.Query.q}} ` +
			`{{.Headers.Accept}} {{.N}} {{range $i, $x := .JSON.l}}{{if $i}},{{end}}{{json $x}}{{else}}none{{end}}"}`,
			[]string{"POST https://a.example/v1/berlin?q=z\nAccept: json\n\n{\"l\": [1, \"x\"]}",
				"GET https://a.example/a/b"},
			[]string{`200 POST a.example berlin z json 1 1,"x"`, "200 GET a.example b   2 none"}},
		{"template that fails", `answer: {template: true, body: "{{index .Segments 9}}"}`, []string{"GET https://a.example/"},
			[]string{"599 haft test: rule 1 (line 2) of the mock: fill in the template of the answer: " +
				"template: answer:1:2: executing \"answer\" at <index .Segments 9>: error calling index: " +
				"index out of range: 9"}},
		{"malformed", `answer: {json: {a: 1, b: 2}, malformed: true}`, []string{"GET https://a.example/"},
			[]string{`200 {"a":1`}},
		{"cut before the headers", `answer: {cut: before-headers}`, []string{"GET https://a.example/"},
			[]string{"error: " + egress.ErrCut.Error()}},
		{"cut after the headers", `answer: {body: abcd, cut: after-headers}`, []string{"GET https://a.example/"},
			[]string{"200  then " + egress.ErrCut.Error()}},
		{"cut in the body", `answer: {body: abcd, cut: in-body}`, []string{"GET https://a.example/"},
			[]string{"200 ab then " + egress.ErrCut.Error()}},
		{"bytes", `answer: {base64: aGk=}`, []string{"GET https://a.example/"}, []string{"200 hi"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := open(t, "mock:\n- "+c.rule+"\n", apimock.Options{})
			var got []string
			for _, r := range c.requests {
				got = append(got, ask(t, m, r))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestMock_refreshes_tokens(t *testing.T) {
	t.Parallel()
	m := open(t, `
mock:
- request: {method: POST, path: /token, body: /grant_type=refresh_token/}
  answer: {json: {access_token: new}}
  times: 1
- request: {path: /v1/*, headers: {authorization: Bearer new}}
  answer: {json: {temp: 12}}
- request: {path: /v1/*}
  answer: {status: 401, headers: {www-authenticate: 'Bearer error="invalid_token"'}}
`, apimock.Options{})
	got := []string{
		ask(t, m, "GET https://a.example/v1/now\nAuthorization: Bearer old"),
		ask(t, m, "POST https://a.example/token\n\ngrant_type=refresh_token&refresh_token=r"),
		ask(t, m, "GET https://a.example/v1/now\nAuthorization: Bearer new"),
	}
	if d := cmp.Diff([]string{"401", `200 {"access_token":"new"}`, `200 {"temp":12}`}, got); d != "" {
		t.Error(d)
	}
	r := m.Report()
	if len(r.Requests) != 3 || len(r.Unexpected)+len(r.Unused) > 0 || r.Requests[0].Rule != "rule 3 (line 8)" ||
		r.Requests[0].Status != 401 {
		t.Errorf("report: %+v", r)
	}
}

func TestMock_limits_the_rate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := open(t, "mock:\n- {answers: [{body: a}, {body: b}, {body: c}], rate: 2/s, per: x-key, times: 3}\n",
		apimock.Options{Now: func() time.Time { return now }})
	limit := func(text string) string {
		resp, err := m.Answer(request(t, text))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Retry-After"), b)
	}
	var got []string
	for _, step := range []time.Duration{0, 100, 100, 799, 1} {
		now = now.Add(step * time.Millisecond)
		got = append(got, limit("GET https://a.example/\nX-Key: 1"))
	}
	limited := `429 1 {"error": "too many requests", "retry_after": 1}`
	if d := cmp.Diff([]string{"200  a", "200  b", limited, limited, "200  c"}, got); d != "" {
		t.Error(d)
	}
	if u := m.Report().Unused; len(u) > 0 {
		t.Errorf("requests beyond the rate counted: %q", u)
	}
}

// A message has the beginning of a long URL, in the report and in the answer.
func TestMock_cuts_long_URLs(t *testing.T) {
	t.Parallel()
	m := open(t, "mock: [{request: {method: POST, path: /v2}, answer: {}}]", apimock.Options{})
	got := ask(t, m, "GET http://api.example/"+strings.Repeat("ü", 50_000)+"?q="+strings.Repeat("x", 50_000))
	list := m.Report().Unexpected
	if len(got) > 1000 || len(list) != 1 || len(list[0]) > 1000 ||
		!strings.Contains(list[0], "GET http://api.example/") {
		t.Errorf("the answer has %d bytes: %.2000s\n%q", len(got), got, list)
	}
}

func TestMock_reports_unused_rules(t *testing.T) {
	t.Parallel()
	m := open(t, "mock:\n- {answer: {}}\n- {request: {path: /x}, answer: {}, times: 2}\n", apimock.Options{})
	if d := cmp.Diff([]string{"rule 2 (line 3) of the mock got 0 requests, want 2"}, m.Report().Unused); d != "" {
		t.Error(d)
	}
}

func TestMock_delays(t *testing.T) {
	t.Parallel()
	m := open(t, "mock:\n- {answer: {body: x, delay: 30s}}\n", apimock.Options{})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if got := ask(t, m, "GET https://a.example/"); got != "200 x" || time.Since(start) != 30*time.Second {
			t.Errorf("%s after %s", got, time.Since(start))
		}
		r := request(t, "GET https://a.example/")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.Request = r.WithContext(ctx)
		if _, err := m.Answer(r); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is none
			t.Errorf("a program that left: %v", err)
		}
	})
}

func TestMock_is_safe_for_many(t *testing.T) {
	t.Parallel()
	m := open(t, "mock:\n- {answer: {body: x}, times: 50, per: x-n, rate: 1000/h}\n", apimock.Options{})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			ask(t, m, fmt.Sprintf("GET https://a.example/\nX-N: %d", i%3))
			m.Report()
		})
	}
	wg.Wait()
	if r := m.Report(); len(r.Requests) != 100 || len(r.Unexpected) != 50 || len(r.Unused) > 0 {
		t.Errorf("%d requests, %d unexpected, %q", len(r.Requests), len(r.Unexpected), r.Unused)
	}
}

func TestNew_refuses_rules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, want string }{
		{`{}`, "a rule needs an answer"},
		{`{answer: {}, answers: [{}]}`, "a rule needs an answer"},
		{`{answer: {status: 101}}`, "between 200 and 599"},
		{`{answer: {status: 99999}}`, "between 200 and 599"},
		{`{answer: {json: 1, body: x}}`, "one of json, body and base64"},
		{`{answer: {cut: x}}`, "cut is before-headers"},
		{`{answer: {delay: 11m}}`, "delay must be between"},
		{`{answer: {headers: {"a b": c}}}`, "cannot be sent"},
		{`{answer: {headers: {a: "b\r\nc: d"}}}`, "control characters"},
		{`{answer: {headers: {content-length: "3"}}}`, "cannot be set"},
		{`{answer: {}, rate: 2}`, "rate is a number"},
		{`{answer: {}, rate: 0/s}`, "rate is a number"},
		{`{answer: {}, times: -1}`, "times must be"},
		{`{answer: {}, per: "a b"}`, "per names a header"},
		{`{request: {method: "G T"}, answer: {}}`, "method is one"},
		{`{request: {host: "https://a"}, answer: {}}`, "host is a name"},
		{`{request: {path: a}, answer: {}}`, "path must begin with /"},
		{`{request: {path: /a?b=c}, answer: {}}`, "they belong in query"},
		{`{request: {json: {}, body: x}, answer: {}}`, "json or body, not both"},
		{`{answer: {template: true, body: "{{"}}`, "cannot be read"},
		{`{answer: {template: true, body: "{{range 1000000000}}{{end}}"}}`, "over a part of the request"},
		{`{answer: {template: true, body: "{{with 1000000000}}{{range .}}{{end}}{{end}}"}}`, "over a part of the request"},
		{`{answer: {template: true, body: "{{range .JSON}}{{range .x}}{{end}}{{end}}"}}`, "a loop in a loop"},
		{`{answer: {template: true, body: "{{$x := .Body}}{{$x}}"}}`, "no variables"},
		{`{answer: {template: true, body: "{{if $x := .Body}}{{$x}}{{end}}"}}`, "no variables"},
		{`{answer: {template: true, body: "{{printf \"%999999d\" 1}}"}}`, "and not printf"},
		{`{answer: {template: true, body: "{{(print .Body .Body).x}}"}}`, "and not print"},
		{`{answer: {template: true, body: "{{call .Body}}"}}`, "and not call"},
		{`{answer: {template: true, body: "{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}"}}`,
			"no other templates"},
		{`{answer: {template: true, body: "{{template \"answer\"}}"}}`, "not allowed"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			_, err := apimock.New(rules(t, "mock:\n- "+c.rule+"\n"), apimock.Options{})
			if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), c.want) ||
				!strings.HasPrefix(haft.MessageOf(err), "rule 1 (line 2): ") {
				t.Errorf("New(%s) = %v, want invalid: rule 1 … %s", c.rule, err, c.want)
			}
		})
	}
}

// A template makes no more text than a body may have, whatever a tool sends.
func TestMock_bounds_templates(t *testing.T) {
	t.Parallel()
	m := open(t, `mock:
- answer: {template: true, body: "{{range .JSON}}0123456789{{end}}"}
`, apimock.Options{})
	got := ask(t, m, "POST https://a.example/\n\n["+strings.Repeat("0,", 200_000)+"0]")
	if !strings.HasPrefix(got, "599 ") || !strings.Contains(got, "too long") {
		t.Errorf("an answer of 2 MB: %.200s", got)
	}
}
