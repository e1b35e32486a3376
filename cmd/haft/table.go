package main

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
)

// A cell is a text in a table, and its colour.
type cell struct {
	text  string
	shade colour // 0 means none
}

// A table is lines of aligned cells.
type table struct {
	w    io.Writer
	head []string
	rows [][]cell
}

// widest bounds a column, so that one long text does not push the others away.
const widest = 60

// newTable makes a table with the given headings.
func newTable(w io.Writer, head ...string) *table { return &table{w: w, head: head} }

// printList prints a list: as JSON if that is asked for, and else as a table to which
// row adds the line of each. A list of nothing is the given sentence.
func printList[T any](s *session, list iter.Seq2[T, error], empty string, head []string, row func(*table, T)) error {
	all := []T{}
	for v, err := range list {
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	if s.as.json {
		return printJSON(s.std.out, all)
	}
	tab := newTable(s.std.out, head...)
	for _, v := range all {
		row(tab, v)
	}
	tab.print(empty)
	return nil
}

// row adds a line of texts and cells. What came from a tool is made harmless.
func (t *table) row(values ...any) {
	line := make([]cell, len(values))
	for i, v := range values {
		c, ok := v.(cell)
		if !ok {
			c = cell{text: fmt.Sprint(v)}
		}
		c.text = oneLine(c.text, widest)
		line[i] = c
	}
	t.rows = append(t.rows, line)
}

// print writes the table. A table without lines is the given sentence.
func (t *table) print(empty string) {
	if len(t.rows) == 0 {
		fmt.Fprintln(t.w, empty)
		return
	}
	width := make([]int, len(t.head))
	for i, h := range t.head {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, line := range t.rows {
		for i, c := range line {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{h, dim}
	}
	t.line(width, head)
	for _, line := range t.rows {
		t.line(width, line)
	}
}

// line writes one line, without blanks at its end.
func (t *table) line(width []int, cells []cell) {
	var b strings.Builder
	blank := 0
	for i, c := range cells {
		b.WriteString(strings.Repeat(" ", blank))
		text := c.text
		if c.shade != 0 && text != "" {
			text = paint(t.w, c.shade, text)
		}
		b.WriteString(text)
		blank = width[i] - utf8.RuneCountInString(c.text) + 2
	}
	fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
}

// oneLine makes a text fit for a cell: one line, without control characters,
// and not too long.
func oneLine(text string, most int) string {
	text = escape(strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:most-1]) + "…"
}

// ago says how long ago a time is, for people.
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

// shortDigest is enough of a digest to tell versions apart.
func shortDigest(d string) string {
	name, sum, ok := strings.Cut(d, ":")
	if !ok {
		return d
	}
	return name + ":" + sum[:min(12, len(sum))]
}

// A fact is one line of a description.
type fact struct {
	name string
	text any
}

// printFacts writes facts in two columns, leaving out those without a text.
func printFacts(w io.Writer, facts ...fact) {
	width := 0
	for _, f := range facts {
		width = max(width, len(f.name))
	}
	for _, f := range facts {
		c, ok := f.text.(cell)
		if !ok {
			c = cell{text: fmt.Sprint(f.text)}
		}
		if c.text == "" {
			continue
		}
		text := escape(c.text)
		if c.shade != 0 {
			text = paint(w, c.shade, text)
		}
		fmt.Fprintf(w, "%s  %s\n", paint(w, dim, fmt.Sprintf("%-*s", width, f.name)), text)
	}
}
