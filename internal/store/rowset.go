package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"haft/internal/store/redo"
)

// A rowset is rows as they go into tables, in the order of the columns of the
// inserts. Nothing has to be asked or decided any more to add them.
type rowset struct {
	number uint64 // of its record in the log
	// Columns of insertCalls, insertEvents, insertAudit, insertLimits and
	// insertUsage.
	calls, events, audit, limits, usage []any
}

// rowsetVersion is counted up when the columns of an insert above change: rows that
// an earlier version left in its log are added by the inserts of this one. A test
// holds the columns.
const rowsetVersion = 1

// tables lists the rows of all tables, in the order in which they are encoded.
func (r *rowset) tables() [5]*[]any {
	return [5]*[]any{&r.calls, &r.events, &r.audit, &r.limits, &r.usage}
}

// rowsetInserts are the inserts of tables.
func rowsetInserts() [5]*insert {
	return [5]*insert{insertCalls, insertEvents, insertAudit, insertLimits, insertUsage}
}

// appendTo encodes r behind what is in b.
func (r *rowset) appendTo(b []byte) (_ []byte, err error) {
	for _, rows := range r.tables() {
		if b, err = redo.AppendValues(b, *rows); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// readRowset is the inverse of appendTo.
func readRowset(b []byte) (_ *rowset, err error) {
	r := &rowset{}
	for i, rows := range r.tables() {
		if *rows, b, err = redo.ReadValues(b); err != nil {
			return nil, err
		}
		if len(*rows)%rowsetInserts()[i].cols != 0 {
			return nil, redo.ErrValues
		}
	}
	if len(b) > 0 {
		return nil, redo.ErrValues
	}
	return r, nil
}

// merge makes one rowset of several that follow each other. A call that began and
// ended among them is written once, and so is every count.
func merge(sets []*rowset) *rowset {
	if len(sets) == 1 {
		return sets[0]
	}
	all := &rowset{number: sets[len(sets)-1].number}
	calls, limits, usage := newest{cols: insertCalls.cols}, newest{cols: insertLimits.cols},
		newest{cols: insertUsage.cols}
	for _, r := range sets {
		all.events, all.audit = append(all.events, r.events...), append(all.audit, r.audit...)
		calls.add(r.calls, 1, keepSealed)
		limits.add(r.limits, 1, keepLatest)
		usage.add(r.usage, usageKeys, addCounts)
	}
	all.calls, all.limits, all.usage = calls.rows(), limits.rows(), usage.rows()
	return all
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
// the same as insertCalls does.
func keepSealed(old, row []any) []any {
	const final, sealed = 10, 13
	if row[final] == int64(0) && row[sealed] == nil && old[sealed] != nil {
		row = slices.Clone(row)
		row[sealed] = old[sealed]
	}
	return row
}

// keepLatest is the row of a limit that counts: the same as insertLimits does.
func keepLatest(old, row []any) []any {
	const tokens, used, at = 1, 2, 3
	was, is := whole(old[at]), whole(row[at])
	before, _ := old[tokens].(float64)
	after, _ := row[tokens].(float64)
	if is > was || is == was && (whole(row[used]) > whole(old[used]) || after < before) {
		return row
	}
	return old
}

// whole is the number in a column.
func whole(v any) int64 {
	n, _ := v.(int64)
	return n
}

// usageKeys is how many columns of usage say what is counted. The others are sums.
const usageKeys = 6

// addCounts adds usage up.
func addCounts(old, row []any) []any {
	sum := slices.Clone(old)
	for i := usageKeys; i < len(sum); i++ {
		sum[i] = whole(old[i]) + whole(row[i])
	}
	return sum
}
