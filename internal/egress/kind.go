package egress

import (
	"bufio"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// An answer of a host that a secret is bound to is one of three kinds:
//
//   - Haft can search it: text, data that is not compressed, gzip, zlib, bzip2 and zip.
//   - It is compressed in a way that Haft cannot undo: known by how it begins or by its
//     Content-Type, or because it is declared as text, or as nothing, and is not text.
//     Brotli and bare deflate are known only so: they begin with nothing of their own.
//     A part of data that is not text (206) is of this kind too: its beginning is not there.
//   - It is declared as another kind of data, or begins like an image, audio, video, a
//     font or a PDF. It is searched as it is; Haft does not look inside.
//
// The second kind is refused if a value was sent already, by whichever request.

// maxKind is how many bytes of an answer have to be text if it is declared as text.
const maxKind = 512

// signatures are the first bytes of compressed formats.
var signatures = append([]struct{ begin, format string }{
	{"\x1f\x8b", "gzip"}, {"BZh", "bzip2"},
	{"\x78\x01", "zlib"}, {"\x78\x5e", "zlib"}, {"\x78\x9c", "zlib"}, {"\x78\xda", "zlib"},
	{"PK\x03\x04", "zip"},
	// Kinds of content that cannot be searched.
	{"PK\x07\x08", "a split zip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd7zXZ\x00", "xz"}, {"\x5d\x00\x00", "lzma"},
	{"LZIP\x01", "lzip"}, {"7z\xbc\xaf\x27\x1c", "7z"}, {"Rar!\x1a\x07", "rar"},
	{"\x04\x22\x4d\x18", "lz4"}, {"\x02\x21\x4c\x18", "lz4"}, {"\x89LZO\x00", "lzop"},
	{"\xff\x06\x00\x00sNaPpY", "snappy"}, {"\xff\x06\x00\x00S2sTwO", "s2"},
	{"\x1f\x9d", "compress"}, {"\x1f\xa0", "compress"}, {"\x1f\x1e", "pack"},
	{"MSCF\x00\x00\x00\x00", "cab"}, {"LRZI\x00", "lrzip"}, {"zPQ\x01", "zpaq"}, {"zPQ\x02", "zpaq"},
	{"bvx1", "lzfse"}, {"bvx2", "lzfse"}, {"bvxn", "lzfse"},
}, skippable()...)

// skippable are the beginnings of frames that zstd and lz4 pass over.
func skippable() (all []struct{ begin, format string }) {
	for b := byte(0x50); b < 0x60; b++ {
		all = append(all, struct{ begin, format string }{string([]byte{b, 0x2a, 0x4d, 0x18}), "zstd or lz4"})
	}
	return all
}

// format returns how the data of r is compressed, or "". It waits no longer than it
// takes to know.
func format(r *bufio.Reader) string {
	for n := 1; ; n++ {
		p, err := r.Peek(n)
		more := false
		for _, m := range signatures {
			if len(m.begin) <= len(p) && string(p[:len(m.begin)]) == m.begin {
				return m.format
			}
			more = more || len(p) < len(m.begin) && m.begin[:len(p)] == string(p)
		}
		if err != nil || !more {
			return ""
		}
	}
}

// uncompressed returns br, whose data does not begin like anything compressed.
func (c *cleaner) uncompressed(br *bufio.Reader, resp *http.Response) (io.Reader, error) {
	media, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		media, params = "", nil
	}
	if strings.Contains(media, "brotli") || media == "application/x-br" {
		return c.unsearchable(br, unreadable("the answer is compressed with brotli, in which secrets could hide: "+
			"ask the server for gzip, zip or no compression"))
	}
	whole := resp.StatusCode != http.StatusPartialContent ||
		strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes 0-")
	if !textual(media) && !whole {
		return c.unsearchable(br, unreadable("the answer is a part of data that may be compressed, "+
			"in which secrets could hide: ask the server for all of it"))
	}
	if !textual(media) {
		return br, nil
	}
	_, _ = br.Peek(1) // an error comes again when it is read
	begin, _ := br.Peek(min(br.Buffered(), maxKind))
	if whole && isMedia(begin) {
		return br, nil
	}
	t := &textReader{from: br, broker: c.broker, charset: strings.ToLower(params["charset"])}
	if probe := *t; probe.look(begin) && c.broker.sent() {
		return nil, errNoText()
	}
	return t, nil
}

