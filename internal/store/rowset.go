package store

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
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

// The kinds of values of a column.
const (
	valueNull byte = iota
	valueText
	valueInt
	valueFloat
)

// errRows is a rowset that cannot be read.
var errRows = errors.New("the rows cannot be read")

// appendTo encodes r behind what is in b.
func (r *rowset) appendTo(b []byte) ([]byte, error) {
	for _, rows := range r.tables() {
		b = binary.AppendUvarint(b, uint64(len(*rows)))
		for _, v := range *rows {
			switch v := v.(type) {
			case nil:
				b = append(b, valueNull)
			case string:
				b = binary.AppendUvarint(append(b, valueText), uint64(len(v)))
				b = append(b, v...)
			case int64:
				b = binary.AppendVarint(append(b, valueInt), v)
			case float64:
				b = binary.LittleEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v))
			default:
				return nil, errRows
			}
		}
	}
	return b, nil
}

// readRowset is the inverse of appendTo.
func readRowset(b []byte) (*rowset, error) {
	r := &rowset{}
	inserts := rowsetInserts()
	for i, rows := range r.tables() {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)) || n%uint64(inserts[i].cols) != 0 {
			return nil, errRows
		}
		b = b[used:]
		for range n {
			v, rest, err := readValue(b)
			if err != nil {
				return nil, err
			}
			*rows, b = append(*rows, v), rest
		}
	}
	if len(b) > 0 {
		return nil, errRows
	}
	return r, nil
}

// readValue reads one value and returns what follows it.
func readValue(b []byte) (any, []byte, error) {
	if len(b) == 0 {
		return nil, nil, errRows
	}
	kind, b := b[0], b[1:]
	switch kind {
	case valueNull:
		return nil, b, nil
	case valueText:
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, nil, errRows
		}
		b = b[used:]
		return string(b[:n]), b[n:], nil
	case valueInt:
		v, used := binary.Varint(b)
		if used <= 0 {
			return nil, nil, errRows
		}
		return v, b[used:], nil
	case valueFloat:
		if len(b) < 8 {
			return nil, nil, errRows
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:], nil
	}
	return nil, nil, errRows
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
