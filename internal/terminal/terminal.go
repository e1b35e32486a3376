// Package terminal shows texts and progress of tools to a person, harmless on a terminal.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"haft"
)

// Is reports whether a stream is a terminal, so that a person looks at it.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width is how many columns a stream has, or 0 if it is no terminal.
func Width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Escape makes control and formatting characters visible, except line breaks
// and tabs.
func Escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// OneLine makes one line of a text, without control characters and of at most so many characters.
func OneLine(text string, most int) string {
	text = Escape(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// A Progress shows a person what an installer or a tool does: one line that changes. If the output
// is not a terminal, it is silent about installers and prints a line for each report of a tool.
type Progress struct {
	w  io.Writer
	on bool

	mu    sync.Mutex
	shown bool
}

// NewProgress returns one for w.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, on: Is(w)} }

// maxProgress is how many characters of a line are shown.
const maxProgress = 70

// Line replaces the line that is shown; "" removes it.
func (p *Progress) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaceLine(text)
}

// Output prints what a tool prints, in place of the line.
func (p *Progress) Output(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaceLine("")
	if p.on {
		text = Escape(text)
	}
	fmt.Fprint(p.w, text)
}

// Event shows what a tool printed or reported.
func (p *Progress) Event(e haft.Event) {
	var d struct{ Text string }
	switch {
	case e.Type == haft.EventProgress:
		p.Report(e.Data)
	case e.Type == haft.EventOutput && json.Unmarshal(e.Data, &d) == nil:
		p.Output(d.Text)
	}
}

// Report shows how far a tool is. Reports of another form are left out.
func (p *Progress) Report(data json.RawMessage) {
	var r struct {
		Progress *float64
		Total    float64
		Message  string
		Item     json.RawMessage
	}
	if json.Unmarshal(data, &r) != nil || r.Progress == nil {
		return
	}
	const width = 20
	done, text := *r.Progress, strconv.FormatFloat(*r.Progress, 'g', 6, 64)
	switch {
	case r.Item != nil:
		p.Output("item " + text + ": " + OneLine(string(r.Item), 10*maxProgress) + "\n")
		return
	case r.Total > 0 && p.on:
		part := min(max(done/r.Total, 0), 1)
		n := int(part * width)
		text = fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", n), strings.Repeat(".", width-n), part*100)
	case r.Total > 0:
		text += "/" + strconv.FormatFloat(r.Total, 'g', 6, 64)
	}
	if text = strings.TrimSpace(text + " " + r.Message); p.on {
		p.Line(text)
	} else {
		p.Output("progress: " + OneLine(text, 10*maxProgress) + "\n")
	}
}

// replaceLine replaces the line that is shown. Preconditions: mu is held.
func (p *Progress) replaceLine(text string) {
	if !p.on || text == "" && !p.shown {
		return
	}
	p.shown = text != ""
	text = strings.ReplaceAll(Escape(text), "\n", " ")
	if r := []rune(text); len(r) > maxProgress {
		text = string(r[:maxProgress]) + "…"
	}
	if fmt.Fprint(p.w, "\r\x1b[K"); text != "" {
		fmt.Fprint(p.w, p.dim(text))
	}
}

// dim returns text in another shade, unless NO_COLOR is set.
func (p *Progress) dim(text string) string {
	if os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// StatusColour is the colour of a status.
func StatusColour(s haft.Status) Colour {
	switch {
	case s == haft.StatusSuccess:
		return Green
	case !s.Final():
		return Cyan
	case s == haft.StatusCancelled || s == haft.StatusUnknown || s == haft.StatusRate:
		return Yellow
	}
	return Red
}

// maxAnswer bounds how long an answer to a question is.
const maxAnswer = 256

// Confirm asks a person a question and reports whether the answer is yes. It reads one line and
// nothing of what comes behind it. An input that has ended is no.
func Confirm(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question+" [y/N] ")
	var line []byte
	for b := make([]byte, 1); len(line) < maxAnswer; {
		n, err := in.Read(b)
		if n > 0 && b[0] == '\n' || err != nil {
			break
		}
		line = append(line, b[:n]...)
	}
	if !Is(in) {
		fmt.Fprintln(out)
	}
	answer := strings.ToLower(strings.TrimSpace(string(line)))
	return answer == "y" || answer == "yes"
}
