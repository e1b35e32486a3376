package store

import (
	"context"
	"fmt"
)

// A Tx is a transaction of a package that has tables of its own in the database. No rowset
// adds rows to those tables.
type Tx struct{ tx *tx }

// Exec runs a statement and returns how many rows it changed.
func (t Tx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	return t.tx.exec(ctx, text, args...)
}

// Each gives every row of a query to scan.
func (t Tx) Each(ctx context.Context, scan func(Scanner) error, text string, args ...any) error {
	return each(ctx, t.tx, scan, unlogged(text), args...)
}

// A Scanner is a row that can be read.
type Scanner = scanner

// Tables are the tables of packages that have some of their own.
type Tables struct{ s *Store }

// TablesOf returns the tables of a store.
func TablesOf(s *Store) Tables { return Tables{s} }

// Write runs f in a transaction: everything that f does is kept and on the disk when Write
// returns nil, and else nothing of it. f may be run more than once.
func (b Tables) Write(ctx context.Context, doing string, f func(context.Context, Tx) error) error {
	return b.s.write(ctx, doing, func(ctx context.Context, t *tx) error { return f(ctx, Tx{t}) })
}

// Each gives every row of a query to scan.
func (b Tables) Each(ctx context.Context, doing string, scan func(Scanner) error, text string, args ...any) error {
	if err := each(ctx, b.s, scan, unlogged(text), args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
