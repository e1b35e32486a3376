package builtin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/egress"
)

// page is the value of fetch_webpage.
type page struct {
	URL         string   `json:"url"`
	Status      int      `json:"status"`
	Title       string   `json:"title"`
	Content     string   `json:"content"`
	ContentType string   `json:"content_type"`
	Truncated   bool     `json:"truncated"`
	Notes       []string `json:"notes"`
}

// web is a server with a set that fetches from it.
type web struct {
	*httptest.Server
	set *builtin.Set
}

// newWeb starts a server, and a set whose client trusts it.
func newWeb(t testing.TB, secure bool, h http.Handler) web {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	s := builtin.New()
	if err := builtin.FetchWebpage(s, srv.Client(), fakePDF); err != nil {
		t.Fatal(err)
	}
	return web{srv, s}
}

// fakePDF has a file for its text.
func fakePDF(_ context.Context, _ string, file []byte, chars int) (builtin.PDF, error) {
	if len(file) > 1000 {
		return builtin.PDF{}, &haft.Error{Code: haft.CodeInvalid, Message: "the PDF cannot be read"}
	}
	return builtin.PDF{Title: "Paper", Content: string(file[:min(len(file), chars)]), Pages: 3, Read: 2}, nil
}

func TestFetch_reads_PDF(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, body, want string
		pdf              bool
	}{
		"by type":        {"application/pdf; q=1", "x\u202ey", "xy", true},
		"by its begin":   {"application/octet-stream", "%PDF-1.7 z", "%PDF-1.7 z", true},
		"text of a PDF":  {"text/plain", "%PDF-1.7 z", "%PDF-1.7 z", false},
		"more than fits": {"application/pdf", strings.Repeat("a", 60), strings.Repeat("a", 50), true},
	} {
		w := newWeb(t, false, serve(tt.kind, []byte(tt.body)))
		p := w.fetch(t, "/", map[string]any{"max_chars": 50})
		if p.Content != tt.want || (p.ContentType == "application/pdf") != tt.pdf || p.Truncated != tt.pdf ||
			tt.pdf != (p.Title == "Paper") || tt.pdf != strings.Contains(fmt.Sprint(p.Notes), "3 pages") {
			t.Errorf("%s: got %+v", name, p)
		}
	}
	for want, body := range map[string]string{"larger than": strings.Repeat("a", 20<<20+1),
		"cannot be read": strings.Repeat("a", 2000)} {
		w := newWeb(t, false, serve("application/pdf", []byte(body)))
		if res := execute(t, w.set, "fetch_webpage", map[string]any{"url": w.URL}, nil); res.Error == nil ||
			!strings.Contains(res.Error.Message, want) {
			t.Errorf("%s: %s %+v", want, res.Status, res.Error)
		}
	}
}

// serve answers everything with one body.
func serve(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		_, _ = w.Write(body) // a client that has enough closes the connection
	})
}

