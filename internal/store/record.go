package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// recordColumns are what scanRecord reads.
const recordColumns = "doc, status, owner, sealed"

// scanRecord reads one row. The columns win over the document: an owner may have
// changed without it.
func scanRecord(r scanner) (haft.Record, error) {
	var doc, status, owner string
	var sealed sql.NullString
	var rec haft.Record
	if err := r.Scan(&doc, &status, &owner, &sealed); err != nil {
		return rec, err
	}
	err := decode(doc, &rec)
	rec.Status = haft.Status(status)
	if column(rec.Owner) != owner {
		rec.Owner = owner
	}
	if sealed.Valid {
		rec.Sealed = json.RawMessage(sealed.String)
	}
	return rec, err
}

// records runs a query for recordColumns.
func (s *Store) records(ctx context.Context, text string, args ...any) ([]haft.Record, error) {
	var list []haft.Record
	err := s.rows(ctx, func(r scanner) error {
		rec, err := scanRecord(r)
		list = append(list, rec)
		return err
	}, text, args...)
	return list, err
}

// Record returns what is kept of a call, with what is sealed, or
// [haft.CodeNotFound].
func (s *Store) Record(ctx context.Context, org string, id haft.CallID) (*haft.Record, error) {
	list, err := s.records(ctx, "SELECT "+recordColumns+" FROM calls WHERE id = $1 AND org = $2", column(string(id)),
		column(org))
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the call: %w", err)
	case len(list) == 0:
		return nil, notFound("call")
	}
	return &list[0], nil
}

// Records lists the calls of an organisation, newest first, without what is
// sealed. A limit of 0 means 50.
func (s *Store) Records(ctx context.Context, f haft.CallFilter) ([]haft.Record, error) {
	if f.Org == "" {
		return nil, invalid("calls are listed of an organisation")
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	f.Limit = page(f.Limit)
	var before int64
	if f.Before != "" {
		err := s.rows(ctx, func(r scanner) error { return r.Scan(&before) },
			"SELECT created FROM calls WHERE id = $1 AND org = $2", column(string(f.Before)), column(f.Org))
		if err != nil {
			return nil, fmt.Errorf("list calls: %w", err)
		}
		if before == 0 {
			return nil, notFound("call")
		}
	}
	list, err := s.eachStatus(ctx, f, before)
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	return list, nil
}

// eachStatus asks for the statuses of f one by one: each is a range of an index,
// already in order, where all together would have to be sorted.
func (s *Store) eachStatus(ctx context.Context, f haft.CallFilter, before int64) ([]haft.Record, error) {
	statuses := slices.Compact(slices.Sorted(slices.Values(f.Status)))
	if len(statuses) > len(haft.Statuses()) {
		return nil, invalid("there are not that many statuses")
	}
	if len(statuses) == 0 {
		statuses = []haft.Status{""}
	}
	var list []haft.Record
	for _, status := range statuses {
		text, args := recordQuery(f, status, before)
		part, err := s.records(ctx, text, args...)
		if err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	if len(statuses) > 1 {
		slices.SortStableFunc(list, func(a, b haft.Record) int {
			if f.Oldest {
				a, b = b, a
			}
			return cmp.Or(cmp.Compare(micros(b.Created), micros(a.Created)),
				cmp.Compare(column(string(b.Call.ID)), column(string(a.Call.ID))))
		})
	}
	return list[:min(len(list), f.Limit)], nil
}

// recordQuery returns the query for one page. The terms that look superfluous,
// such as that a user who is asked for is not empty, say to the planner that a
// partial index has all the rows.
func recordQuery(f haft.CallFilter, status haft.Status, before int64) (string, []any) {
	var b strings.Builder
	order, side := " DESC", "<"
	if f.Oldest {
		order, side = "", ">"
	}
	args := []any{column(f.Org)}
	b.WriteString("SELECT doc, status, owner, NULL FROM calls WHERE org = $1")
	for _, c := range []struct{ name, value string }{
		{"chain", string(f.Chain)}, {"parent", string(f.Parent)}, {"turn", f.Turn}, {"usr", f.User}, {"agent", f.Agent},
		{"tool", f.Tool}, {"status", string(status)},
	} {
		if c.value == "" {
			continue
		}
		args = append(args, column(c.value))
		fmt.Fprintf(&b, " AND %s = $%d", c.name, len(args))
		if c.name != "tool" && c.name != "status" {
			fmt.Fprintf(&b, " AND %s <> ''", c.name)
		}
	}
	if !f.Since.IsZero() {
		args = append(args, micros(f.Since))
		fmt.Fprintf(&b, " AND created >= $%d", len(args))
	}
	if !f.Until.IsZero() {
		args = append(args, micros(f.Until))
		fmt.Fprintf(&b, " AND created < $%d", len(args))
	}
	if f.Before != "" {
		args = append(args, before, column(string(f.Before)))
		fmt.Fprintf(&b, " AND (created, id) %s ($%d, $%d)", side, len(args)-1, len(args))
	}
	args = append(args, f.Limit)
	fmt.Fprintf(&b, " ORDER BY created%[1]s, id%[1]s LIMIT $%[2]d", order, len(args))
	return b.String(), args
}

// Turn lists the calls of one turn of an agent, oldest first, at most [MaxPage].
func (s *Store) Turn(ctx context.Context, org, agent, turn string) ([]haft.Record, error) {
	if turn == "" {
		return nil, nil
	}
	list, err := s.records(ctx, turnQuery, column(org), column(turn), column(agent), MaxPage)
	if err != nil {
		return nil, fmt.Errorf("list the calls of a turn: %w", err)
	}
	return list, nil
}

const turnQuery = "SELECT doc, status, owner, NULL FROM calls WHERE org = $1 AND turn = $2 AND turn <> '' AND agent " +
	"= $3 ORDER BY created, id LIMIT $4"
