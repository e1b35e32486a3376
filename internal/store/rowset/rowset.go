// Package rowset has rows as they wait in the log in front of a database: it encodes them, and merges
// the rows of several batches before they are added.
package rowset

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"haft/internal/store/redo"
)

// Version is counted up when the columns of a table below change: rows that
// an earlier version left in its log are added by the inserts of this one. A test
// of package store holds the columns.
const Version = 2

// first is the version before usage had the time of networks and the memory. Its rows can still be read.
const (
	first      = 1
	firstUsage = 11 // columns
)

// Readable reports whether rows of a version can be read.
func Readable(version int) bool { return version == first || version == Version }

// A Set is rows as they go into tables, in the order of the columns of the
// inserts. Nothing has to be asked or decided any more to add them.
type Set struct {
	Number                              uint64 // of its record in the log
	Calls, Events, Audit, Limits, Usage []any  // one column after the other
}

// Columns says how many columns the tables have, in the order of [Set.Tables].
type Columns [5]int

// Tables lists the rows of all tables, in the order in which they are encoded.
func (r *Set) Tables() [5]*[]any {
	return [5]*[]any{&r.Calls, &r.Events, &r.Audit, &r.Limits, &r.Usage}
}

// AppendTo encodes r behind what is in b.
func (r *Set) AppendTo(b []byte) (_ []byte, err error) {
	for _, rows := range r.Tables() {
		if b, err = redo.AppendValues(b, *rows); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Read is the inverse of AppendTo, of this version or an earlier one that is [Readable].
func Read(b []byte, version int, cols Columns) (_ *Set, err error) {
	r, usage := &Set{}, cols[4]
	if version == first {
		cols[4] = firstUsage
	}
	for i, rows := range r.Tables() {
		if *rows, b, err = redo.ReadValues(b); err != nil {
			return nil, err
		}
		if len(*rows)%cols[i] != 0 {
			return nil, redo.ErrValues
		}
	}
	if len(b) > 0 {
		return nil, redo.ErrValues
	}
	r.Usage = widen(r.Usage, cols[4], usage)
	return r, nil
}

// widen adds columns of 0 to rows.
func widen(rows []any, from, to int) []any {
	if from == to {
		return rows
	}
	var all []any
	for row := range slices.Chunk(rows, from) {
		all = append(all, row...)
		for range to - from {
			all = append(all, int64(0))
		}
	}
	return all
}

// Merge makes one set of several that follow each other. A call that began and
// ended among them is written once, and so is every count.
func Merge(sets []*Set, cols Columns) *Set {
	if len(sets) == 1 {
		return sets[0]
	}
	all := &Set{Number: sets[len(sets)-1].Number}
	calls, limits, usage := newest{cols: cols[0]}, newest{cols: cols[3]}, newest{cols: cols[4]}
	for _, r := range sets {
		all.Events, all.Audit = append(all.Events, r.Events...), append(all.Audit, r.Audit...)
		calls.add(r.Calls, 1, keepSealed)
		limits.add(r.Limits, 1, keepLatest)
		usage.add(r.Usage, usageKeys, addCounts)
	}
	all.Calls, all.Limits, all.Usage = calls.rows(), limits.rows(), usage.rows()
	return all
}

// HasCall reports whether sets have a row of a call, whose id is the first of so many columns.
func HasCall(sets []*Set, id string, cols int) bool {
	return slices.ContainsFunc(sets, func(set *Set) bool {
		for row := range slices.Chunk(set.Calls, cols) {
			if row[0] == id {
				return true
			}
		}
		return false
	})
}

// A newest collects rows by their first columns.
type newest struct {
	cols  int
	order [][]any
	at    map[string]int
}

// add takes rows in. Of two with the same first keys columns join makes one.
func (n *newest) add(rows []any, keys int, join func(old, row []any) []any) {
	if n.at == nil {
		n.at = make(map[string]int)
	}
	for row := range slices.Chunk(rows, n.cols) {
		key := rowKey(row[:keys])
		if i, ok := n.at[key]; ok {
			n.order[i] = join(n.order[i], row)
			continue
		}
		n.at[key] = len(n.order)
		n.order = append(n.order, row)
	}
}

// rowKey makes a key of columns.
func rowKey(columns []any) string {
	if len(columns) == 1 {
		text, _ := columns[0].(string)
		return text
	}
	var b strings.Builder
	for _, c := range columns {
		switch c := c.(type) {
		case string:
			b.WriteString(c)
		case int64:
			_ = binary.Write(&b, binary.LittleEndian, c) // to memory
		}
		b.WriteByte(0) // no column has one
	}
	return b.String()
}

// rows returns the columns of all rows.
func (n *newest) rows() []any {
	if len(n.order) == 0 {
		return nil
	}
	all := make([]any, 0, len(n.order)*n.cols)
	for _, row := range n.order {
		all = append(all, row...)
	}
	return all
}

// keepSealed is the later row of a call, with what is sealed until it is final:
// the same as the insert of package store does.
func keepSealed(old, row []any) []any {
	const final, sealed = 10, 13
	if row[final] == int64(0) && row[sealed] == nil && old[sealed] != nil {
		row = slices.Clone(row)
		row[sealed] = old[sealed]
	}
	return row
}

// keepLatest is the row of a limit that counts: the same as the insert of package store does.
func keepLatest(old, row []any) []any {
	const tokens, used, at = 1, 2, 3
	was, is := Whole(old[at]), Whole(row[at])
	before, _ := old[tokens].(float64)
	after, _ := row[tokens].(float64)
	if is > was || is == was && (Whole(row[used]) > Whole(old[used]) || after < before) {
		return row
	}
	return old
}

// Whole is the number in a column.
func Whole(v any) int64 {
	n, _ := v.(int64)
	return n
}

// usageKeys is how many columns of usage say what is counted. The others are sums, but for the last,
// which is the most memory.
const usageKeys = 6

// addCounts adds usage up.
func addCounts(old, row []any) []any {
	sum, last := slices.Clone(old), len(old)-1
	for i := usageKeys; i < last; i++ {
		sum[i] = Whole(old[i]) + Whole(row[i])
	}
	sum[last] = max(Whole(old[last]), Whole(row[last]))
	return sum
}

// SumUsage adds up rows of usage that count the same. They come in one order, so that processes
// cannot wait for each other in a circle.
func SumUsage(rows []any, cols Columns) []any {
	sums := newest{cols: cols[4]}
	sums.add(rows, usageKeys, addCounts)
	slices.SortFunc(sums.order, func(a, b []any) int {
		return strings.Compare(rowKey(a[:usageKeys]), rowKey(b[:usageKeys]))
	})
	return sums.rows()
}

// Distinct returns list ordered by key, with the last one of each key. Postgres
// changes no row twice in one statement, and processes that lock rows in one
// order cannot wait for each other in a circle.
func Distinct[T any](list []T, key func(*T) string) []*T {
	refs := make([]*T, len(list))
	sorted := true
	for i := range list {
		refs[i] = &list[i]
		sorted = sorted && (i == 0 || key(refs[i-1]) < key(refs[i]))
	}
	if sorted {
		return refs
	}
	slices.SortStableFunc(refs, func(a, b *T) int { return cmp.Compare(key(a), key(b)) })
	kept := refs[:0]
	for i, r := range refs {
		if i+1 == len(refs) || key(r) != key(refs[i+1]) {
			kept = append(kept, r)
		}
	}
	return kept
}
