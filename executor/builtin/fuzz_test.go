package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
)

// answer is a transport that gives one answer to everything.
type answer struct {
	contentType string
	body        []byte
}

// RoundTrip implements [http.RoundTripper].
func (a answer) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// FuzzFetch: whatever a server sends, there is a result that is no fault of ours,
// and what a model gets to see holds nothing that nobody sees.
func FuzzFetch(f *testing.F) {
	f.Add("text/html", "markdown", []byte(article))
	f.Add("text/html; charset=utf-16", "text", []byte("\xfe\xff\x00<\x00p"))
	f.Add("text/html", "html", []byte(`<p style="display:none">x<style>.a{b}@media{.c{`))
	f.Add("application/json", "", []byte(`{"a":[`))
	f.Add("text/plain", "raw", []byte("a\u202e\u200d"))
	f.Add(";;", "markdown", []byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, contentType, format string, body []byte) {
		s := builtin.New()
		if err := builtin.FetchWebpage(s, &http.Client{Transport: answer{contentType, body}}, nil); err != nil {
			t.Fatal(err)
		}
		res := execute(t, s, "fetch_webpage", map[string]any{"url": "http://example.com/a", "format": format}, nil)
		if res.Error != nil {
			if res.Error.Kind == haft.FailInternal || !utf8.ValidString(res.Error.Message) {
				t.Fatalf("got %+v", res.Error)
			}
			return
		}
		var p page
		if err := json.Unmarshal(res.Value, &p); err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Content + p.Title {
			hidden := unicode.Is(unicode.Cf, c) && c != '\u200c' && c != '\u200d' ||
				unicode.IsControl(c) && c != '\n' && c != '\t'
			if hidden && format != "raw" {
				t.Fatalf("%U is in %q", c, p.Content+p.Title)
			}
		}
		if strings.Contains(strings.ToLower(p.Content), "<script") && format == "html" &&
			strings.Contains(p.ContentType, "html") {
			t.Fatalf("a script is in %q", p.Content)
		}
	})
}

// FuzzAnswer: whatever the code makes of the driver's answer, the value is one that
// the schema promises.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{}`, `{"value":1}`, `{"exit":3}`, `{"error":{"kind":"x","message":"m"}}`, `[]`, `null`,
		`{"exit":"a"}`, `{"error":null,"value":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip()
		}
		s := runnerOver(t, func(context.Context, executor.Request) (*haft.Result, error) {
			return &haft.Result{Status: haft.StatusSuccess, Value: raw}, nil
		})
		res := execute(t, s, "run_code", map[string]any{"language": "python", "code": ""}, nil)
		var got codeResult
		if err := json.Unmarshal(res.Value, &got); err != nil || res.Status != haft.StatusSuccess {
			t.Fatalf("got %s %s, %v", res.Status, res.Value, err)
		}
		if (got.Status == haft.StatusSuccess) != (got.Error == nil) {
			t.Fatalf("got %s", res.Value)
		}
	})
}
