package egress_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"haft/internal/egress"
)

// escapes are what servers make of text.
func escapes(value string) map[string]string {
	each := func(format string) string {
		var b strings.Builder
		for i := range len(value) {
			fmt.Fprintf(&b, format, value[i])
		}
		return b.String()
	}
	wide := func(order binary.AppendByteOrder) string {
		var b []byte
		for _, u := range utf16.Encode([]rune(value)) {
			b = order.AppendUint16(b, u)
		}
		return string(b)
	}
	lines := func(s string) string { // as MIME does
		var b strings.Builder
		for i, r := range s {
			if i > 0 && i%16 == 0 {
				b.WriteString("\r\n")
			}
			b.WriteRune(r)
		}
		return b.String()
	}
	return map[string]string{
		"plain":                   value,
		"other letters":           strings.ToUpper(value),
		`\u00XX`:                  each(`\u%04x`),
		`\U00XX`:                  each(`\u%04X`),
		`\xXX`:                    each(`\x%02x`),
		"octal":                   each(`\%03o`),
		"JSON in JSON":            strings.ReplaceAll(each(`\u%04x`), `\`, `\\`),
		"entities, hexadecimal":   each("&#x%02x;"),
		"entities, decimal":       each("&#%d;"),
		"entities, leading zeros": each("&#0%d;"),
		"entities by name":        strings.NewReplacer("/", "&sol;", "+", "&plus;", "=", "&equals;").Replace(value),
		"entities of escapes":     strings.ReplaceAll(each("&#x%02x;"), "&", "&amp;"),
		"HTML":                    html.EscapeString(value),
		"percent":                 each("%%%02X"),
		"percent, lower":          each("%%%02x"),
		"percent twice":           strings.ReplaceAll(each("%%%02X"), "%", "%25"),
		"a URL":                   url.QueryEscape(value),
		"hexadecimal":             hex.EncodeToString([]byte(value)),
		"HEXADECIMAL":             strings.ToUpper(hex.EncodeToString([]byte(value))),
		"base64":                  base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 of more":          base64.StdEncoding.EncodeToString([]byte("x" + value + "yz")),
		"base64 of user and all":  base64.StdEncoding.EncodeToString([]byte("me:" + value)),
		"base64 for URLs":         base64.RawURLEncoding.EncodeToString([]byte("xx" + value)),
		"base64 in lines":         lines(base64.StdEncoding.EncodeToString([]byte(value))),
		"base32":                  base32.StdEncoding.EncodeToString([]byte(value)),
		"base32 of more":          strings.ToLower(base32.StdEncoding.EncodeToString([]byte("xyz" + value + "z"))),
		"UTF-16, little":          wide(binary.LittleEndian),
		"UTF-16, big":             wide(binary.BigEndian),
		"a multipart body":        "--x\r\nContent-Disposition: form-data; name=k\r\n\r\n" + value + "\r\n--x--",
		"beginnings before it":    value[:9] + value[:12] + value,
	}
}

// holds reports whether what came back can be made into the value by undoing what
// escapes does.
func holds(t *testing.T, got, value, echo string) {
	t.Helper()
	low := strings.ToLower(got)
	for name, form := range escapes(value) {
		if strings.Contains(low, strings.ToLower(form)) && !strings.HasPrefix(name, "beginnings") {
			t.Errorf("%q holds the value (%s)", got, name)
		}
	}
	if strings.Contains(got, echo) {
		t.Errorf("%q is the echo", got)
	}
}

func TestBroker_takes_every_form_of_a_secret_out_of_every_place(t *testing.T) {
	for name, echo := range escapes(real) {
		t.Run(name, func(t *testing.T) {
			line := strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(echo)
			wide := strings.Contains(echo, "\x00")
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-After")
				for _, n := range []string{"X-Echo", "Location", "Www-Authenticate", "Link", "Content-Type", "Etag"} {
					if !wide {
						w.Header().Set(n, "x "+line)
					}
				}
				if !wide {
					w.Header().Add("Set-Cookie", "a=1")
					w.Header().Add("Set-Cookie", "k="+line)
				}
				text := "before " + echo + " after"
				for i := 0; i < len(text); i += 7 { // chunks
					_, _ = io.WriteString(w, text[i:min(i+7, len(text))])
					_ = http.NewResponseController(w).Flush()
				}
				if !wide {
					w.Header().Set("X-After", line)
					w.Header().Set(http.TrailerPrefix+"X-Late", line)
				}
			})
			w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*", h)
			// the second is HTTP/2
			for _, u := range []string{"http://api.example:" + w.http, "https://api.example:" + w.https} {
				req, _ := http.NewRequest("GET", u, nil)
				req.Header.Set("X-Key", s.Placeholder)
				c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), "before ") ||
					!strings.HasSuffix(string(body), " after") {
					t.Fatalf("%q, %v", body, err)
				}
				holds(t, string(body), real, echo)
				if len(resp.Trailer) == 0 {
					t.Error("there are no trailers to look at")
				}
				for _, h := range []http.Header{resp.Header, resp.Trailer} {
					for n, v := range h {
						holds(t, n+": "+strings.Join(v, " "), real, line)
					}
				}
			}
		})
	}
}

// serveRaw answers each connection with what a server written by hand says.
func serveRaw(t *testing.T, answer func(c net.Conn, key string)) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil {
					answer(c, req.Header.Get("X-Key"))
				}
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// rawBroker opens a proxy with a secret for a server that is written by hand, and
// returns a connection to it on which a request with the secret was sent.
func rawBroker(t *testing.T, head string, answer func(c net.Conn, key string)) net.Conn {
	t.Helper()
	port := serveRaw(t, answer)
	s := bind(t, egress.Place{Header: "X-Key"}, "http://api.example:*")
	b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, egress.ProxyConfig{Broker: b}, []string{"http://api.example:" + port}, nil)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	fmt.Fprintf(c, "GET http://api.example:%s/ HTTP/1.1\r\nHost: api.example:%s\r\nX-Key: %s\r\n%s\r\n", port, port,
		s.Placeholder, head)
	return c
}

func TestBroker_takes_secrets_out_of_what_stands_around_a_body(t *testing.T) {
	for name, answer := range map[string]func(key string) string{
		"the reason": func(k string) string { return "HTTP/1.1 200 " + k + "\r\nContent-Length: 2\r\n\r\nok" },
		"the reason, escaped": func(k string) string {
			return "HTTP/1.1 200 " + url.QueryEscape(k) +
				"\r\nContent-Length: 2\r\n\r\nok"
		},
		"the name of a header": func(k string) string {
			return "HTTP/1.1 200 OK\r\n" + hex.EncodeToString([]byte(k)) + ": 1\r\nContent-Length: 2\r\n\r\nok"
		},
		"an informational answer": func(k string) string {
			return "HTTP/1.1 103 " + k + "\r\nLink: <" + k + ">\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		},
		"102": func(k string) string {
			return "HTTP/1.1 102 " + k + "\r\nX-Key: " + k + "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		},
		"the extension of a chunk": func(k string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;k=" + url.QueryEscape(k) +
				"\r\nok\r\n0\r\n\r\n"
		},
		"a trailer": func(k string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: " + k +
				"\r\n\r\n"
		},
		"the name of a trailer": func(k string) string {
			n := hex.EncodeToString([]byte(k))
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: " + n + "\r\n\r\n2\r\nok\r\n0\r\n" + n +
				": 1\r\n\r\n"
		},
		"a trailer that nobody announced": func(k string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" +
				hex.EncodeToString([]byte(k)) + ": " + k + "\r\n\r\n"
		},
		"the connection": func(k string) string {
			return "HTTP/1.1 200 OK\r\nConnection: close, " + hex.EncodeToString([]byte(k)) +
				"\r\nContent-Length: 2\r\n\r\nok"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := rawBroker(t, "Connection: close\r\n",
				func(c net.Conn, key string) { _, _ = io.WriteString(c, answer(key)) })
			got, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 OK\r\n") ||
				!strings.Contains(string(got), "ok") {
				t.Fatalf("%q, %v", got, err)
			}
			holds(t, string(got), real, real)
		})
	}
}

// packs are ways in which a body is compressed.
var packs = map[string]func(io.Writer) io.WriteCloser{
	"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"zlib": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"raw":  func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 6); return f },
}

// pack compresses text.
func pack(t testing.TB, how, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := packs[how](&b)
	if _, err := io.WriteString(z, text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBroker_looks_into_compressed_bodies(t *testing.T) {
	var long strings.Builder // that does not compress to nothing
	for i := range 40_000 {
		fmt.Fprintf(&long, "%x ", i*i*2654435761)
	}
	filler := long.String()
	body := func(label, content string) string {
		if label != "" {
			label = "Content-Encoding: " + label + "\r\n"
		}
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", label, len(content), content)
	}
	ascii := func(key string) string { return "before " + key + " after" }
	tests := map[string]struct {
		answer func(key string) string
		clean  string // what arrives where nothing is refused
	}{
		"gzip without a label": {func(k string) string { return body("", pack(t, "gzip", ascii(k))) }, ""},
		"zlib without a label": {func(k string) string { return body("", pack(t, "zlib", ascii(k))) }, ""},
		"gzip, the secret far behind": {func(k string) string { return body("", pack(t, "gzip", filler+k+filler)) },
			""},
		"gzip, at the end": {func(k string) string { return body("", pack(t, "gzip", filler+k)) }, ""},
		"gzip, the second part": {func(k string) string {
			return body("",
				pack(t, "gzip", filler)+pack(t, "gzip", ascii(k)))
		}, ""},
		"zlib behind zlib": {func(k string) string {
			return body("",
				pack(t, "zlib", "x")+pack(t, "zlib", ascii(k)))
		}, ""},
		"gzip in gzip": {func(k string) string {
			return body("",
				pack(t, "gzip", pack(t, "gzip", ascii(k))))
		}, ""},
		"gzip, escaped inside": {func(k string) string { return body("", pack(t, "gzip", url.QueryEscape(k))) },
			""},
		"gzip with the wrong label": {func(k string) string { return body("identity", pack(t, "gzip", ascii(k))) },
			""},
		"gzip that is cut off": {func(k string) string {
			z := pack(t, "gzip", ascii(k))
			return body("",
				z[:len(z)-4])
		}, ""},
		"gzip in labelled gzip": {func(k string) string {
			return body("gzip",
				pack(t, "gzip", pack(t, "gzip", ascii(k))))
		}, ""},
		"gzip in its own name": {func(k string) string {
			return body("", "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"+k+"\x00"+pack(t, "raw", "x")+
				"\x83\x16\xdc\x8c\x01\x00\x00\x00")
		}, "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xffPLACEHOLDER\x01\x00\x00\x00"},
		"zstd without a label": {func(k string) string { return body("", "\x28\xb5\x2f\xfd"+k) }, ""},
		"br by its label":      {func(k string) string { return body("br", k) }, ""},
		"two labels": {func(k string) string {
			return body("gzip, gzip",
				pack(t, "gzip", pack(t, "gzip", k)))
		}, ""},
		"labelled gzip": {func(k string) string { return body("gzip", pack(t, "gzip", ascii(k))) },
			"before PLACEHOLDER after"},
		"labelled deflate, zlib": {func(k string) string { return body("deflate", pack(t, "zlib", ascii(k))) },
			"before PLACEHOLDER after"},
		"labelled deflate, raw": {func(k string) string { return body("deflate", pack(t, "raw", ascii(k))) },
			"before PLACEHOLDER after"},
		"text that begins like zlib": {func(k string) string { return body("", "x^2 + "+k) }, "x^2 + PLACEHOLDER"},
		"a file without it": {func(string) string { return body("", pack(t, "gzip", filler)) },
			pack(t, "gzip", filler)},
		"a small file without it": {func(string) string { return body("", pack(t, "zlib", "hello")) },
			pack(t, "zlib", "hello")},
		"a file in labelled gzip": {func(string) string {
			return body("gzip",
				pack(t, "gzip", pack(t, "gzip", filler)))
		}, pack(t, "gzip", filler)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := rawBroker(t, "Connection: close\r\n",
				func(c net.Conn, key string) { _, _ = io.WriteString(c, tt.answer(key)) })
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if tt.clean == "" {
				if resp.StatusCode == 200 && err == nil {
					t.Errorf("it arrived: %.100q", got)
				}
				holds(t, string(got), real, real)
				holds(t, string(unpack(got)), real, real)
				return
			}
			want := strings.Split(tt.clean, "PLACEHOLDER")
			if err != nil || !strings.HasPrefix(string(got), want[0]) ||
				len(want) > 1 && !strings.HasSuffix(string(got), want[1]) || len(want) == 1 && string(got) != want[0] {
				t.Errorf("%s, %.200q, %v", resp.Status, got, err)
			}
			holds(t, string(got), real, real)
		})
	}
}

// unpack returns what a patient program makes of the beginning of compressed data.
func unpack(b []byte) []byte {
	var all []byte
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
		out, _ := io.ReadAll(z)
		all = append(all, out...)
	}
	if z, err := zlib.NewReader(bytes.NewReader(b)); err == nil {
		out, _ := io.ReadAll(z)
		all = append(all, out...)
	}
	return all
}

func TestBroker_knows_a_secret_in_answers_that_began_earlier(t *testing.T) {
	sent := make(chan string, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tell" {
			sent <- r.Header.Get("X-Key")
			return
		}
		_, _ = io.WriteString(w, "listening\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case key := <-sent:
			_, _ = io.WriteString(w, "got "+key+"\n")
		case <-r.Context().Done():
		}
	})
	w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*", h)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://api.example:"+w.https+"/listen", nil)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	if line, err := br.ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if status, _, _ := do(t, c, "GET", "https://api.example:"+w.https+"/tell", "", "X-Key",
		s.Placeholder); status != 200 {
		t.Fatal(status)
	}
	rest, err := io.ReadAll(br)
	if err != nil || string(rest) != "got "+s.Placeholder+"\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

// A binding without a scheme is for https: nobody between reads the secret.
func TestBroker_sends_a_secret_over_plain_http_only_if_the_binding_says_so(t *testing.T) {
	for _, tt := range []struct {
		host        string
		http, https int
	}{
		{"api.example:*", 403, 200}, {"https://api.example:*", 403, 200}, {"http://api.example:*", 200, 403},
		{"GET api.example:*/x", 403, 200},
	} {
		s := bind(t, egress.Place{Header: "X-Key"}, tt.host)
		b, err := egress.NewBroker(egress.BrokerConfig{Secrets: []egress.Secret{s}})
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, egress.ProxyConfig{Broker: b}, []string{"api.example:HTTP_", "api.example:HTTPS"}, nil)
		roots := w.roots.Clone()
		roots.AppendCertsFromPEM(b.CAPEM())
		c := w.client(roots)
		if status, body, _ := do(t, c, "GET", "http://api.example:"+w.http+"/x", "", "X-Key",
			s.Placeholder); status != tt.http ||
			tt.http == 403 && !strings.Contains(body, "over https only") {
			t.Errorf("%s, http: %d %q", tt.host, status, body)
		}
		if status, body, _ := do(t, c, "GET", "https://api.example:"+w.https+"/x", "", "X-Key",
			s.Placeholder); status != tt.https {
			t.Errorf("%s, https: %d %q", tt.host, status, body)
		}
	}
	rules, err := egress.ParseBinding([]string{"api.example.com", "http://plain.example.com", "*.example.org:8443"})
	if err != nil ||
		fmt.Sprint(rules) != "[https://api.example.com http://plain.example.com https://*.example.org:8443]" {
		t.Errorf("%v, %v", rules, err)
	}
}
