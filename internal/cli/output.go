package cli

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/exit"
	"haft/internal/terminal"
)

// A Listing is how a list is printed: the headings of its columns, separated by commas, the cells
// of an item, and a sentence for an empty list. It is an alias, so that other packages may leave the
// names of its fields out, as a table of them does.
type Listing[T any] = struct {
	Head  string
	Row   func(T) []any
	Empty string
}

// PrintTable prints a table.
func PrintTable[T any](w io.Writer, all []T, l Listing[T]) {
	tab := NewTable(w, strings.Split(l.Head, ",")...)
	for _, v := range all {
		tab.Row(l.Row(v)...)
	}
	tab.Print(l.Empty)
}

// Collect returns the items of a list. It is never nil, which would be null in JSON.
func Collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for v, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// A Cell is a text in a table, and its colour.
type Cell struct {
	text  string
	Shade terminal.Colour // 0 means none
}

// Shaded makes a cell of a text and its colour.
func Shaded(text string, shade terminal.Colour) Cell { return Cell{text, shade} }

// cellOf makes a cell of a value.
func cellOf(v any) Cell {
	if c, ok := v.(Cell); ok {
		return c
	}
	return Cell{text: fmt.Sprint(v)}
}

// Paint returns the text in its colour.
func (c Cell) Paint(w io.Writer) string {
	if c.Shade == 0 || c.text == "" {
		return c.text
	}
	return terminal.Paint(w, c.Shade, c.text)
}

// A table is lines of aligned cells. The first line has the headings.
type table struct {
	w    io.Writer
	rows [][]Cell
}

// MaxCell bounds a column, so that one long text does not push the others away.
const MaxCell = 60

// NewTable makes a table with the given headings.
func NewTable(w io.Writer, head ...string) *table {
	line := make([]Cell, len(head))
	for i, h := range head {
		line[i] = Shaded(h, terminal.Dim)
	}
	return &table{w: w, rows: [][]Cell{line}}
}

// Row adds a line of texts and cells. Control characters in a text are escaped.
func (t *table) Row(values ...any) {
	line := make([]Cell, len(values))
	for i, v := range values {
		line[i] = cellOf(v)
		line[i].text = terminal.OneLine(line[i].text, MaxCell)
	}
	t.rows = append(t.rows, line)
}

// Print writes the table, or a sentence if it has only headings.
func (t *table) Print(empty string) {
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
			b.WriteString(strings.Repeat(" ", blank) + c.Paint(t.w))
			blank = width[i] - utf8.RuneCountInString(c.text) + 2
		}
		fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	}
}

// PrintFacts writes names and values, which alternate, in two columns. It leaves out values
// without a text.
func PrintFacts(w io.Writer, facts ...any) {
	width := 0
	for i := 0; i < len(facts); i += 2 {
		width = max(width, len(facts[i].(string)))
	}
	for i := 0; i < len(facts); i += 2 {
		c := cellOf(facts[i+1])
		if c.text == "" {
			continue
		}
		c.text = terminal.Escape(c.text)
		fmt.Fprintf(w, "%s  %s\n", terminal.Paint(w, terminal.Dim, fmt.Sprintf("%-*s", width, facts[i])), c.Paint(w))
	}
}

// Since says how long ago a time is, for people.
func Since(t time.Time) string { return terminal.Ago(t, time.Now()) }

// StatusCell is a status in its colour.
func StatusCell(s haft.Status) Cell { return Shaded(string(s), terminal.StatusColour(s)) }

// ShortDigest is enough of a digest to distinguish versions.
func ShortDigest(d string) string {
	name, sum, ok := strings.Cut(d, ":")
	if !ok {
		return d
	}
	return name + ":" + sum[:min(12, len(sum))]
}

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ReportJSON prints an error in the form of the HTTP API if the command was asked for
// JSON: a script that reads its output must not find none.
func ReportJSON(cmd *cobra.Command, w io.Writer, err error) {
	msg := exit.Text(err)
	asked, _ := cmd.Flags().GetBool("json") // a command without the flag was not asked
	form, _ := cmd.Flags().GetString("print")
	if msg == "" || !asked && form != formatJSON && form != formatYAML {
		return
	}
	code := haft.CodeOf(err)
	if code == haft.CodeInternal && exit.CodeOf(err) == exit.Usage {
		code = haft.CodeInvalid // the command line is wrong, and not the program
	}
	body := map[string]string{"code": string(code), "message": msg}
	if next := exit.NextStep(err); next != "" {
		body["next"] = next
	}
	_ = PrintJSON(w, map[string]any{"error": body}) // stderr has it too
}

// Report prints an error for a person.
func Report(w io.Writer, err error) {
	if msg := exit.Text(err); msg != "" {
		fmt.Fprintln(w, terminal.Paint(w, terminal.Red, "haft:"), terminal.Safe(w, msg))
		if next := exit.NextStep(err); next != "" {
			fmt.Fprintln(w, terminal.Paint(w, terminal.Dim, "  next: "+terminal.Safe(w, next)))
		}
	}
}
