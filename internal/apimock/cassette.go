package apimock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/egress"
	"haft/internal/yamltree"
)

// maxExchanges is how many answers a cassette has at most.
const maxExchanges = 1000

// A cassette is a file with recorded requests and answers.
type cassette struct {
	Version   int        `json:"version"`
	Exchanges []exchange `json:"exchanges"`

	used map[string]int // how many of each key were replayed
}

// An exchange is a request and its answer.
type exchange struct {
	Request recordedRequest `json:"request"`
	Answer  Answer          `json:"answer"`
}

// A recordedRequest is a request as a cassette has it, without secrets.
type recordedRequest struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Body is the text of the body, or sha256: and its digest if it is long or no text.
	Body string `json:"body"`
}

// readCassette reads a cassette.
func readCassette(path string) (*cassette, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &haft.Error{Code: haft.CodeNotFound,
			Message: path + ": nothing was recorded yet: run haft test --record once", Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read the cassette: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, yamltree.MaxBytes+1)) // which refuses one byte more
	if err != nil {
		return nil, fmt.Errorf("read the cassette: %w", err)
	}
	return parseCassette(path, text)
}

// parseCassette reads the text of a cassette.
func parseCassette(path string, text []byte) (*cassette, error) {
	c := &cassette{used: map[string]int{}}
	if err := yamltree.Read(path, text, c); err != nil {
		return nil, err
	}
	if c.Version != 1 || len(c.Exchanges) > maxExchanges {
		return nil, invalid("%s: the cassette is not of version 1, or has more than %d exchanges", path, maxExchanges)
	}
	for i, x := range c.Exchanges {
		if _, err := x.Answer.compile(); err != nil || x.Answer.Template {
			return nil, invalid("%s: the answer of exchange %d cannot be sent: %s", path, i+1, haft.MessageOf(err))
		}
	}
	return c, nil
}

// next returns the next answer for a request, and how many there are. The caller locks.
func (c *cassette) next(key recordedRequest) (a *Answer, count int) {
	id := strings.Join([]string{key.Method, key.URL, key.Body}, "\n")
	for i, x := range c.Exchanges {
		if x.Request != key {
			continue
		}
		if count == c.used[id] {
			a = &c.Exchanges[i].Answer
		}
		count++
	}
	c.used[id]++
	return a, count
}

// recorded answers a request by the cassette: it replays the answer, or asks the real API and records it.
func (m *Mock) recorded(r egress.MockRequest, s Seen) (*http.Response, error) {
	to := s.String()
	if m.cassette == nil {
		return m.refuse(s, "no rule is for "+to+"; "+m.nearest(s)), nil
	}
	key := m.clean.request(s)
	if m.o.Record {
		return m.record(r, s, key)
	}
	m.mu.Lock()
	a, count := m.cassette.next(key)
	m.mu.Unlock()
	switch {
	case a == nil && count > 0:
		return m.refuse(s, fmt.Sprintf("%s was recorded %d times, and this is one more", to, count)), nil
	case a == nil:
		return m.refuse(s, to+" is not in the cassette "+filepath.Base(m.o.Cassette)+"; "+m.nearest(s)), nil
	}
	c, err := a.compile()
	if err != nil {
		return nil, err
	}
	s.Rule, s.Status = "cassette", c.Status
	m.remember(s)
	return c.send(r.Context(), s, 0)
}

