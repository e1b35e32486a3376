package layer

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// How many bytes of an output are kept and passed on.
const (
	maxTail  = 64 << 10
	maxLine  = 300
	maxWords = 1500
)

// output is stdout or stderr of an installer. It passes each line on and keeps the end.
type output struct {
	st     *step
	also   io.Writer // gets all of it, if not nil
	silent bool

	mu   sync.Mutex
	line []byte
	end  []byte
}

// Write implements [io.Writer].
func (t *output) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.also != nil {
		if _, err := t.also.Write(p); err != nil {
			return 0, err
		}
	}
	t.end = append(t.end, p...)
	if over := len(t.end) - maxTail; over > maxTail {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		part := rest
		if i >= 0 {
			part, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if free := 4*maxLine - len(t.line); free > 0 {
			t.line = append(t.line, part[:min(free, len(part))]...)
		}
		if i >= 0 {
			t.sendLine()
		}
	}
	return len(p), nil
}

// sendLine passes the collected line on.
func (t *output) sendLine() {
	line := strings.TrimSpace(t.st.clean(string(t.line)))
	t.line = t.line[:0]
	if line != "" && !t.silent {
		t.st.progress(cut(line, maxLine))
	}
}

// flush passes on a last line without a line break.
func (t *output) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sendLine()
}

// tail returns the end of the output.
func (t *output) tail() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.end) <= maxTail {
		return string(t.end)
	}
	// From the first whole line on: half a secret would not be recognised.
	_, rest, _ := bytes.Cut(t.end[len(t.end)-maxTail:], []byte("\n"))
	return string(rest)
}

var (
	escapes = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|.)")
	})
	credentials = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]*@`) })
)

// clean removes from the text of an installer the escapes that a terminal would obey, secrets,
// and the paths of the host.
func (st *step) clean(text string) string {
	text = escapes().ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		if r == '\t' {
			return ' '
		}
		return -1
	}, text)
	if st.in.Redact != nil {
		text = st.in.Redact(text)
	}
	text = credentials().ReplaceAllString(text, "${1}[secret]@")
	for _, dir := range []string{string(st.files), string(st.scratch)} {
		if dir != "" {
			text = strings.ReplaceAll(text, dir, "…")
		}
	}
	return text
}

// cut shortens a line.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// lastWords returns the last lines of a text that are not empty.
func lastWords(text string) string {
	var keep []string
	total := 0
	lines := strings.Split(text, "\n")
	for i := len(lines) - 1; i >= 0 && len(keep) < 12; i-- {
		line := cut(strings.TrimSpace(lines[i]), maxLine)
		if line == "" || strings.HasPrefix(line, "[notice]") {
			continue
		}
		if total += len(line) + 1; total > maxWords {
			break
		}
		keep = append([]string{line}, keep...)
	}
	return strings.Join(keep, "\n")
}