// fetch fetches path with more arguments.
func (w web) fetch(t testing.TB, path string, args map[string]any) page {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	args["url"] = w.URL + path
	res := execute(t, w.set, "fetch_webpage", args, nil)
	if res.Status != haft.StatusSuccess {
		t.Fatalf("got %s %+v", res.Status, res.Error)
	}
	var p page
	if err := json.Unmarshal(res.Value, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// article is a page with what pages have around their text.
const article = `<!doctype html><html><head><title>The  Title</title><style>p{color:red}.gone{display:none}</style><script>alert("script")</script></head>
<body><nav><a href="/home">Home</a></nav><article><h1>Heading</h1>
<p>The <b>first</b> paragraph is long enough to be taken for the main text of the page, with commas, and more commas, and an <a href="../other?a=1&amp;b=2">anchor</a>.</p>
<p>The second paragraph is also long enough to be taken for the main text of this page, as it has so many words in it, commas too.</p>
<ul><li>one</li><li>two</li></ul>
<table><tr><th>A</th><th>B</th></tr><tr><td colspan="1000000000">1</td><td rowspan="999999999">2</td></tr></table>
<pre><code>x  =  1
</code></pre><img src="data:image/png;base64,AAAA" alt="pic"><a href="javascript:alert(1)">click</a></article></body></html>`

func TestFetch_formats(t *testing.T) {
	w := newWeb(t, false, serve("text/html; charset=utf-8", []byte(article)))
	for _, c := range []struct {
		format   string
		has, not []string
	}{
		{"", []string{"The **first** paragraph", "[anchor](" + w.URL + "/other?a=1&b=2)", "- one", "| A", "x  =  1"},
			[]string{"<p>", "alert", "data:", "javascript", "color"}},
		{"text", []string{"The first paragraph", "one\ntwo", "x  =  1"}, []string{"**", "<", "http", "alert"}},
		{"html", []string{"<b>first</b>", "Home", `href="` + w.URL + `/home"`},
			[]string{"<script", "<style", "javascript:", "colspan"}},
		{"raw", []string{"<script>", `colspan="1000000000"`}, nil},
	} {
		t.Run("format_"+c.format, func(t *testing.T) {
			p := w.fetch(t, "/a/b", map[string]any{"format": c.format})
			if p.Status != 200 || p.URL != w.URL+"/a/b" || p.ContentType != "text/html" || p.Truncated ||
				p.Notes != nil {
				t.Errorf("got %+v", p)
			}
			if c.format != "raw" && p.Title != "The Title" {
				t.Errorf("the title is %q", p.Title)
			}
			for _, s := range c.has {
				if !strings.Contains(p.Content, s) {
					t.Errorf("%q is not in\n%s", s, p.Content)
				}
			}
			for _, s := range c.not {
				if strings.Contains(p.Content, s) {
					t.Errorf("%q is in\n%s", s, p.Content)
				}
			}
		})
	}
}

func TestFetch_leaves_out_what_nobody_sees(t *testing.T) {
	words := strings.Repeat("Seen words, with commas, in a row. ", 20)
	for name, html := range map[string]string{
		"display":             `<p style="color:red;display : none">EVIL</p>`,
		"important":           `<p style="DISPLAY:NONE!important">EVIL</p>`,
		"visibility":          `<p style="visibility:hidden">EVIL</p>`,
		"opacity":             `<p style="opacity:0.0">EVIL</p>`,
		"font_of_no_size":     `<span style="font-size:0">EVIL</span>`,
		"font_of_a_pixel":     `<span style="font-size: 1px;">EVIL</span>`,
		"box_of_no_size":      `<div style="height:0;overflow:hidden">EVIL</div>`,
		"outside":             `<div style="position:absolute;left:-9999px">EVIL</div>`,
		"clipped":             `<div style="clip:rect(0,0,0,0)">EVIL</div>`,
		"transparent":         `<div style="color: transparent">EVIL</div>`,
		"attribute":           `<p hidden>EVIL</p>`,
		"within":              `<div hidden><section><p>EVIL</p></section></div>`,
		"closed_dialog":       `<dialog>EVIL</dialog>`,
		"class":               `<style>/* x */ a, .gone, p{ display:none } @media print { .words { display: none } } </style><p class="x gone">EVIL</p>`,
		"id":                  `<style>div#gone{opacity:0}</style><div id="gone">EVIL</div>`,
		"class_of_an_at_rule": `<style>@media (min-width: 1px) { .x { color: red } } .gone{display:none}</style><b class="gone">EVIL</b>`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, false, serve("text/html",
				[]byte(`<html><body><article class="words"><p class="words">`+words+`</p>`+html+`<p>`+words+
					`</p></article></body></html>`)))
			for _, format := range []string{"markdown", "text", "html"} {
				p := w.fetch(t, "/", map[string]any{"format": format})
				if strings.Contains(p.Content, "EVIL") || !strings.Contains(p.Content, "Seen words") {
					t.Errorf("%s: the content is %s", format, p.Content)
				}
				if !strings.Contains(strings.Join(p.Notes, ";"), "4 characters that visitors of the page do not see") {
					t.Errorf("%s: the notes are %q", format, p.Notes)
				}
			}
			if p := w.fetch(t, "/", map[string]any{"format": "raw"}); !strings.Contains(p.Content, "EVIL") {
				t.Errorf("raw: the content is %s", p.Content)
			}
		})
	}
}

func TestFetch_shows_what_is_seen(t *testing.T) {
	for _, style := range []string{
		"font-size:1em", "font-size:.9em", "font-size:100%", "font-size:10px", "opacity:0.05", "opacity: 1",
		"width:0;flex:1", "min-width:0;overflow:hidden",
		"left:-10px", "background-color:transparent", "line-height:0", "visibility:visible", "text-indent:-2em",
	} {
		w := newWeb(t, false, serve("text/html", []byte(`<p style="`+style+`">SEEN</p>`)))
		if p := w.fetch(t, "/", nil); !strings.Contains(p.Content, "SEEN") || p.Notes != nil {
			t.Errorf("%s: got %+v", style, p)
		}
	}
}

