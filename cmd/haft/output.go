package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"haft"
)

// printJSON writes v as one JSON object on one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// print prints a document as JSON if that is asked for, and else by text, for people.
func (p *profile) print(document any, text func()) error {
	if p.json {
		return printJSON(p.out, document)
	}
	text()
	return nil
}

// printLine prints what was done: a document, or one line.
func (p *profile) printLine(document any, line string) error {
	return p.print(document, func() { fmt.Fprintln(p.out, line) })
}

// A listing is how a list is printed: the headings of its columns, separated by commas, the cells
// of an item, and a sentence for an empty list.
type listing[T any] struct {
	head  string
	row   func(T) []any
	empty string
}

// printList prints a list as JSON or as a table.
func printList[T any](p *profile, list iter.Seq2[T, error], l listing[T]) error {
	all, err := collect(list)
	if err != nil {
		return err
	}
	return p.print(all, func() { printTable(p.out, all, l) })
}

// printTable prints a table.
func printTable[T any](w io.Writer, all []T, l listing[T]) {
	tab := newTable(w, strings.Split(l.head, ",")...)
	for _, v := range all {
		tab.row(l.row(v)...)
	}
	tab.print(l.empty)
}

// collect returns the items of a list. It is never nil, which would be null in JSON.
func collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for v, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// A cell is a text in a table, and its colour.
type cell struct {
	text  string
	shade colour // 0 means none
}

// cellOf makes a cell of a value.
func cellOf(v any) cell {
	if c, ok := v.(cell); ok {
		return c
	}
	return cell{text: fmt.Sprint(v)}
}

// paint returns the text in its colour.
func (c cell) paint(w io.Writer) string {
	if c.shade == 0 || c.text == "" {
		return c.text
	}
	return paint(w, c.shade, c.text)
}

// A table is lines of aligned cells. The first line has the headings.
type table struct {
	w    io.Writer
	rows [][]cell
}

// maxCell bounds a column, so that one long text does not push the others away.
const maxCell = 60

// newTable makes a table with the given headings.
func newTable(w io.Writer, head ...string) *table {
	line := make([]cell, len(head))
	for i, h := range head {
		line[i] = cell{h, dim}
	}
	return &table{w: w, rows: [][]cell{line}}
}

// row adds a line of texts and cells. Control characters in a text are escaped.
func (t *table) row(values ...any) {
	line := make([]cell, len(values))
	for i, v := range values {
		line[i] = cellOf(v)
		line[i].text = oneLine(line[i].text, maxCell)
	}
	t.rows = append(t.rows, line)
}

