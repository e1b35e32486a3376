package store

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"haft/internal/store/stored"
)

// A query is the text of a query for reading: either [logged] or [unlogged].
type query interface {
	// sql returns the text, the arguments if it has some of its own, and whether what is
	// acknowledged has to be in the database first.
	sql() (text string, args []any, logged bool)
}

// A logged query reads a table to which rowsets add rows: calls, events, audit,
// audit_heads, limits, usage_hours or marks. Its newest rows may still be in the log only.
type logged string

func (q logged) sql() (string, []any, bool) { return string(q), nil, true }

// An unlogged query reads none of those tables. TestQueries_declared checks that.
type unlogged string

func (q unlogged) sql() (string, []any, bool) { return string(q), nil, false }

// A source answers queries: a store, or a transaction.
type source interface {
	ask(ctx context.Context, q query, args []any) (*sql.Rows, error)
	explain(err error) error
}

// A scanner is a row that can be read.
type scanner interface{ Scan(dest ...any) error }

// each gives every row of a query to scan.
func each(ctx context.Context, from source, scan func(scanner) error, q query, args ...any) error {
	rows, err := from.ask(ctx, q, args)
	if err == nil {
		err = eachRow(rows, scan)
	}
	return from.explain(err)
}

// eachRow gives every row to scan and closes rows.
func eachRow(rows *sql.Rows, scan func(scanner) error) error {
	defer func() { _ = rows.Close() }() // its error is that of Err
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list reads all rows of a query. doing says in errors what for.
func list[T any](ctx context.Context, from source, doing string, scan func(scanner) (T, error), q query,
	args ...any) ([]T, error) {
	var all []T
	err := each(ctx, from, func(r scanner) error {
		v, err := scan(r)
		all = append(all, v)
		return err
	}, q, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return all, nil
}

// first reads the first row of a query, or returns nil.
func first[T any](ctx context.Context, from source, doing string, scan func(scanner) (T, error), q query,
	args ...any) (*T, error) {
	all, err := list(ctx, from, doing, scan, q, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// find reads the first row of a query, or returns [haft.CodeNotFound]; what names it in messages.
func find[T any](ctx context.Context, from source, what string, scan func(scanner) (T, error), q query,
	args ...any) (*T, error) {
	v, err := first(ctx, from, "find the "+what, scan, q, args...)
	if err == nil && v == nil {
		err = notFound(what)
	}
	return v, err
}

// value reads the one column of the first row, or returns the zero value.
func value[T any](ctx context.Context, from source, doing string, q query, args ...any) (v T, err error) {
	found, err := first(ctx, from, doing, scalar[T], q, args...)
	if found != nil {
		v = *found
	}
	return v, err
}

// scalar reads one column.
func scalar[T any](r scanner) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// doc reads one column of JSON.
func doc[T any](r scanner) (v T, err error) {
	text, err := scalar[string](r)
	if err == nil {
		err = stored.Decode(text, &v)
	}
	return v, err
}

// A pair is a row of two columns.
type pair[A, B any] struct {
	a A
	b B
}

// scanPair reads two columns.
func scanPair[A, B any](r scanner) (p pair[A, B], err error) {
	err = r.Scan(&p.a, &p.b)
	return p, err
}

// A builder makes the text of a statement together with its arguments.
type builder struct {
	text strings.Builder
	args []any
}

// build begins a text, in which each ? stands for the next of args.
func build(text string, args ...any) *builder {
	b := &builder{}
	b.add(text, args...)
	return b
}

// add adds text, in which each ? stands for the next of args.
func (b *builder) add(text string, args ...any) {
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		b.text.WriteString(before)
		b.arg(arg)
		text = after
	}
	b.text.WriteString(text)
}

// arg adds one argument.
func (b *builder) arg(v any) {
	b.args = append(b.args, v)
	b.text.WriteByte('$')
	b.text.WriteString(strconv.Itoa(len(b.args)))
}

// in adds a list of arguments. The last one is repeated until their number is a power of
// two, so that there are few texts to prepare.
func (b *builder) in(values []any) {
	n := 1
	for n < len(values) {
		n *= 2
	}
	b.text.WriteByte('(')
	for i := range n {
		if i > 0 {
			b.text.WriteByte(',')
		}
		b.arg(values[min(i, len(values)-1)])
	}
	b.text.WriteByte(')')
}

// A built is a query that a builder made. A builder itself is none: it has to be declared.
type built struct {
	*builder
	isLogged bool
}

func (q built) sql() (string, []any, bool) { return q.text.String(), q.args, q.isLogged }

// logged returns the query, which is as a [logged] one.
func (b *builder) logged() query { return built{b, true} }

// unlogged returns the query, which is as an [unlogged] one.
func (b *builder) unlogged() query { return built{b, false} }

// run runs the statement that a builder made, and returns how many rows it changed.
func (t *tx) run(ctx context.Context, b *builder) (int64, error) {
	return t.exec(ctx, b.text.String(), b.args...)
}

// columns returns texts as they are looked up.
func columns[T ~string](texts []T) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = column(string(text))
	}
	return list
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
