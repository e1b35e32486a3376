package store

import (
	"context"
	"strconv"
	"strings"

	"haft/internal/store/rowset"
)

// An insert is a statement that adds rows, as many at once as there are.
type insert struct {
	head string // up to VALUES
	cols int
	tail string // what follows the rows
}

// loggedInserts are the inserts of the tables of a [rowset.Set], in the order of its tables.
func loggedInserts() [5]*insert {
	return [5]*insert{insertCalls, insertEvents, insertAudit, insertLimits, insertUsage}
}

// loggedColumns are the numbers of their columns.
func loggedColumns() (cols rowset.Columns) {
	for i, in := range loggedInserts() {
		cols[i] = in.cols
	}
	return cols
}

// maxRows is how many rows one statement adds. Fewer are added by statements for
// powers of two, so that each number of rows needs few texts and few statements.
const maxRows = 64

// text returns the statement for n rows.
func (in insert) text(n int, numbered bool) string {
	var b strings.Builder
	b.WriteString(in.head)
	b.WriteString(" VALUES ")
	for arg := range n * in.cols {
		switch {
		case arg == 0:
			b.WriteByte('(')
		case arg%in.cols == 0:
			b.WriteString("),(")
		default:
			b.WriteByte(',')
		}
		if numbered {
			b.WriteString("$" + strconv.Itoa(arg+1))
		} else {
			b.WriteByte('?')
		}
	}
	b.WriteByte(')')
	b.WriteString(in.tail)
	return b.String()
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

// addAll is add, and returns some if not all rows were changed.
func (t *tx) addAll(ctx context.Context, some error, in *insert, args []any) error {
	n, err := t.add(ctx, in, args)
	if err == nil && int(n)*in.cols != len(args) {
		err = some
	}
	return err
}