// print writes the table, or a sentence if it has only headings.
func (t *table) print(empty string) {
	if len(t.rows) == 1 {
		fmt.Fprintln(t.w, empty)
		return
	}
	width := make([]int, len(t.rows[0]))
	for _, line := range t.rows {
		for i, c := range line {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, line := range t.rows {
		var b strings.Builder
		blank := 0
		for i, c := range line {
			b.WriteString(strings.Repeat(" ", blank) + c.paint(t.w))
			blank = width[i] - utf8.RuneCountInString(c.text) + 2
		}
		fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	}
}

// oneLine makes one line of a text, without control characters and of at most so many characters.
func oneLine(text string, most int) string {
	text = escape(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// printFacts writes names and values, which alternate, in two columns. It leaves out values
// without a text.
func printFacts(w io.Writer, facts ...any) {
	width := 0
	for i := 0; i < len(facts); i += 2 {
		width = max(width, len(facts[i].(string)))
	}
	for i := 0; i < len(facts); i += 2 {
		c := cellOf(facts[i+1])
		if c.text == "" {
			continue
		}
		c.text = escape(c.text)
		fmt.Fprintf(w, "%s  %s\n", paint(w, dim, fmt.Sprintf("%-*s", width, facts[i])), c.paint(w))
	}
}

// since says how long ago a time is, for people.
func since(t time.Time) string { return ago(t, time.Now()) }

// ago says how long before now a time is, for people.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d) + " ago"
}

// span is a length of time in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// statusCell is a status in its colour.
func statusCell(s haft.Status) cell {
	shade := red
	switch {
	case s == haft.StatusSuccess:
		shade = green
	case !s.Final():
		shade = cyan
	case s == haft.StatusCancelled || s == haft.StatusUnknown || s == haft.StatusRate:
		shade = yellow
	}
	return cell{string(s), shade}
}

// shortDigest is enough of a digest to distinguish versions.
func shortDigest(d string) string {
	name, sum, ok := strings.Cut(d, ":")
	if !ok {
		return d
	}
	return name + ":" + sum[:min(12, len(sum))]
}

// colour is an ANSI colour code.
type colour int

// The colours in use.
const (
	bold   colour = 1
	dim    colour = 2
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	cyan   colour = 36
)

// isTerminal reports whether a stream is a terminal, so that a person looks at it.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint colours s where w is a terminal and NO_COLOR is not set.
func paint(w io.Writer, c colour, s string) string {
	if !isTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + strconv.Itoa(int(c)) + "m" + s + "\x1b[0m"
}

// safe makes text from a tool harmless on a terminal: control characters, which
// could move the cursor, set the title or reverse the reading order, become
// visible escapes. A file gets the text unchanged.
func safe(w io.Writer, s string) string {
	if !isTerminal(w) {
		return s
	}
	return escape(s)
}

// escape makes control and formatting characters visible, except line breaks
// and tabs.
func escape(s string) string {
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

// progress shows a person what an installer or a tool does: one line that changes. If the output
// is not a terminal, it is silent about installers and prints a line for each report of a tool.
type progress struct {
	w  io.Writer
	on bool

	mu    sync.Mutex
	shown bool
}

// newProgress returns one for w.
func newProgress(w io.Writer) *progress { return &progress{w: w, on: isTerminal(w)} }

// maxProgress is how many characters of a line are shown.
const maxProgress = 70

// line replaces the line that is shown; "" removes it.
func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaceLine(text)
}

// output prints what a tool prints, in place of the line.
func (p *progress) output(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaceLine("")
	fmt.Fprint(p.w, safe(p.w, text))
}

// event shows what a tool printed or reported.
func (p *progress) event(e haft.Event) {
	var d struct{ Text string }
	switch {
	case e.Type == haft.EventProgress:
		p.report(e.Data)
	case e.Type == haft.EventOutput && json.Unmarshal(e.Data, &d) == nil:
		p.output(d.Text)
	}
}

// report shows how far a tool is. Reports of another form are left out.
func (p *progress) report(data json.RawMessage) {
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
		p.output("item " + text + ": " + oneLine(string(r.Item), 10*maxProgress) + "\n")
		return
	case r.Total > 0 && p.on:
		part := min(max(done/r.Total, 0), 1)
		n := int(part * width)
		text = fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", n), strings.Repeat(".", width-n), part*100)
	case r.Total > 0:
		text += "/" + strconv.FormatFloat(r.Total, 'g', 6, 64)
	}
	if text = strings.TrimSpace(text + " " + r.Message); p.on {
		p.line(text)
	} else {
		p.output("progress: " + oneLine(text, 10*maxProgress) + "\n")
	}
}

// replaceLine replaces the line that is shown. Preconditions: mu is held.
func (p *progress) replaceLine(text string) {
	if !p.on || text == "" && !p.shown {
		return
	}
	p.shown = text != ""
	text = strings.ReplaceAll(escape(text), "\n", " ")
	if r := []rune(text); len(r) > maxProgress {
		text = string(r[:maxProgress]) + "…"
	}
	if fmt.Fprint(p.w, "\r\x1b[K"); text != "" {
		fmt.Fprint(p.w, paint(p.w, dim, text))
	}
}
