package egress

import (
	"encoding/base32"
	"fmt"
	"io"
	"net/http"
	"strings"

	"haft"
	"haft/internal/secret"
)

// Bounds of the values that are searched in answers.
const (
	// maxKnown is how many values one broker takes out of answers. Values change
	// rarely; a call in which they change more often than this is not served on.
	maxKnown = 1000
	// maxMore is the longest value that is also looked for in rarer encodings.
	maxMore = 512
)

// cleaner removes the values of secrets from what a server sends back. All of it passes
// here on its way to the program: the status line, the names and values of headers and
// trailers, bodies and WebSocket messages. Informational answers (1xx) are not passed on
// at all. A value is known before the first request with it is sent, also if the answer
// was being read already.
//
// A value is found as it is and in upper, lower or mixed case, in base64, base32 and
// hexadecimal, as UTF-16, and with its characters escaped for JSON, JavaScript, HTML or
// URLs, up to [secret.Levels] times over. It is not found if a server sends its parts
// apart from each other, encrypts it or transforms it in its own way.
type cleaner struct{ broker *Broker }

// cleaner returns what takes values out of the answers of d, or nil if no secret
// belongs there.
func (b *Broker) cleaner(d Dest) *cleaner {
	if !b.bound(d.Host, d.Port) {
		return nil
	}
	return &cleaner{b}
}

// sent reports whether a value was put into a request, or will be soon.
func (b *Broker) sent() bool { return b.redactor.Load() != nil }

// remember adds a value, before it is put into a request, to the values that are removed
// from answers. The map more has other texts that contain the value, and what stood in
// their place before.
func (b *Broker) remember(s Secret, value string, more map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known
	add := func(text, mask string) {
		for _, k := range known {
			if k.Value.Reveal() == text {
				return
			}
		}
		if strings.ContainsFunc(mask, func(r rune) bool {
			return r <= ' ' || r > '~' ||
				strings.ContainsRune(`"'\<>&%`, r)
		}) {
			mask = "***" // it would have to be escaped
		}
		for _, form := range moreForms(text) {
			known = append(known, secret.Named{Name: s.Name, Value: secret.New(form), Mask: mask})
		}
	}
	add(value, s.Placeholder)
	for text, mask := range more {
		add(text, mask)
	}
	if len(known) == len(b.known) {
		return nil
	}
	r := secret.NewRedactor(secret.Config{Values: known})
	if len(known) > maxKnown || len(r.Skipped()) > 0 {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "the secrets of the call are too many or too long to be kept out of answers"}
	}
	b.known = known
	b.redactor.Store(r)
	return nil
}

// moreForms returns a value and its forms in UTF-16 and base32, which package secret does
// not search for.
func moreForms(value string) []string {
	forms := []string{value}
	if len(value) > maxMore {
		return forms
	}
	wide := make([]byte, 0, 2*len(value))
	for i := range len(value) {
		wide = append(wide, value[i], 0)
	}
	forms = append(forms, string(wide[:len(wide)-1])) // in either order of bytes
	for before := range 5 {
		// The characters that stand for bits of the value only.
		raw := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append(make([]byte, before), value...))
		if text := raw[(before*8+4)/5 : (before+len(value))*8/5]; len(text) >= minSecret {
			forms = append(forms, text)
		}
	}
	return forms
}

// text returns s without values.
func (c *cleaner) text(s string) string {
	s = c.broker.redactor.Load().Text(s)
	if c.broker.cfg.Redact != nil {
		clean, err := io.ReadAll(c.broker.cfg.Redact(strings.NewReader(s)))
		if err != nil {
			clean = nil
		}
		s = string(clean)
	}
	return s
}

// header takes values out of a header. A field in whose name there is one is removed.
func (c *cleaner) header(h http.Header) {
	for name, values := range h {
		if http.CanonicalHeaderKey(name) != name || !token(name) || c.text(name) != name {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = c.text(v)
		}
	}
}

// reader returns r without values.
func (c *cleaner) reader(r io.Reader) io.Reader {
	r = &cleanReader{from: r, searchedStream: searchedStream{broker: c.broker}}
	if c.broker.cfg.Redact != nil {
		r = c.broker.cfg.Redact(r)
	}
	return r
}

// searchedStream is a stream of bytes from which the values that the broker knows are
// removed.
type searchedStream struct {
	broker *Broker
	using  *secret.Redactor
	stream *secret.Stream
	out    []byte // what may be passed on
}

// write takes bytes that were read just now. A value that was sent meanwhile is known
// before its echo can be among them.
func (l *searchedStream) write(p []byte) {
	now := l.broker.redactor.Load()
	if l.stream == nil || now != l.using {
		if l.stream != nil {
			l.stream.Break()
		}
		l.using, l.stream = now, now.NewStream(func(b []byte) { l.out = append(l.out, b...) })
	}
	_, _ = l.stream.Write(p) // which never fails
}

// endMessage ends a message: all of it is in out.
func (l *searchedStream) endMessage() {
	if l.stream != nil {
		l.stream.Break()
	}
}

// found reports whether a value was in the written bytes.
func (l *searchedStream) found() bool { return l.stream != nil && l.stream.Found() }

// end returns the bytes that were held back.
func (l *searchedStream) end() {
	if l.stream != nil {
		l.stream.Close()
	}
}

// cleanReader is a reader that removes values, however the text is cut into pieces. It holds
// bytes back only while they may be the beginning of a value, so that a stream arrives piece by
// piece.
type cleanReader struct {
	searchedStream
	from io.Reader
	at   int // in out
	err  error
	buf  []byte // as long as what comes at once
}

// Read implements [io.Reader].
func (r *cleanReader) Read(p []byte) (int, error) {
	for r.at == len(r.out) && r.err == nil {
		r.out, r.at = r.out[:0], 0
		if r.buf == nil {
			r.buf = make([]byte, 2<<10)
		}
		n, err := r.from.Read(r.buf)
		if n > 0 {
			r.write(r.buf[:n])
		}
		if n == len(r.buf) && n < 32<<10 {
			r.buf = make([]byte, 4*n)
		}
		if r.err = err; err != nil {
			r.end()
		}
	}
	n := copy(p, r.out[r.at:])
	if r.at += n; n == 0 && len(p) > 0 {
		return 0, r.err
	}
	return n, nil
}

// unreadable is the error for an answer in which values could be hidden.
func unreadable(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: fmt.Sprintf(format, args...)}
}
