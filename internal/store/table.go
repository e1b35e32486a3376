package store

import (
	"context"
	"strings"
)

// A Tx is a transaction of a package that has tables of its own in the database. No rowset
// adds rows to those tables, and it must not read a table to which rowsets add rows: what was
// acknowledged last need not be there.
type Tx struct{ tx *tx }

// Exec runs a statement and returns how many rows it changed.
func (t Tx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	return t.tx.exec(ctx, text, args...)
}

// Each gives every row of a query to scan.
func (t Tx) Each(ctx context.Context, scan func(Scanner) error, text string, args ...any) error {
	return each(ctx, t.tx, scan, unlogged(text), args...)
}

// Lock is Each for rows that nobody else changes until the transaction ends.
func (t Tx) Lock(ctx context.Context, scan func(Scanner) error, q Query) error {
	q.b.add(t.tx.s.dialect.ForUpdate)
	return each(ctx, t.tx, scan, q.b.unlogged())
}

// Run runs a statement with its arguments, and returns how many rows it changed.
func (t Tx) Run(ctx context.Context, q Query) (int64, error) { return t.tx.run(ctx, q.b) }

// Add adds rows whose columns are in args, one after the other.
func (t Tx) Add(ctx context.Context, in *Insert, args []any) error {
	_, err := t.tx.add(ctx, in, args)
	return err
}

// Alive refuses what a process writes that was given up, and keeps it from being given up until the
// transaction ends.
func (t Tx) Alive(ctx context.Context, owner string) error { return t.tx.alive(ctx, owner) }

// An Insert is a statement that adds rows, as many at once as there are.
type Insert = insert

// NewInsert returns the statement that adds rows of columns to a table. It is made once for a program.
func NewInsert(table string, columns ...string) *Insert {
	return &insert{head: "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ")", cols: len(columns)}
}

// A Query is a text together with its arguments.
type Query struct{ b *builder }

// NewQuery begins a text, in which each ? stands for the next of args.
func NewQuery(text string, args ...any) Query { return Query{build(text, args...)} }

// Add adds text, in which each ? stands for the next of args.
func (q Query) Add(text string, args ...any) { q.b.add(text, args...) }

// In adds a list of arguments in parentheses. It has one at least.
func (q Query) In(values []any) { q.b.in(values) }

// Column returns text as it is kept where it is looked up: the text itself, or its digest if no database takes it
// there.
func Column(text string) string { return column(text) }

// A Scanner is a row that can be read.
type Scanner = scanner

// Tables are the tables of packages that have some of their own.
type Tables struct{ s *Store }

// TablesOf returns the tables of a store.
func TablesOf(s *Store) Tables { return Tables{s} }

// Write runs f in a transaction: everything that f does is kept and on the disk when Write
// returns nil, and else nothing of it. f may be run more than once.
func (b Tables) Write(ctx context.Context, doing string, f func(context.Context, Tx) error) error {
	return b.s.writeApart(ctx, doing, func(ctx context.Context, t *tx) error { return f(ctx, Tx{t}) })
}

// Each gives every row of a query to scan.
func (b Tables) Each(ctx context.Context, doing string, scan func(Scanner) error, text string, args ...any) error {
	return b.s.failed(doing, each(ctx, b.s, scan, unlogged(text), args...))
}

// Select is Each for a query with its arguments.
func (b Tables) Select(ctx context.Context, scan func(Scanner) error, q Query) error {
	return each(ctx, b.s, scan, q.b.unlogged())
}