func TestFetch_characters(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		odd              int
	}{
		{"plain", "a\tb\nc", "a\tb\nc", 0},
		{"direction", "a\u202eb\u2066c\u200f", "abc", 3},
		{"tags", "a\U000E0041\U000E0042b", "ab", 2},
		{"zero_width", "a\u200bb\u2060c\ufeffd", "abcd", 3},
		{"joiner_in_ASCII", "a\u200db", "ab", 1},
		{"emoji", "👩\u200d💻 ❤\ufe0f 1\ufe0f", "👩\u200d💻 ❤\ufe0f 1\ufe0f", 0},
		{"persian", "می\u200cخواهم", "می\u200cخواهم", 0},
		{"variation_selectors", "a\U000E0101\U000E0102\ufe01", "a", 3},
		{"fillers", "a\u3164\u115fb", "ab", 2},
		{"soft_hyphen", "ex\u00adample", "example", 0},
		{"byte_order_mark", "\ufeffx", "x", 0},
		{"controls", "a\x00\x1b[31mb", "a[31mb", 2},
		{"windows_lines", "a\r\nb", "a\nb", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWeb(t, false, serve("text/plain; charset=utf-8", []byte(c.text)))
			p := w.fetch(t, "/", nil)
			var notes []string
			if c.odd > 0 {
				notes = []string{fmt.Sprintf("%d characters that nobody sees, such as marks of direction, were "+
					"left out", c.odd)}
			}
			if diff := cmp.Diff(notes, p.Notes); p.Content != c.want || diff != "" {
				t.Errorf("got %q %q, want %q %q", p.Content, p.Notes, c.want, notes)
			}
		})
	}
}

func TestFetch_types_and_encodings(t *testing.T) {
	encoded := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	latin := encoded(charmap.ISO8859_1.NewEncoder().Bytes([]byte("<title>é</title>café")))
	for _, c := range []struct {
		name, header string
		body         []byte
		media, want  string
	}{
		{"utf8", "text/plain", []byte("日本 ü"), "text/plain", "日本 ü"},
		{"late_utf8", "text/plain", []byte(strings.Repeat("a", 3000) + "ü"), "text/plain",
			strings.Repeat("a", 3000) + "ü"},
		{"latin1_by_header", "text/html; charset=ISO-8859-1", latin, "text/html", "café"},
		{"latin1_by_meta", "text/html", append([]byte(`<meta charset="iso-8859-1">`), latin...), "text/html", "café"},
		{"shift_jis", "text/plain; charset=shift_jis", encoded(japanese.ShiftJIS.NewEncoder().Bytes([]byte("日本"))),
			"text/plain", "日本"},
		{"utf16", "text/plain", []byte("\xff\xfea\x00\xfc\x00"), "text/plain", "aü"},
		{"not_what_it_claims", "text/plain; charset=utf-8", []byte("a\xffb"), "text/plain", "a\uFFFDb"},
		{"json", "application/json", []byte(`{"a":[1,12345678901234567890.10],"b":"<ü>"}`), "application/json",
			"{\n  \"a\": [\n    1,\n    12345678901234567890.10\n  ],\n  \"b\": \"<ü>\"\n}"},
		{"problem_json", "application/problem+json", []byte(`{"a":1}`), "application/problem+json", "{\n  \"a\": 1\n}"},
		{"broken_json", "application/json", []byte(`{"a":`), "application/json", `{"a":`},
		{"deep_json", "application/json", []byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
			"application/json", strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		{"feed", "application/rss+xml", []byte("<rss>x</rss>"), "application/rss+xml", "<rss>x</rss>"},
		{"markdown", "text/markdown", []byte("# Hi"), "text/markdown", "# Hi"},
		{"no_type", "", []byte("<!doctype html><p>sniffed"), "text/html", "sniffed"},
		{"broken_type", "text/plain; =", []byte("x"), "text/plain", "x"},
		{"nothing", "text/plain", nil, "text/plain", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWeb(t, false, serve(c.header, c.body))
			p := w.fetch(t, "/", nil)
			if p.Content != c.want || p.ContentType != c.media {
				t.Errorf("got %q of %s, want %q of %s", p.Content, p.ContentType, c.want, c.media)
			}
		})
	}
}

