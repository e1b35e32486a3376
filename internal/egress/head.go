package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Bounds of a request.
const (
	maxHead    = 64 << 10 // bytes before the body
	maxHeaders = 200
)

// errEnd is the end of a connection between requests.
var errEnd = errors.New("no more requests")

// errHead is why a request is not read: two servers could read it differently.
type errHead string

// Error implements error.
func (e errHead) Error() string { return string(e) }

// head is what the checks need of a request's head as it was sent.
type head struct {
	version string
	host    string
	hosts   int
	lengths int
	codings int
}

// readRequest reads the head of a request, strictly, and then lets net/http read
// it again: the strict reading refuses what net/http would repair.
func readRequest(br *bufio.Reader) (*http.Request, head, error) {
	raw, err := peekHead(br)
	if err != nil {
		return nil, head{}, err
	}
	h, err := checkHead(raw)
	if err != nil {
		return nil, head{}, err
	}
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, head{}, errHead("the request cannot be read")
	}
	return req, h, nil
}

// peekHead returns all bytes up to the empty line, which stay in br.
func peekHead(br *bufio.Reader) ([]byte, error) {
	for seen := 0; ; {
		b, err := br.Peek(max(br.Buffered(), seen+1))
		if i := bytes.Index(b[max(0, seen-3):], []byte("\r\n\r\n")); i >= 0 {
			return b[:max(0, seen-3)+i+4], nil
		}
		switch {
		case bytes.Contains(b[max(0, seen-3):], []byte("\n\n")):
			return nil, errHead("a line ends without a carriage return")
		case errors.Is(err, bufio.ErrBufferFull) || len(b) >= maxHead:
			return nil, errHead(fmt.Sprintf("the head is longer than %d bytes", maxHead))
		case err != nil && len(b) == 0:
			return nil, errEnd
		case err != nil:
			return nil, fmt.Errorf("read the head: %w", err)
		}
		seen = len(b)
	}
}

// checkHead checks a head that ends with an empty line, line by line (RFC 9112).
func checkHead(raw []byte) (head, error) {
	var h head
	text := string(raw[:len(raw)-4])
	lines := strings.Split(text, "\r\n")
	if len(lines) > maxHeaders+1 {
		return h, errHead(fmt.Sprintf("more than %d headers", maxHeaders))
	}
	for _, l := range lines {
		for i := range len(l) {
			if c := l[i]; c < ' ' && c != '\t' || c == 0x7f {
				return h, errHead("the head has control characters or a bare line end")
			}
		}
	}
	if err := h.line(lines[0]); err != nil {
		return h, err
	}
	for _, l := range lines[1:] {
		if err := h.header(l); err != nil {
			return h, err
		}
	}
	switch {
	case h.lengths > 0 && h.codings > 0:
		return h, errHead("the request has both Content-Length and Transfer-Encoding")
	case h.lengths > 1:
		return h, errHead("the request has more than one Content-Length")
	case h.codings > 1:
		return h, errHead("the request has more than one Transfer-Encoding")
	case h.codings > 0 && h.version == "HTTP/1.0":
		return h, errHead("HTTP/1.0 has no Transfer-Encoding")
	case h.hosts > 1, h.hosts == 0 && h.version == "HTTP/1.1":
		return h, errHead("the request needs exactly one Host")
	}
	return h, nil
}

// line checks METHOD TARGET VERSION.
func (h *head) line(l string) error {
	parts := strings.Split(l, " ")
	if len(parts) != 3 || !token(parts[0]) || len(parts[0]) > 32 || parts[1] == "" || strings.Contains(l, "\t") {
		return errHead("the first line is not METHOD TARGET VERSION")
	}
	if !ascii(parts[1]) || strings.ContainsAny(parts[1], `#\`) {
		return errHead("the target has characters that have to be escaped")
	}
	if h.version = parts[2]; h.version != "HTTP/1.1" && h.version != "HTTP/1.0" {
		return errHead("the version is not HTTP/1.1")
	}
	return nil
}

// header checks NAME: VALUE.
func (h *head) header(l string) error {
	if l == "" || l[0] == ' ' || l[0] == '\t' {
		return errHead("a header is folded over two lines")
	}
	name, value, ok := strings.Cut(l, ":")
	if !ok || !token(name) {
		return errHead("a header is not NAME: VALUE")
	}
	value = strings.Trim(value, " \t")
	switch strings.ToLower(name) {
	case "host":
		h.host = value
		h.hosts++
	case "content-length":
		h.lengths++
		if value == "" || len(value) > 18 || strings.Trim(value, "0123456789") != "" {
			return errHead("Content-Length is not a number")
		}
	case "transfer-encoding":
		h.codings++
		if !strings.EqualFold(value, "chunked") {
			return errHead("Transfer-Encoding is not chunked")
		}
	}
	return nil
}
