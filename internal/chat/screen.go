package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/terminal"
)

// The beginnings of lines say whose they are. Text of the model is behind a gutter and output of tools behind another
// one, so that neither can look like a line of the command itself.
const (
	textGutter  = "│ "
	thinkGutter = "┊ "
	toolGutter  = "  ┆ "
	spinner     = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
)

// shownLines is how many lines of the output of a tool are shown.
const shownLines = 4

// paint colours text of ours.
func paint(on bool, c terminal.Colour, text string) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + strconv.Itoa(int(c)) + "m" + text + "\x1b[0m"
}

// A screen shows what happens. Only the goroutine of the session uses it.
type screen struct {
	out    io.Writer // the answers
	notes  io.Writer // the rest: the same if it is a terminal
	tty    bool
	colour bool
	cols   func() int

	b      bytes.Buffer // what is written next to the terminal
	block  *markdown    // what the model writes now, or nil
	gutter string       // of the block
	open   bool         // without a terminal: the line has not ended
	status bool         // the last line is one that changes
	frame  int
	err    error // the first that a write returned
}

// width is how many columns there are.
func (s *screen) width() int {
	if s.cols != nil {
		if n := s.cols(); n > 0 {
			return max(n, minText)
		}
	}
	return 80
}

// flush writes to the terminal, which is in raw mode and needs both characters to end a line.
func (s *screen) flush() {
	s.send(s.out, bytes.ReplaceAll(s.b.Bytes(), []byte("\n"), []byte("\r\n")))
	s.b.Reset()
}

// send writes, and keeps the first error.
func (s *screen) send(w io.Writer, text []byte) {
	if len(text) == 0 || w == nil || s.err != nil {
		return
	}
	if _, err := w.Write(text); err != nil {
		s.err = fmt.Errorf("write to the terminal: %w", err)
	}
}

// text shows a piece of what the model writes, or of its reasoning.
func (s *screen) text(piece string, thinking bool) {
	if !s.tty {
		s.raw(piece, thinking)
		return
	}
	gutter, base := textGutter, plain
	if thinking {
		gutter, base = thinkGutter, dim
	}
	if s.block == nil || s.gutter != gutter {
		s.end()
		width := s.width() // of the whole block, so that it looks the same whatever arrives when
		s.block = newMarkdown(&s.b, gutter, base, s.colour, func() int { return width })
		s.gutter = gutter
	}
	s.clearStatus()
	s.block.add(piece)
	s.flush()
}

// raw writes a piece of the answer for programs.
func (s *screen) raw(piece string, thinking bool) {
	if thinking {
		return
	}
	text := []byte(terminal.Escape(piece))
	s.send(s.out, text)
	s.open = len(text) > 0 && text[len(text)-1] != '\n'
}

// end ends what the model writes.
func (s *screen) end() {
	if s.open {
		s.send(s.out, []byte("\n"))
	}
	if s.open = false; s.block != nil {
		s.clearStatus()
		s.block.close()
		s.block = nil
		s.flush()
	}
}

// clearStatus removes the line that changes.
func (s *screen) clearStatus() {
	if s.status {
		s.b.WriteString("\r\x1b[K")
		s.status = false
	}
}

// line writes a line of ours. What it has of others is harmless already.
func (s *screen) line(text string) {
	s.end()
	if !s.tty {
		s.send(s.notes, []byte(text+"\n"))
		return
	}
	s.clearStatus()
	s.b.WriteString(text + "\n")
	s.flush()
}

// info writes a text on as many lines as it takes, each behind our mark.
func (s *screen) info(mark string, c terminal.Colour, text string) {
	for _, line := range wrap(oneLine(text, 6*s.width()), s.width()-len([]rune(mark))-1) {
		s.line(paint(s.colour, c, mark) + line)
	}
}

// note says what happens.
func (s *screen) note(text string) { s.info("· ", terminal.Dim, text) }

// problem says what is wrong, and what to do.
func (s *screen) problem(text, next string) {
	if s.info("! ", terminal.Red, text); next != "" {
		s.info("  next: ", terminal.Dim, next)
	}
}