func TestFetch_fails_in_words(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/png", serve("image/png", []byte("\x89PNG")))
	mux.Handle("/zip", serve("application/zip", []byte("PK")))
	mux.Handle("/sniff", serve("", []byte("\x89PNG\x0D\x0A\x1A\x0A")))
	mux.HandleFunc("/loop", func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://a:hunter2@"+r.Host+"/png", http.StatusFound)
	})
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("half")) // the rest is missing on purpose
	})
	mux.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	w := newWeb(t, false, mux)
	other := newWeb(t, true, mux)
	for _, c := range []struct {
		name, url string
		status    haft.Status
		retry     haft.Retry
		says      string
	}{
		{"scheme", "ftp://example.com/", haft.StatusValidation, haft.RetryChanged, "http://"},
		{"file", "file:///etc/passwd", haft.StatusValidation, haft.RetryChanged, "http://"},
		{"no_scheme", "example.com/x", haft.StatusValidation, haft.RetryChanged, "http://"},
		{"no_host", "http:///x", haft.StatusValidation, haft.RetryChanged, "no host"},
		{"unreadable", "http://[::1", haft.StatusValidation, haft.RetryChanged, "cannot be read"},
		{"control", "http://a/\x01hunter2", haft.StatusValidation, haft.RetryChanged, "cannot be read"},
		{"password", "http://bob:hunter2@example.com/", haft.StatusValidation, haft.RetryChanged, "before the @"},
		{"long", "http://a/" + strings.Repeat("x", 9000), haft.StatusValidation, haft.RetryChanged, "longer than"},
		{"no_such_host", "http://no-such-host.invalid/", haft.StatusError, "", ""},
		{"nobody_listens", "http://127.0.0.1:1/", haft.StatusError, haft.RetrySame, "could not be reached"},
		{"image", w.URL + "/png", haft.StatusValidation, haft.RetryChanged, "image/png"},
		{"zip", w.URL + "/zip", haft.StatusValidation, haft.RetryChanged, "application/zip"},
		{"sniffed", w.URL + "/sniff", haft.StatusValidation, haft.RetryChanged, "image/png"},
		{"redirects_without_end", w.URL + "/loop", haft.StatusValidation, haft.RetryChanged, "redirects more than 10"},
		{"redirect_to_a_file", w.URL + "/file", haft.StatusValidation, haft.RetryChanged, "http://"},
		{"redirect_with_a_password", w.URL + "/user", haft.StatusValidation, haft.RetryChanged, "before the @"},
		{"half_a_body", w.URL + "/half", haft.StatusError, haft.RetrySame, "broke off"},
		{"cut", w.URL + "/cut", haft.StatusError, haft.RetrySame, "broke off"},
		{"unknown_certificate", other.URL + "/png", haft.StatusError, haft.RetryChanged,
			"certificate cannot be verified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := execute(t, w.set, "fetch_webpage", map[string]any{"url": c.url}, nil)
			if res.Status != c.status || c.retry != "" && res.Error.Retry != c.retry ||
				!strings.Contains(res.Error.Message, c.says) {
				t.Errorf("got %s %+v, want %s %s that says %q", res.Status, res.Error, c.status, c.retry, c.says)
			}
			if strings.Contains(res.Error.Message, "hunter2") || strings.Contains(res.Error.Message, "127.0.0.1") {
				t.Errorf("the message repeats the address: %s", res.Error.Message)
			}
		})
	}
}

func TestFetch_over_TLS_with_redirect_and_status(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/from", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "1"})
		http.Redirect(w, r, "/to?q=1", http.StatusMovedPermanently)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 || r.Header.Get("Authorization") != "" {
			t.Errorf("it sent %v", r.Header)
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<p>not here</p>")
	})
	w := newWeb(t, true, mux)
	p := w.fetch(t, "/from", nil)
	if p.URL != w.URL+"/to?q=1" || p.Status != 404 || p.Content != "not here" || len(p.Notes) != 1 ||
		!strings.Contains(p.Notes[0], "404 Not Found") {
		t.Errorf("got %+v", p)
	}
}

func TestFetch_expired_certificate_and_wrong_host(t *testing.T) {
	w := newWeb(t, true, serve("text/plain", []byte("x")))
	client := w.Client()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatal("the client of the test server has another transport")
	}
	for name, c := range map[string]struct {
		change func(*tls.Config)
		says   string
	}{
		"expired": {func(
			c *tls.Config) {
			c.Time = func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }
		}, "has expired"},
		"other_host": {func(c *tls.Config) { c.ServerName = "other.test" }, "is for another host"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := transport.Clone()
			c.change(tr.TLSClientConfig)
			defer tr.CloseIdleConnections()
			s := builtin.New()
			if err := builtin.FetchWebpage(s, &http.Client{Transport: tr}, nil); err != nil {
				t.Fatal(err)
			}
			res := execute(t, s, "fetch_webpage", map[string]any{"url": w.URL}, nil)
			if res.Error == nil || !strings.Contains(res.Error.Message, c.says) {
				t.Errorf("got %s %+v, want %q", res.Status, res.Error, c.says)
			}
		})
	}
}

