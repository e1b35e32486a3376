package store

import (
	"context"
	"fmt"

	"haft/internal/audit"
	"haft/internal/store/stored"
)

// An Unsigned chain has entries after its last checkpoint.
type Unsigned struct {
	Head audit.Head
	// Last is its last checkpoint; nil if it has none.
	Last *audit.Checkpoint
}

// tipMark is the name under which the serial of the last checkpoint is kept, so that two
// servers cannot both add one after it.
const tipMark = "audit_tip"

// AddCheckpoints adds chained checkpoints after the one with the serial tip, which is 0 if
// there is none, or reports [haft.CodeConflict] if it is not the last any more. So the
// chain of checkpoints cannot fork, whoever signs at the same time.
func (s Audit) AddCheckpoints(ctx context.Context, tip int64, list []audit.Checkpoint) error {
	if len(list) == 0 {
		return nil
	}
	rows := make([]any, 0, len(list)*insertCheckpoints.cols)
	for _, c := range list {
		if c.Place == nil {
			return invalid("a checkpoint that is chained has a place")
		}
		doc, err := stored.Encode(c)
		if err != nil {
			return err
		}
		rows = append(rows, c.Place.Serial, column(c.Org), c.Place.Number, c.Seq, doc)
	}
	last := list[len(list)-1].Place.Serial
	return s.db.write(ctx, "keep checkpoints", func(ctx context.Context, t *tx) error {
		forked := conflict("another server has signed the audit log at the same time")
		if err := t.execOr(ctx, forked, putMark+" WHERE marks.value = $3", tipMark, last, tip); err != nil {
			return err
		}
		return t.addAll(ctx, forked, insertCheckpoints, rows)
	})
}

var insertCheckpoints = &insert{"INSERT INTO audit_checkpoints (serial, org, number, seq, doc)", 5,
	" ON CONFLICT DO NOTHING"}

// ResetTip makes the last checkpoint that is there the one to add others after. It is for
// [AddCheckpoints] after an older database was put back.
func (s Audit) ResetTip(ctx context.Context) error {
	_, err := s.db.exec(ctx, "find the last checkpoint",
		"INSERT INTO marks (name, value) SELECT $1, COALESCE(max(serial), 0) FROM audit_checkpoints WHERE true"+
			" ON CONFLICT (name) DO UPDATE SET value = excluded.value", tipMark)
	return err
}

// ChainedFrom lists the chained checkpoints of all organisations from that serial on, in
// their order.
func (s Audit) ChainedFrom(ctx context.Context, serial int64, limit int) ([]audit.Checkpoint, error) {
	return s.chained(ctx, "WHERE serial >= $1 ORDER BY serial LIMIT $2", serial, page(limit))
}

// LastChained returns the last chained checkpoint of all organisations, or nil.
func (s Audit) LastChained(ctx context.Context) (*audit.Checkpoint, error) {
	list, err := s.chained(ctx, "ORDER BY serial DESC LIMIT 1")
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// LastChainedOf lists the last chained checkpoints of an organisation, newest first.
func (s Audit) LastChainedOf(ctx context.Context, org string, limit int) ([]audit.Checkpoint, error) {
	return s.chained(ctx, "WHERE org = $1 ORDER BY number DESC LIMIT $2", column(org), page(limit))
}

// chained lists chained checkpoints.
func (s Audit) chained(ctx context.Context, where unlogged, args ...any) ([]audit.Checkpoint, error) {
	return list(ctx, s.db, "list chained checkpoints", func(r scanner) (audit.Checkpoint, error) {
		var row chainedRow
		err := r.Scan(&row.serial, &row.org, &row.number, &row.seq, &row.doc)
		return row.checkpoint(), err
	}, "SELECT serial, org, number, seq, doc FROM audit_checkpoints "+where, args...)
}

// A chainedRow is a chained checkpoint as it is kept.
type chainedRow struct {
	serial, number, seq int64
	org, doc            string
}

// checkpoint returns what the row says. A row that says two things was changed behind the
// program's back: it comes as a checkpoint without a signature, which no check passes.
func (r chainedRow) checkpoint() audit.Checkpoint {
	var c audit.Checkpoint
	if err := stored.Decode(r.doc, &c); err == nil && c.Place != nil && c.Place.Serial == r.serial &&
		c.Place.Number == r.number &&
		c.Seq == r.seq && column(c.Org) == r.org {
		return c
	}
	return audit.Checkpoint{Org: c.Org, Seq: r.seq, Key: c.Key, Place: &audit.Place{Number: r.number, Serial: r.serial}}
}

// UnsignedChains lists chains that have entries after their last chained checkpoint, in the
// order of their columns. It gives a cursor for the next page, and "" with the last one.
func (s Audit) UnsignedChains(ctx context.Context, after string, limit int) ([]Unsigned, string, error) {
	limit = page(limit)
	last := ""
	all, err := list(ctx, s.db, "list audit chains that have grown", func(r scanner) (u Unsigned, err error) {
		var name string
		var serial, number, seq *int64
		var doc *string
		if err := r.Scan(&last, &name, &u.Head.Seq, &u.Head.Hash, &serial, &number, &seq, &doc); err != nil {
			return u, err
		}
		if err := stored.Decode(name, &u.Head.Org); err != nil {
			return u, err
		}
		if column(u.Head.Org) != last {
			return u, conflict("the name of an organisation in the audit log was changed behind the program's back")
		}
		if doc != nil {
			c := chainedRow{*serial, *number, *seq, column(u.Head.Org), *doc}.checkpoint()
			u.Last = &c
		}
		return u, nil
	}, logged(`SELECT h.org, h.name, a.seq, a.hash, c.serial, c.number, c.seq, c.doc FROM audit_heads h
		JOIN audit a ON a.org = h.org AND a.seq = (SELECT max(seq) FROM audit WHERE audit.org = h.org)
		LEFT JOIN audit_checkpoints c ON c.org = h.org
			AND c.number = (SELECT max(number) FROM audit_checkpoints WHERE audit_checkpoints.org = h.org)
		WHERE h.org > $1 AND (c.seq IS NULL OR c.seq <> a.seq) ORDER BY h.org LIMIT $2`), after, limit)
	if len(all) < limit {
		last = ""
	}
	return all, last, err
}

// HasEntries returns those of heads whose entry is in its chain with that hash. It asks for
// many at once: a server looks at every organisation when it starts.
func (s Audit) HasEntries(ctx context.Context, heads []audit.Head) (map[audit.Head]bool, error) {
	found := make(map[audit.Head]bool, len(heads))
	err := chunks(heads, func(part []audit.Head) error {
		names := make(map[string]string, len(part))
		for n := len(part); n&(n-1) != 0; n++ { // few texts
			part = append(part[:n:n], part[n-1])
		}
		q := build("SELECT org, seq, hash FROM audit WHERE ")
		for i, h := range part {
			if i > 0 {
				q.add(" OR ")
			}
			names[column(h.Org)] = h.Org
			q.add("org = ? AND seq = ?", column(h.Org), h.Seq)
		}
		return each(ctx, s.db, func(r scanner) error {
			var h audit.Head
			if err := r.Scan(&h.Org, &h.Seq, &h.Hash); err != nil {
				return err
			}
			h.Org = names[h.Org]
			found[h] = true
			return nil
		}, q.logged())
	})
	if err != nil {
		return nil, fmt.Errorf("look for signed entries: %w", err)
	}
	return found, nil
}
