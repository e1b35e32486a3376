package egress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxPending is how much of a compressed body is held back until its content is known.
const maxPending = 4 << 20

// body returns the body of an answer in a form in which values can be found, since
// compression would hide them. It undoes compression that the header names. A body that is
// compressed without saying so is read to the end of each part before the part is passed
// on. A body that cannot be read is refused once a value was sent; see kind.go.
func (c *cleaner) body(resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ",")))
	if resp.Request != nil && resp.Request.Method == http.MethodHead || resp.ContentLength == 0 {
		return resp.Body, nil
	}
	var plain io.Reader
	var err error
	switch coding {
	case "", "identity":
		return c.sniffed(resp.Body, resp)
	case "gzip", "x-gzip":
		plain, err = gzip.NewReader(resp.Body)
	case "deflate":
		plain, err = inflated(resp.Body)
	default:
		return nil, unreadable("the answer is encoded as %q, in which secrets could hide", printable(coding))
	}
	if err != nil {
		return nil, unreadable("the answer is not encoded as %s, though it says so", coding)
	}
	resp.Header.Del("Content-Encoding")
	resp.ContentLength = -1
	return c.sniffed(plain, resp)
}

// inflated decodes what servers call deflate: zlib, or the bare format.
func inflated(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	if format(br) == "zlib" {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// sniffed returns r, the body of resp, or a reader that looks into it if it is
// compressed.
func (c *cleaner) sniffed(r io.Reader, resp *http.Response) (io.Reader, error) {
	br := bufio.NewReaderSize(r, 2<<10) // longer reads bypass the buffer
	kind := format(br)
	if kind == "" {
		return c.uncompressed(br, resp)
	}
	p := &compressedBody{kind: kind, tap: &recordingReader{from: br}, searchedStream: searchedStream{broker: c.broker}}
	var err error
	switch kind {
	case "gzip":
		p.plain, err = gzip.NewReader(p.tap)
	case "bzip2":
		p.plain = bzip2.NewReader(p.tap)
	case "zip":
		p.plain = &unzipper{from: p.tap}
	case "zlib":
		if p.plain, err = zlib.NewReader(p.tap); err != nil { // such as "x^2"
			return io.MultiReader(bytes.NewReader(p.tap.pending), br), nil
		}
	default:
		return c.unsearchable(br, unreadable("the answer is compressed with %s, in which secrets could hide: "+
			"ask the server for gzip, zip or no compression", kind))
	}
	if err != nil {
		return nil, unreadable("the answer begins like %s and is not, so that secrets could hide in it", kind)
	}
	return p, nil
}

// compressedBody passes compressed data on unchanged after it has searched the content. It
// passes on what a decoder has read only when the decoder has read more and returned more:
// until then the decoder may hold back a part of the content, such as the end of a match.
type compressedBody struct {
	searchedStream
	kind  string
	tap   *recordingReader
	plain io.Reader
	ready int   // bytes of tap.pending that may go
	seen  int64 // bytes that were unpacked
	begin []byte
	err   error
	buf   [16 << 10]byte
}

// Read implements [io.Reader].
func (p *compressedBody) Read(b []byte) (int, error) {
	for p.ready == 0 && p.err == nil {
		read := len(p.tap.pending)
		n, err := p.plain.Read(p.buf[:])
		p.look(p.buf[:n])
		switch {
		case p.err != nil:
		case err == nil && len(p.tap.pending) > maxPending:
			p.err = unreadable("the answer is compressed such that it cannot be looked into")
		case err == nil && p.kind == rest:
			p.ready = len(p.tap.pending)
		case err == nil && n > 0 && len(p.tap.pending) > read:
			p.ready = read
		case err != nil:
			p.finish(err)
		}
	}
	if p.ready > 0 {
		n := copy(b, p.tap.pending[:p.ready])
		p.tap.pending = p.tap.pending[n:]
		p.ready -= n
		return n, nil
	}
	return 0, p.err
}

// look searches unpacked bytes for values.
func (p *compressedBody) look(b []byte) {
	if len(b) == 0 || p.kind == rest {
		return
	}
	// A zip file is an archive: its first file may be compressed like any other.
	if p.seen += int64(len(b)); len(p.begin) < 8 && p.kind != "zip" {
		p.begin = append(p.begin, b[:min(len(b), 8)]...)
		if format(bufio.NewReader(bytes.NewReader(p.begin))) != "" {
			p.err = unreadable("the answer is compressed more than once, so that secrets could hide in it")
			return
		}
	}
	p.write(b)
	if p.out = p.out[:0]; p.found() {
		p.err = unreadable("the answer holds a secret of the call inside compressed data")
	}
}

// finish ends the data: no more can be unpacked.
func (p *compressedBody) finish(err error) {
	p.end()
	switch {
	case p.found():
		p.err = unreadable("the answer holds a secret of the call inside compressed data")
	case p.kind == rest:
		p.ready, p.err = len(p.tap.pending), err
	case !errors.Is(err, io.EOF) && p.kind != "zlib": // which may be text, such as "x^2"
		p.err = unreadable("the answer is compressed with %s and is broken or cannot be looked into", p.kind)
	default:
		if p.seen > 0 && format(p.tap.from) != "" {
			p.err = unreadable("the answer has compressed data behind compressed data, in which secrets could hide")
			return
		}
		p.ready, p.plain, p.kind = len(p.tap.pending), p.tap, rest
	}
}

// rest is the kind of data that is not compressed. It is passed on unchanged, and the next
// reader removes values from it.
const rest = "rest"

// recordingReader is a reader that keeps the bytes that were read.
type recordingReader struct {
	from    *bufio.Reader
	pending []byte
}

// Read implements [io.Reader].
func (t *recordingReader) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	t.pending = append(t.pending, b[:n]...)
	return n, err
}

// ReadByte implements [io.ByteReader], with which decoders read no more than they
// need.
func (t *recordingReader) ReadByte() (byte, error) {
	b, err := t.from.ReadByte()
	if err == nil {
		t.pending = append(t.pending, b)
	}
	return b, err
}