func TestFetch_is_bounded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		if _, err := z.Write(bytes.Repeat([]byte("ü "), 1<<19)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWeb(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes()) // the client stops early
	}))
	for _, n := range []int{0, 1, 100_000, 1 << 30} {
		p := w.fetch(t, "/", map[string]any{"max_chars": n})
		want := map[int]int{0: 20_000, 1 << 30: 200_000}[n]
		if want == 0 {
			want = n
		}
		if got := len([]rune(p.Content)); got != want || !p.Truncated ||
			!strings.Contains(strings.Join(p.Notes, ""), "only its beginning") {
			t.Errorf("max_chars %d: got %d characters, truncated %v, %q", n, got, p.Truncated, p.Notes)
		}
	}
}

// TestFetch_hostile_pages has pages that are made to take long. Nothing can stop a
// parser, so what they may take is bounded by their size alone.
func TestFetch_hostile_pages(t *testing.T) {
	const size = 1 << 18
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, html := range map[string]string{
		"deep":        fill("<div>"),
		"formatting":  fill("<b><i>x"),
		"anchors":     fill("<a>x"),
		"tables":      fill("<table><td>x"),
		"unclosed":    fill("<p"),
		"attributes":  "<p " + fill("a=b ") + ">x",
		"entities":    fill("&amp;"),
		"stars":       fill("*_`["),
		"paragraphs":  fill("<p>some words, and more"),
		"lists":       fill("<ul><li>x"),
		"rules":       "<style>" + fill(".a{display:none}") + "</style><p>x",
		"open_rules":  "<style>" + fill("{") + "</style><p>x",
		"selectors":   "<style>" + fill(".a,") + "{display:none}</style><p>x",
		"styles":      fill(`<p style="display:`),
		"long_style":  `<p style="` + fill("opacity:0 ") + `">x`,
		"hidden_deep": strings.Repeat("<div hidden>", 400) + fill("x"),
		"nulls":       fill("\x00"),
		// These are small enough for the search for the main part.
		"many_paragraphs": strings.Repeat("<p>some words, and more</p>", 24_000),
		"many_divisions":  strings.Repeat("<div>some words, and more, that are long enough to count</div>", 24_000),
		"many_anchors":    strings.Repeat("<a href=x>x</a>", 24_000),
		"many_breaks":     strings.Repeat("<br>", 49_000),
		"many_spans":      "<div>" + strings.Repeat("<span>x, </span>", 24_000),
		"many_sections": strings.Repeat("<section><p>x, y</p><section><p>some words, and more</section></section>",
			8000),
		"deep_sections": strings.Repeat(strings.Repeat("<div class=article>", 400)+
			"<p>some words, and more, that are long enough"+strings.Repeat("</div>", 400), 100),
		"many_rows":      "<table>" + strings.Repeat("<tr><td>x", 12_000),
		"many_images":    strings.Repeat("<img src=a.png alt=x>", 40_000),
		"many_noscripts": strings.Repeat("<noscript><img src=a.png></noscript>", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, false, serve("text/html; charset=utf-8", []byte(html)))
			began := time.Now()
			res := execute(t, w.set, "fetch_webpage", map[string]any{"url": w.URL},
				func(r *executor.Request) { r.Limits.Wall = haft.Millis(time.Minute) })
			if took := time.Since(began); took > 90*time.Second {
				t.Errorf("it took %v", took)
			} else {
				t.Logf("%v, %s, %d bytes", took, res.Status, len(res.Value))
			}
		})
	}
}

func TestFetch_through_a_guard(t *testing.T) {
	w := newWeb(t, false, serve("text/plain", []byte("inside")))
	guard := egress.New(egress.Config{})
	t.Cleanup(guard.CloseIdle)
	s := builtin.New()
	if err := builtin.FetchWebpage(s, guard.Client(), nil); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{w.URL, "http://localhost/", "http://169.254.169.254/latest/meta-data/",
		"http://[::ffff:127.0.0.1]/"} {
		res := execute(t, s, "fetch_webpage", map[string]any{"url": url}, nil)
		if res.Status != haft.StatusDenied || res.Error.Kind != haft.FailDenied {
			t.Errorf("%s: got %s %+v", url, res.Status, res.Error)
		}
	}
}
