package egress

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"haft"
)

// maxKnown is how many texts one broker takes out of answers. Values change
// rarely; a call in which they change more often than this is not served on.
const maxKnown = 20_000

// A swap is a text that must not come back, and what comes instead.
type swap struct{ real, stand string }

// forms returns a value in the ways in which servers repeat it: as it is, escaped
// for JSON and URLs, in hexadecimal, in base64 at its three offsets, and in
// capitals. The plain form becomes the placeholder, the others stars.
func forms(value, placeholder string) []swap {
	all := []swap{{value, placeholder}}
	add := func(text string) {
		if len(text) >= minSecret && !slices.ContainsFunc(all, func(s swap) bool { return s.real == text }) {
			all = append(all, swap{text, strings.Repeat("*", len(text))})
		}
	}
	if quoted, err := json.Marshal(value); err == nil {
		add(strings.Trim(string(quoted), `"`))
		add(strings.ReplaceAll(strings.Trim(string(quoted), `"`), "/", `\/`))
	}
	add(url.QueryEscape(value))
	add(url.PathEscape(value))
	add(strings.ToUpper(value))
	add(strings.ToLower(value))
	h := hex.EncodeToString([]byte(value))
	add(h)
	add(strings.ToUpper(h))
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// Of what stands around the value, only whole characters are known.
			raw := enc.EncodeToString(append(make([]byte, before), value...))
			from := []int{0, 2, 3}[before]
			to := len(raw)
			if (before+len(value))%3 != 0 {
				to--
			}
			if from < to {
				add(raw[from:to])
			}
		}
	}
	return all
}

// learn remembers what was put into a request.
func (b *Broker) learn(s Secret, value string, more []swap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := func(real string) bool {
		return slices.ContainsFunc(b.known, func(k swap) bool { return k.real == real })
	}
	if !has(value) {
		b.known = append(b.known, forms(value, s.Placeholder)...)
	}
	for _, m := range more {
		if !has(m.real) {
			b.known = append(b.known, m)
		}
	}
	if len(b.known) > maxKnown {
		b.known = slices.Delete(b.known, 0, len(b.known)-maxKnown)
	}
}

// scrubber returns what takes values out of the answers of d, or nil if no secret
// belongs there.
func (b *Broker) scrubber(d Dest) func(io.Reader) io.Reader {
	if !b.bound(d.Host, d.Port) {
		return nil
	}
	b.mu.Lock()
	known := slices.Clone(b.known)
	b.mu.Unlock()
	// The longest first: of two that begin at one place it is the one to take out.
	slices.SortStableFunc(known, func(x, y swap) int { return len(y.real) - len(x.real) })
	return func(r io.Reader) io.Reader {
		if len(known) > 0 {
			r = &scrub{from: r, known: known}
		}
		if b.cfg.Redact != nil {
			r = b.cfg.Redact(r)
		}
		return r
	}
}

// scrub is a stream without the known values, however it is cut into pieces. It
// holds bytes back only while they may be the beginning of a value, so that what
// is sent piece by piece arrives so.
type scrub struct {
	from  io.Reader
	known []swap
	in    []byte // read, not yet judged
	out   []byte // judged, not yet handed out
	err   error
	buf   [16 << 10]byte
}

// Read implements [io.Reader].
func (s *scrub) Read(p []byte) (int, error) {
	for len(s.out) == 0 && s.err == nil {
		n, err := s.from.Read(s.buf[:])
		s.in = append(s.in, s.buf[:n]...)
		s.err = err
		s.judge()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	if n == 0 && len(p) > 0 {
		return 0, s.err
	}
	return n, nil
}

// judge moves what is decided from in to out.
func (s *scrub) judge() {
	s.out = s.out[:0]
	for {
		at, which := len(s.in), swap{}
		for _, k := range s.known {
			// Only before the best so far: a later one is judged in its turn.
			if i := bytes.Index(s.in[:min(len(s.in), at+len(k.real)-1)], []byte(k.real)); i >= 0 && i < at {
				at, which = i, k
			}
		}
		if which.real == "" {
			break
		}
		s.out = append(append(s.out, s.in[:at]...), which.stand...)
		s.in = s.in[at+len(which.real):]
	}
	keep := 0
	if s.err == nil {
		keep = s.begun()
	}
	s.out = append(s.out, s.in[:len(s.in)-keep]...)
	s.in = append([]byte(nil), s.in[len(s.in)-keep:]...)
}

// begun returns how many bytes at the end of in may be the beginning of a value.
func (s *scrub) begun() int {
	longest := 0
	for _, k := range s.known {
		for n := min(len(k.real)-1, len(s.in)); n > longest; n-- {
			if string(s.in[len(s.in)-n:]) == k.real[:n] {
				longest = n
			}
		}
	}
	return longest
}

// scrubHeader takes values out of a header.
func scrubHeader(h http.Header, scrub func(io.Reader) io.Reader) {
	for name, values := range h {
		for i, v := range values {
			clean, err := io.ReadAll(scrub(strings.NewReader(v)))
			if err != nil {
				clean = nil
			}
			values[i] = string(clean)
		}
		if k := http.CanonicalHeaderKey(name); k != name || !token(name) {
			delete(h, name)
		}
	}
}

// readable returns a body in which values can be found. Compression would hide
// them; what cannot be undone is refused.
func readable(resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header["Content-Encoding"], ",")))
	switch {
	case coding == "" || coding == "identity":
		return resp.Body, nil
	case resp.Request != nil && resp.Request.Method == http.MethodHead || resp.ContentLength == 0:
		return resp.Body, nil
	case coding == "gzip" || coding == "x-gzip":
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the answer says that it is gzip and is not", Err: err}
		}
		resp.Header.Del("Content-Encoding")
		resp.ContentLength = -1
		return z, nil
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, Message: fmt.Sprintf("the answer is encoded as %q, in which secrets could hide", printable(coding))}
}

// scanner looks for placeholders in a body, however it is cut into pieces.
type scanner struct {
	secrets []Secret
	tail    []byte
	refuse  func(Secret) *Refusal
	refusal *Refusal
}

// scanner returns a scanner for a request to d, or nil if there is nothing to
// look for.
func (b *Broker) scanner(d Dest) *scanner {
	if len(b.cfg.Secrets) == 0 {
		return nil
	}
	return &scanner{secrets: b.cfg.Secrets, refuse: func(s Secret) *Refusal { return b.stray(s, d) }}
}

// seen reports whether a placeholder was in p or in what came before it.
func (s *scanner) seen(p []byte) bool {
	if s.refusal != nil {
		return true
	}
	longest := 0
	hay := append(s.tail, p...)
	for _, sec := range s.secrets {
		longest = max(longest, len(sec.Placeholder))
		if bytes.Contains(hay, []byte(sec.Placeholder)) {
			s.refusal = s.refuse(sec)
			return true
		}
	}
	s.tail = append(s.tail[:0:0], hay[max(0, len(hay)-longest+1):]...)
	return false
}