// spin shows that something goes on, where the cursor is at the beginning of a line.
func (s *screen) spin(doing string) {
	if !s.tty || s.block != nil && s.block.col >= 0 {
		return
	}
	frames := []rune(spinner)
	s.frame = (s.frame + 1) % len(frames)
	s.b.WriteString("\r\x1b[K" + paint(s.colour, terminal.Dim, string(frames[s.frame])+" "+
		oneLine(doing, s.width()-4)))
	s.status = true
	s.flush()
}

// call shows a call that the model asks for.
func (s *screen) call(c haft.ToolCall) {
	name := oneLine(c.Tool, s.width()/2)
	line := "● " + paint(s.colour, terminal.Bold, name) + " "
	s.line(line + paint(s.colour, terminal.Dim, oneLine(string(c.Args), max(s.width()-len([]rune(name))-4, minText))))
	if c.Malformed != "" {
		s.note("the arguments cannot be read: " + c.Malformed)
	}
}

// result shows how a call ended.
func (s *screen) result(r *haft.Result) {
	text := "in " + r.Usage.Wall.D().Round(time.Millisecond).String()
	if box := r.Sandbox; box.Provider != "" && box.Provider != "none" {
		text += fmt.Sprintf(", isolation %s (%s)", cmp.Or(box.Isolation.Level, haft.LevelNone), box.Provider)
		word := ", without "
		for _, g := range box.Isolation.Missing {
			if g.Control != haft.ControlKernel { // that is another kind of sandbox
				text += word + string(g.Control)
				word = ", "
			}
		}
	} else {
		text += ", no sandbox"
	}
	if r.Cached {
		text += ", the value is that of an earlier call"
	}
	body := valueText(r.Value)
	if r.Error != nil {
		body = r.Error.Message
	}
	s.outcome(r.Tool, r.Status, text, r.Stdout+"\n"+r.Stderr, body)
	for _, n := range r.Notices {
		s.note(n)
	}
}

// outcome shows the end of a call, and the last lines of what it gave.
func (s *screen) outcome(tool string, status haft.Status, more string, texts ...string) {
	mark, colour := "✗", terminal.Red
	if status == haft.StatusSuccess {
		mark, colour = "✓", terminal.Green
	}
	s.line("  " + paint(s.colour, colour, mark) + " " +
		oneLine(strings.TrimSpace(fmt.Sprintf("%s %s %s", tool, status, more)), s.width()-5))
	for _, text := range texts {
		for _, line := range lastLines(text, shownLines, s.width()-len([]rune(toolGutter))-1) {
			s.line(paint(s.colour, terminal.Dim, toolGutter+line))
		}
	}
}

// valueText is a value without the quotes of a text.
func valueText(value json.RawMessage) string {
	var s string
	switch {
	case string(value) == "null":
		return ""
	case json.Unmarshal(value, &s) == nil:
		return s
	}
	return string(value)
}

// message shows a message that was kept before, shortly.
func (s *screen) message(m haft.Message) {
	who := strings.TrimSpace(string(m.Role) + " " + m.Name)
	if m.Role == haft.RoleUser && m.Name == "" {
		who = "you"
	}
	s.line(paint(s.colour, terminal.Bold, oneLine(who, s.width()/2)) + " " + paint(s.colour, terminal.Dim,
		terminal.Ago(m.Created, time.Now())))
	text := m.Text
	for _, c := range m.Calls {
		text += "\ncalls " + c.Tool + " " + string(c.Args)
	}
	for _, line := range lastLines(text, shownLines, s.width()-3) {
		s.line(paint(s.colour, terminal.Dim, textGutter) + line)
	}
}

// event writes an event as JSON, in which every special character of a text is an escape.
func (s *screen) event(e haft.TurnEvent) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		s.err = cmp.Or(s.err, fmt.Errorf("print an event: %w", err))
		return
	}
	s.send(s.out, escapeJSON(b.Bytes()))
}
