package store

import (
	"context"
	"strconv"
	"strings"
)

// An insert is a statement that adds rows, as many at once as there are.
type insert struct {
	head string // up to VALUES
	cols int
	tail string // what follows the rows
}

// maxRows is how many rows one statement adds. Fewer are added by statements for
// powers of two, so that each number of rows needs few texts and few statements.
const maxRows = 64

// text returns the statement for n rows.
func (in insert) text(n int, numbered bool) string {
	var b strings.Builder
	b.WriteString(in.head)
	b.WriteString(" VALUES ")
	writeRows(&b, n, in.cols, numbered)
	b.WriteString(in.tail)
	return b.String()
}

// writeRows writes placeholders for n rows.
func writeRows(b *strings.Builder, n, cols int, numbered bool) {
	arg := 0
	for row := range n {
		if row > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('(')
		for col := range cols {
			if col > 0 {
				b.WriteByte(',')
			}
			arg++
			mark(b, arg, numbered)
		}
		b.WriteByte(')')
	}
}

// mark writes one placeholder.
func mark(b *strings.Builder, arg int, numbered bool) {
	if !numbered {
		b.WriteByte('?')
		return
	}
	b.WriteByte('$')
	b.WriteString(strconv.Itoa(arg))
}

// insertText returns the text for 1<<power rows of a kind, which is made once.
func (s *Store) insertText(in *insert, power int) string {
	type key struct {
		in    *insert
		power int
	}
	k := key{in, power}
	if text, ok := s.texts.Load(k); ok {
		return text.(string)
	}
	text := in.text(1<<power, s.dialect.Numbered)
	s.texts.Store(k, text)
	return text
}

// add runs in for all rows whose columns are in args, one after the other, and
// returns how many rows were changed.
func (t *tx) add(ctx context.Context, in *insert, args []any) (int64, error) {
	var changed int64
	power := 6
	for rows := len(args) / in.cols; rows > 0; {
		for 1<<power > rows {
			power--
		}
		n := in.cols << power
		m, err := t.exec(ctx, t.s.insertText(in, power), args[:n]...)
		if err != nil {
			return 0, err
		}
		changed += m
		args, rows = args[n:], rows-1<<power
	}
	return changed, nil
}

// in returns a list of n placeholders, the first of which is number from. What
// goes there is padded, so that there are few texts.
func in(n, from int) string {
	var b strings.Builder
	b.WriteByte('(')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		// Always numbered: other placeholders of the same text are.
		mark(&b, from+i, true)
	}
	b.WriteByte(')')
	return b.String()
}

// pad repeats the last of args until their number is a power of two.
func pad(args []any) []any {
	for n := len(args); n > 0 && n&(n-1) != 0; n = len(args) {
		args = append(args, args[n-1])
	}
	return args
}

// chunks calls f with at most [maxRows] of list at a time.
func chunks[T any](list []T, f func([]T) error) error {
	for len(list) > 0 {
		n := min(len(list), maxRows)
		if err := f(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}