// errNoText is the error for an answer that is declared as text and is not.
func errNoText() error {
	return unreadable("the answer is not text, and its Content-Type does not say what it is, " +
		"so that secrets could hide in it (it may be compressed without a Content-Encoding)")
}

// textual reports whether the body of a media type is text. A body without a type counts
// as text.
func textual(media string) bool {
	kind, sub, whole := strings.Cut(media, "/")
	return !whole || kind == "text" || strings.HasSuffix(sub, "json") || strings.HasSuffix(sub, "xml") ||
		slices.Contains([]string{"javascript", "ecmascript", "yaml", "toml", "sql", "graphql", "x-www-form-urlencoded",
			"x-ndjson", "x-javascript", "x-yaml", "x-sh", "rtf"}, sub)
}

// isMedia reports whether data begins like a known kind of file that is neither text nor
// compressed as a whole.
func isMedia(begin []byte) bool {
	kind := http.DetectContentType(begin)
	return slices.ContainsFunc([]string{"image/", "audio/", "video/", "font/", "application/pdf", "application/ogg",
		"application/wasm"}, func(k string) bool { return strings.HasPrefix(kind, k) })
}

// unsearchable returns r, in which values could hide. It can be read until the first
// value is sent.
func (c *cleaner) unsearchable(r io.Reader, why error) (io.Reader, error) {
	if c.broker.sent() {
		return nil, why
	}
	return &unsearchable{r, c.broker, why}, nil
}

// unsearchable is a reader of data in which values could hide.
type unsearchable struct {
	from   io.Reader
	broker *Broker
	why    error
}

// Read implements [io.Reader].
func (u *unsearchable) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if u.broker.sent() { // after the read: the broker registers a value before it sends it
		return 0, u.why
	}
	return n, err
}

// textReader reads an answer that is declared as text. It fails where the first
// [maxKind] bytes are not text.
type textReader struct {
	from    io.Reader
	broker  *Broker
	charset string
	begin   [maxKind]byte
	n       int
	bad     bool
}

// Read implements [io.Reader].
func (t *textReader) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if t.look(p[:n]) && t.broker.sent() {
		return 0, errNoText()
	}
	return n, err
}

// look takes more bytes and reports whether those so far are not text.
func (t *textReader) look(p []byte) bool {
	if n := copy(t.begin[t.n:], p); n > 0 {
		t.n += n
		t.bad = !isText(t.begin[:t.n], t.charset)
	}
	return t.bad
}

// isText reports whether b begins a text: there are no control characters in it, and
// at least three in four bytes are UTF-8. A charset that is declared may be another.
func isText(b []byte, charset string) bool {
	wide := strings.HasPrefix(charset, "utf-16") || strings.HasPrefix(charset, "utf-32") || charset == "ucs-2"
	if wide || len(b) >= 2 && (string(b[:2]) == "\xff\xfe" || string(b[:2]) == "\xfe\xff") {
		return true
	}
	other := charset != "" && charset != "utf-8" && charset != "utf8" && charset != "us-ascii"
	invalid := 0
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(rest):
			return invalid*4 <= len(b) // a character that is cut off
		case r == utf8.RuneError && n == 1 && !other:
			invalid++
		case r == 0: // of UTF-16 that does not say so
		case r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r), r == 0x7f:
			return false
		}
		rest = rest[n:]
	}
	return invalid*4 <= len(b)
}
