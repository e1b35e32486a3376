package egress_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"haft/internal/egress"
)

// hidden returns text as nothing that searches for it finds it, like compression does.
func hidden(text string) string {
	b := []byte(text)
	for i := range b {
		b[i] = ^b[i] ^ byte(i*37)
	}
	return string(b)
}

// typed is an answer with a body of a type.
func typed(contentType, body string) string {
	if contentType != "" {
		contentType = "Content-Type: " + contentType + "\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
}

// zipped is a zip file with files of which each is compressed by a method.
func zipped(t *testing.T, method uint16, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, text := range files {
		h := &zip.FileHeader{Name: fmt.Sprintf("dir/%d.txt", i), Method: method}
		var w io.Writer
		var err error
		if method == zip.Store { // sizes before it, as other programs write them
			h.UncompressedSize64, h.CompressedSize64 = uint64(len(text)), uint64(len(text))
			w, err = z.CreateRaw(h)
		} else {
			w, err = z.CreateHeader(h)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// brotli is the beginning of what a program made of text.
const brotli = "\x1b\x4b\x00\xc0\x8c\xc4\x38\x16\xf2\x26\x1d\x51\x5b\x3c\x46\x3a\x90\x29\x54"

// What cannot be searched does not arrive after a secret was sent, and does before.
func TestBroker_refuses_what_it_cannot_search(t *testing.T) {
	const any = "application/octet-stream"
	begins := map[string]string{
		"xz": "\xfd7zXZ\x00", "lzma": "\x5d\x00\x00\x80\x00", "lzip": "LZIP\x01", "7z": "7z\xbc\xaf\x27\x1c",
		"rar": "Rar!\x1a\x07\x01\x00", "lz4": "\x04\x22\x4d\x18", "old lz4": "\x02\x21\x4c\x18",
		"lzop": "\x89LZO\x00\r\n\x1a\n",
		"zstd": "\x28\xb5\x2f\xfd", "a zstd frame to skip": "\x50\x2a\x4d\x18", "another": "\x5f\x2a\x4d\x18",
		"snappy": "\xff\x06\x00\x00sNaPpY", "s2": "\xff\x06\x00\x00S2sTwO", "compress": "\x1f\x9d\x90",
		"cab":         "MSCF\x00\x00\x00\x00",
		"a split zip": "PK\x07\x08PK\x03\x04",
	}
	tests := map[string]func(key string) string{}
	for name, begin := range begins {
		for _, media := range []string{any, "", "text/plain", "application/x-" + name, "image/png"} {
			tests[name+" as "+media] = func(k string) string { return typed(media, begin+hidden(k)) }
		}
		tests[name+" in labelled gzip"] = func(k string) string {
			body := pack(t, "gzip", begin+hidden(k))
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: %s\r\nContent-Length: "+
				"%d\r\n\r\n%s", any, len(body), body)
		}
	}
	for _, media := range []string{"", "text/plain", "text/html; charset=utf-8", "application/json",
		"application/problem+json", "image", "application/x-brotli"} {
		tests["brotli as "+media] = func(k string) string { return typed(media, brotli+hidden(k)) }
		tests["bare deflate as "+media] = func(k string) string {
			return typed(media,
				pack(t, "raw", "before "+k+" after"))
		}
	}
	delete(tests, "bare deflate as application/x-brotli")
	partial := func(media, span, body string) string {
		return strings.Replace(typed(media, body), "200 OK\r\n", "206 Partial Content\r\nContent-Range: "+span+"\r\n",
			1)
	}
	tests["a part of gzip"] = func(k string) string { return partial(any, "bytes 10-99/100", pack(t, "gzip", k)[10:]) }
	tests["a part of gzip as a picture"] = func(k string) string {
		return partial("image/png", "bytes 10-99/100",
			pack(t, "gzip", k)[10:])
	}
	tests["a part of gzip as text"] = func(k string) string {
		return partial("text/plain", "bytes 10-99/100",
			pack(t, "gzip", k)[10:])
	}
	tests["two parts"] = func(k string) string {
		return partial("multipart/byteranges; boundary=x", "",
			"--x\r\nContent-Range: bytes 1-99/100\r\n\r\n"+pack(t, "gzip", k)[1:]+"\r\n--x--")
	}
	tests["an encrypted zip"] = func(k string) string {
		z := []byte(zipped(t, zip.Deflate, k))
		z[6] |= 1
		return typed(any, string(z))
	}
	tests["a zip of another method"] = func(k string) string {
		z := []byte(zipped(t, zip.Deflate, k))
		z[8] = 14
		return typed(any, string(z))
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			c := rawBroker(t, "Connection: close\r\n",
				func(c net.Conn, key string) { _, _ = io.WriteString(c, answer(key)) })
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 300 && err == nil || strings.Contains(string(got), hidden(real)) {
				t.Errorf("it arrived: %.100q", got)
			}
			if resp.StatusCode == 502 && !strings.Contains(string(got), "secrets could hide") {
				t.Errorf("the refusal does not say why: %q", got)
			}
		})
	}
}

// Of a zip file every file is looked into.
func TestBroker_looks_into_zip_files(t *testing.T) {
	far := strings.Repeat("some text that goes before it. ", 20_000)
	for name, files := range map[string][]string{
		"the only file": {real}, "the second": {"first", "x " + real + " y"}, "far behind": {far, "", far + real},
		"in base64 inside": {hex.EncodeToString([]byte(real))},
	} {
		for _, method := range []uint16{zip.Deflate, zip.Store} {
			t.Run(fmt.Sprintf("%s, method %d", name, method), func(t *testing.T) {
				c := rawBroker(t, "Connection: close\r\n", func(c net.Conn, _ string) {
					_, _ = io.WriteString(c, typed("application/zip", zipped(t, method, files...)))
				})
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode == 200 {
					t.Error("it arrived")
				}
				if z, err := zip.NewReader(bytes.NewReader(got), int64(len(got))); err == nil {
					t.Errorf("a file of %d files arrived", len(z.File))
				}
				holds(t, string(got), real, real)
			})
		}
	}
}

// What is safe arrives as it was sent.
func TestBroker_passes_what_holds_no_secret(t *testing.T) {
	far := strings.Repeat("some text that is not secret. ", 20_000)
	wide := "\xff\xfe"
	for _, u := range utf16.Encode([]rune("über Łódź 東京")) {
		wide += string([]byte{byte(u), byte(u >> 8)})
	}
	for name, tt := range map[string]struct{ media, body string }{
		"a zip file":               {"application/zip", zipped(t, zip.Deflate, far, "", "three")},
		"a zip of stored files":    {"application/octet-stream", zipped(t, zip.Store, far, "", "three")},
		"a zip in a zip":           {"application/zip", zipped(t, zip.Deflate, zipped(t, zip.Deflate, "x"), "y")},
		"an empty zip file":        {"application/zip", zipped(t, zip.Deflate)},
		"a picture":                {"image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x02\xff\xfe"},
		"a picture of no type":     {"", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x02\xff\xfe"},
		"a program":                {"application/octet-stream", "\x7fELF\x02\x01\x01\x00\x00\x00\xff\xfe\xfd"},
		"messages":                 {"application/x-protobuf", "\x0a\x03abc\x12\x02\x08\x01\xff"},
		"a PDF":                    {"text/plain", "%PDF-1.7\n\x01\x02\xff\xfe\x80"},
		"text":                     {"text/plain", "plain, über, 東京 and \x1b[1mbold\x1b[0m\n"},
		"JSON":                     {"application/json", `{"a":1}`},
		"text of another charset":  {"text/plain; charset=windows-1251", "\xcf\xf0\xe8\xe2\xe5\xf2"},
		"text, its charset untold": {"text/html", "caf\xe9 au lait, d\xe9j\xe0 vu"},
		"UTF-16 with a mark":       {"text/plain", wide},
		"UTF-16 that says so":      {"text/plain; charset=UTF-16LE", wide[2:]},
		"a cut character":          {"text/plain", strings.Repeat("€", 171)},
		"text, binary far behind":  {"text/plain", strings.Repeat("x", 600) + "\x01\x02"},
	} {
		t.Run(name, func(t *testing.T) {
			c := rawBroker(t, "Connection: close\r\n",
				func(c net.Conn, _ string) { _, _ = io.WriteString(c, typed(tt.media, tt.body)) })
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(got) != tt.body {
				t.Errorf("%s, %.100q, %v", resp.Status, got, err)
			}
		})
	}
}

// Before a secret is sent, nothing can hide; an answer that goes on then is cut off.
func TestBroker_passes_anything_until_a_secret_is_sent(t *testing.T) {
	const body = "\xfd7zXZ\x00\x00\x04"
	more := make(chan string)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-xz")
		if _, err := io.WriteString(w, body); err != nil || http.NewResponseController(w).Flush() != nil {
			t.Error(err)
		}
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(w, <-more)
		}
	})
	w, s, c := openBroker(t, egress.Place{Header: "X-Key"}, "api.example:*", h)
	u := "https://api.example:" + w.https
	if status, got, _ := do(t, c, "GET", u+"/", ""); status != 200 || got != body {
		t.Fatalf("before: %d %q", status, got)
	}
	resp, err := c.Get(u + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(body))); err != nil {
		t.Fatal(err)
	}
	if status, got, _ := do(t, c, "GET", u+"/", "", "X-Key", s.Placeholder); status != 502 {
		t.Errorf("with a secret: %d %q", status, got)
	}
	more <- "later"
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("it went on: %q", got)
	}
}
