package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/terminal"
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
		line[i].text = terminal.OneLine(line[i].text, maxCell)
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
		c.text = terminal.Escape(c.text)
		fmt.Fprintf(w, "%s  %s\n", paint(w, dim, fmt.Sprintf("%-*s", width, facts[i])), c.paint(w))
	}
}

// since says how long ago a time is, for people.
func since(t time.Time) string { return terminal.Ago(t, time.Now()) }

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

// colour is [terminal.Colour].
type colour = terminal.Colour

// The colours in use.
const (
	bold, dim, red      = terminal.Bold, terminal.Dim, terminal.Red
	green, yellow, cyan = terminal.Green, terminal.Yellow, terminal.Cyan
)

// paint is [terminal.Paint].
func paint(w io.Writer, c colour, s string) string { return terminal.Paint(w, c, s) }

// safe is [terminal.Safe].
func safe(w io.Writer, s string) string { return terminal.Safe(w, s) }
