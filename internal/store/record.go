package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"haft"
	"haft/internal/store/stored"
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
	err := stored.Decode(doc, &rec)
	rec.Status = haft.Status(status)
	if column(rec.Owner) != owner {
		rec.Owner = owner
	}
	if sealed.Valid {
		rec.Sealed = json.RawMessage(sealed.String)
	}
	return rec, err
}

const recordByID logged = "SELECT " + recordColumns + " FROM calls WHERE id = $1 AND org = $2"

// Record returns what is kept of a call, with what is sealed, or
// [haft.CodeNotFound].
func (s Calls) Record(ctx context.Context, org string, id haft.CallID) (*haft.Record, error) {
	return find(ctx, s.db, "call", scanRecord, recordByID, column(string(id)), column(org))
}

// Kept reports whether there is a record of a call, of whichever organisation. It does not wait until what is in the
// log is in the database.
func (s Calls) Kept(ctx context.Context, id haft.CallID) (bool, error) {
	if f := s.db.front; f != nil && f.waits(column(string(id))) {
		return true, nil
	}
	// A record that went into the database meanwhile is found there.
	found, err := first(ctx, inDatabase{s.db}, "find the call", scalar[int],
		logged("SELECT 1 FROM calls WHERE id = $1"), column(string(id)))
	return found != nil, err
}

// Records lists the calls of an organisation, newest first, without what is
// sealed. A limit of 0 means 50.
func (s Calls) Records(ctx context.Context, f haft.CallFilter) ([]haft.Record, error) {
	if f.Org == "" {
		return nil, invalid("calls are listed of an organisation")
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	f.Limit = page(f.Limit)
	var before int64
	if f.Before != "" {
		created, err := find(ctx, s.db, "call", scalar[int64],
			logged("SELECT created FROM calls WHERE id = $1 AND org = $2"), column(string(f.Before)), column(f.Org))
		if err != nil {
			return nil, err
		}
		before = *created
	}
	return s.eachStatus(ctx, f, before)
}

// eachStatus asks for the statuses of f one by one: each is a range of an index,
// already in order, where all together would have to be sorted.
func (s Calls) eachStatus(ctx context.Context, f haft.CallFilter, before int64) ([]haft.Record, error) {
	statuses := slices.Compact(slices.Sorted(slices.Values(f.Status)))
	if len(statuses) > len(haft.Statuses()) {
		return nil, invalid("there are not that many statuses")
	}
	if len(statuses) == 0 {
		statuses = []haft.Status{""}
	}
	var all []haft.Record
	for _, status := range statuses {
		part, err := list(ctx, s.db, "list calls", scanRecord, recordQuery(f, status, before))
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	slices.SortStableFunc(all, func(a, b haft.Record) int {
		if f.Oldest {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(stored.Micros(b.Created), stored.Micros(a.Created)),
			cmp.Compare(column(string(b.Call.ID)), column(string(a.Call.ID))))
	})
	return all[:min(len(all), f.Limit)], nil
}

// recordQuery returns the query for one page. The terms that look superfluous,
// such as that a user who is asked for is not empty, say to the planner that a
// partial index has all the rows.
func recordQuery(f haft.CallFilter, status haft.Status, before int64) query {
	order, side := " DESC", "<"
	if f.Oldest {
		order, side = "", ">"
	}
	q := build("SELECT doc, status, owner, NULL FROM calls WHERE org = ?", column(f.Org))
	for _, c := range []struct{ name, value string }{
		{"chain", string(f.Chain)}, {"parent", string(f.Parent)}, {"turn", f.Turn}, {"usr", f.User}, {"agent", f.Agent},
		{"tool", f.Tool}, {"status", string(status)},
	} {
		if c.value == "" {
			continue
		}
		q.add(" AND "+c.name+" = ?", column(c.value))
		if c.name != "tool" && c.name != "status" {
			q.add(" AND " + c.name + " <> ''")
		}
	}
	if !f.Since.IsZero() {
		q.add(" AND created >= ?", stored.Micros(f.Since))
	}
	if !f.Until.IsZero() {
		q.add(" AND created < ?", stored.Micros(f.Until))
	}
	if f.Before != "" {
		q.add(" AND (created, id) "+side+" (?, ?)", before, column(string(f.Before)))
	}
	q.add(" ORDER BY created"+order+", id"+order+" LIMIT ?", f.Limit)
	return q.logged()
}

// Turn lists the calls of one turn of an agent, oldest first, at most [MaxPage].
func (s Calls) Turn(ctx context.Context, org, agent, turn string) ([]haft.Record, error) {
	if turn == "" {
		return nil, nil
	}
	return list(ctx, s.db, "list the calls of a turn", scanRecord, turnQuery, column(org), column(turn), column(agent),
		MaxPage)
}

const turnQuery logged = "SELECT doc, status, owner, NULL FROM calls WHERE org = $1 AND turn = $2 AND turn <> '' AND " +
	"agent = $3 ORDER BY created, id LIMIT $4"