// record asks the real API and keeps the answer.
func (m *Mock) record(r egress.MockRequest, s Seen, key recordedRequest) (*http.Response, error) {
	if r.Send == nil {
		return nil, m.fail(&haft.Error{Code: haft.CodeDenied, Message: "the real API may not be asked here"})
	}
	resp, err := r.Send()
	if err != nil {
		return nil, m.fail(fmt.Errorf("ask the real API: %w", err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	if err == nil && len(body) > maxText {
		err = invalid("the answer of the real API has more than %d bytes, which is too much to record", maxText)
	}
	if err != nil {
		return nil, m.fail(err)
	}
	a := m.clean.answer(resp, body)
	m.mu.Lock()
	full := len(m.cassette.Exchanges) >= maxExchanges
	if !full {
		m.cassette.Exchanges = append(m.cassette.Exchanges, exchange{key, a})
	}
	m.mu.Unlock()
	if full {
		return nil, m.fail(invalid("there are more than %d requests to record", maxExchanges))
	}
	s.Rule, s.Status = "real API", resp.StatusCode
	m.remember(s)
	// The tool gets the whole answer: it may need a token in it for its next request.
	return response(resp.StatusCode, resp.Header, body), nil
}

// cassetteHead explains a cassette to its readers.
const cassetteHead = "# Recorded by haft test --record, without secrets. haft test replays the answers to each\n" +
	"# request in this order. Record again, or edit the answers, as you like.\n"

// write writes the cassette in place of what was there.
func (c *cassette) write(path string) error {
	text, err := c.text(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cassette-*")
	if err != nil {
		return fmt.Errorf("write the cassette: %w", err)
	}
	defer os.Remove(f.Name()) // it has another name if all went well
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the cassette: %w", err)
	}
	return nil
}

// text returns the cassette as a document that reads back as the same.
func (c *cassette) text(path string) ([]byte, error) {
	b := bytes.NewBufferString(cassetteHead + "version: 1\nexchanges:\n")
	for i, x := range c.Exchanges {
		text := x.text()
		if text == nil {
			return nil, invalid("%s: answer %d cannot be written so that it can be read back", path, i+1)
		}
		b.Write(text)
	}
	if len(c.Exchanges) == 0 {
		b.WriteString("  []\n")
	}
	back, err := parseCassette(path, b.Bytes())
	if err == nil && !slices.EqualFunc(back.Exchanges, c.Exchanges, sameExchange) {
		err = invalid("%s: the answers cannot be written so that they can be read back", path)
	}
	return b.Bytes(), err
}

// text returns an exchange in the first form that reads back as the same, or nil.
func (x exchange) text() []byte {
	for _, form := range []bodyForm{readable, quoted, encoded} {
		var b bytes.Buffer
		x.write(&b, form)
		back, err := parseCassette("", append([]byte("version: 1\nexchanges:\n"), b.Bytes()...))
		if err == nil && len(back.Exchanges) == 1 && sameExchange(back.Exchanges[0], x) {
			return b.Bytes()
		}
	}
	return nil
}

// sameExchange reports whether two exchanges have the same texts.
func sameExchange(a, b exchange) bool {
	x, errX := a.Answer.compile()
	y, errY := b.Answer.compile()
	return a.Request == b.Request && errX == nil && errY == nil && x.Status == y.Status &&
		sameBody(x, y) && fmt.Sprint(a.Answer.Headers) == fmt.Sprint(b.Answer.Headers)
}

// sameBody compares bodies: JSON by its value, since it may be written in another way.
func sameBody(a, b *compiled) bool {
	return bytes.Equal(a.body, b.body) ||
		len(a.JSON) > 0 && len(b.JSON) > 0 && differJSON(a.JSON, b.JSON) == "" && differJSON(b.JSON, a.JSON) == ""
}

// bodyForm is how bodies are written.
type bodyForm int

const (
	readable bodyForm = iota // JSON as it is, long texts line by line
	quoted
	encoded // in base64
)

// write writes an exchange. Texts are written as JSON writes them, which YAML reads too.
func (x exchange) write(b *bytes.Buffer, form bodyForm) {
	fmt.Fprintf(b, "- request:\n    method: %s\n    url: %s\n", jsonText(x.Request.Method), jsonText(x.Request.URL))
	if x.Request.Body != "" {
		fmt.Fprintf(b, "    body: %s\n", jsonText(x.Request.Body))
	}
	fmt.Fprintf(b, "  answer:\n    status: %d\n", x.Answer.Status)
	if len(x.Answer.Headers) > 0 {
		fmt.Fprint(b, "    headers:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Answer.Headers)) {
		fmt.Fprintf(b, "      %s: %s\n", jsonText(name), jsonText(x.Answer.Headers[name]))
	}
	body := x.Answer.Body
	if len(x.Answer.JSON) > 0 {
		body = string(x.Answer.JSON)
	}
	switch {
	case len(x.Answer.Base64) > 0:
		fmt.Fprintf(b, "    base64: %s\n", jsonText(x.Answer.Base64))
	case body == "":
	case form == encoded:
		fmt.Fprintf(b, "    base64: %s\n", jsonText([]byte(body)))
	case form == readable && len(x.Answer.JSON) > 0:
		b.WriteString("    json: ")
		_ = json.Indent(b, x.Answer.JSON, "      ", "  ") // it was read before
		b.WriteString("\n")
	case form == readable && isBlock(body):
		mark := "|"
		if !strings.HasSuffix(body, "\n") {
			mark = "|-"
		}
		fmt.Fprintf(b, "    body: %s\n      %s\n", mark,
			strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "\n      "))
	default:
		fmt.Fprintf(b, "    body: %s\n", jsonText(body))
	}
}

// isBlock reports whether a text can be written line by line.
func isBlock(s string) bool {
	return strings.Contains(s, "\n") && !strings.HasPrefix(s, " ") && !strings.HasPrefix(s, "\n") &&
		!strings.HasSuffix(s, "\n\n") && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' })
}

// jsonText writes a value as JSON.
func jsonText(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, and lists of them
	return strings.TrimSpace(b.String())
}

// digest is the text of a body in a cassette.
func digest(body []byte) string {
	const most = 4 << 10
	if len(body) <= most && utf8.Valid(body) {
		return string(body)
	}
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}
