package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
)

// What entries of an audit are found by. Each entry has one row of every facet of
// which it has a value, in the order of time.
//
// The rows are made when somebody looks, and not when entries are added: what a call
// costs does not depend on how its trace may be searched. A search that is the first
// in a long time makes many, in short transactions; it may be stopped and goes on
// the next time.
const (
	facetAll = iota // has the empty value
	facetKind
	facetUser
	facetAgent
	facetTool
	facetCall
)

const (
	// indexedAtOnce is how many entries are made findable in one transaction, which
	// keeps others waiting for some milliseconds.
	indexedAtOnce = 250
	// maxLooked bounds how many rows of one facet are held against the others for
	// one page.
	maxLooked = 10_000
	// fewRows is how far the rows of a facet are counted to find out which has the
	// fewest.
	fewRows = 1000
)

var insertFacets = &insert{"INSERT INTO audit_facets (org, facet, value, at, seq)", 5,
	" ON CONFLICT (org, facet, value, at, seq) DO NOTHING"}

const indexedQuery = "SELECT seq FROM audit_indexed WHERE org = $1"

// indexAudit makes all entries of an organisation findable.
func (s *Store) indexAudit(ctx context.Context, org string) error {
	for {
		mark := int64(0)
		if err := s.rows(ctx, func(r scanner) error { return r.Scan(&mark) }, indexedQuery, column(org)); err != nil {
			return err
		}
		list, err := s.AuditEntries(ctx, org, mark, indexedAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := s.write(ctx, func(ctx context.Context,
			t *tx) error {
			return t.indexAudit(ctx, org, mark, list)
		}); err != nil {
			return err
		}
		if len(list) < indexedAtOnce {
			return nil
		}
	}
}

// indexAudit makes entries findable that follow the one with the number mark.
func (t *tx) indexAudit(ctx context.Context, org string, mark int64, list []audit.Entry) error {
	if _, err := t.exec(ctx, "INSERT INTO audit_indexed (org, seq) VALUES ($1, 0) ON CONFLICT (org) DO NOTHING",
		column(org)); err != nil {
		return err
	}
	n, err := t.exec(ctx, "UPDATE audit_indexed SET seq = $1 WHERE org = $2 AND seq = $3", list[len(list)-1].Seq,
		column(org), mark)
	if err != nil || n == 0 {
		return err // somebody else made them findable at the same time
	}
	var rows []any
	for _, e := range list {
		for facet, value := range [...]string{facetKind: e.Kind, facetUser: e.Actor.User, facetAgent: e.Actor.Agent,
			facetTool: e.Tool, facetCall: string(e.Call)} {
			if facet == facetAll || value != "" {
				rows = append(rows, column(org), facet, column(value), micros(e.Time), e.Seq)
			}
		}
	}
	_, err = t.add(ctx, insertFacets, rows)
	return err
}

// FindAudit lists entries of an organisation that fit f: those that follow the place
// after, and behind which place to go on, or nil if there are no more. A page may have fewer
// entries than the limit, and even none, and yet not be the last.
func (s *Store) FindAudit(ctx context.Context, org string, f haft.AuditFilter,
	after haft.AuditPlace) ([]audit.Entry, *haft.AuditPlace, error) {
	f.Limit = page(f.Limit)
	var list []audit.Entry
	var next *haft.AuditPlace
	text, args := numberQuery(org, f, after)
	if f.Narrow() {
		if err := s.indexAudit(ctx, org); err != nil {
			return nil, nil, fmt.Errorf("make the audit trail findable: %w", err)
		}
		facets, err := s.fewestFirst(ctx, org, facetsOf(f))
		if err != nil {
			return nil, nil, fmt.Errorf("search the audit trail: %w", err)
		}
		if len(facets) > 1 {
			if next, err = s.lastOfPage(ctx, org, f, after, facets[0]); err != nil {
				return nil, nil, fmt.Errorf("search the audit trail: %w", err)
			}
		}
		text, args = facetQuery(org, f, after, facets, next)
	}
	err := s.rows(ctx, func(r scanner) error {
		e, err := scanAudit(r, org)
		list = append(list, e)
		return err
	}, text, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("search the audit trail: %w", err)
	}
	if len(list) > f.Limit {
		list = list[:f.Limit]
		last := list[f.Limit-1]
		next = &haft.AuditPlace{Time: last.Time, Seq: last.Seq}
	}
	return list, next, nil
}

// A facet is one thing that entries are found by.
type facet struct {
	of    int
	value string
}

// facetsOf returns what f asks of an entry, besides its time.
func facetsOf(f haft.AuditFilter) []facet {
	var list []facet
	for of, value := range [...]string{facetCall: string(f.Call), facetKind: f.Kind, facetUser: f.User,
		facetAgent: f.Agent, facetTool: f.Tool} {
		if value != "" {
			list = append(list, facet{of, value})
		}
	}
	if list == nil {
		list = []facet{{facetAll, ""}}
	}
	return list
}

const countQuery = "SELECT COUNT(*) FROM (SELECT seq FROM audit_facets WHERE org = $1 AND facet = $2 AND value = $3 " +
	"LIMIT $4) AS counted"

// fewestFirst moves the facet of which there are the fewest rows to the front.
func (s *Store) fewestFirst(ctx context.Context, org string, list []facet) ([]facet, error) {
	if len(list) < 2 {
		return list, nil
	}
	best, fewest := 0, fewRows+1
	for i, f := range list {
		n := 0
		err := s.rows(ctx, func(r scanner) error { return r.Scan(&n) }, countQuery, column(org), f.of, column(f.value),
			fewRows)
		if err != nil {
			return nil, err
		}
		if n < fewest {
			best, fewest = i, n
		}
	}
	list[0], list[best] = list[best], list[0]
	return list, nil
}

// lastOfPage returns the place up to which one page looks for entries that have
// several facets, or nil if that is the end.
func (s *Store) lastOfPage(ctx context.Context, org string, f haft.AuditFilter, after haft.AuditPlace,
	driver facet) (*haft.AuditPlace, error) {
	text, args := lastOfPageQuery(org, f, after, driver)
	var found *haft.AuditPlace
	err := s.rows(ctx, func(r scanner) error {
		var at int64
		found = &haft.AuditPlace{}
		err := r.Scan(&at, &found.Seq)
		found.Time = fromMicros(at)
		return err
	}, text, args...)
	return found, err
}

// lastOfPageQuery finds the last of so many rows of a facet.
func lastOfPageQuery(org string, f haft.AuditFilter, after haft.AuditPlace, driver facet) (string, []any) {
	q := &facetText{args: []any{}}
	q.from(org, f, driver, after, nil)
	text := "SELECT f.at, f.seq FROM audit_facets f WHERE " + q.where.String() + q.order(f) + " LIMIT 1 OFFSET " +
		q.arg(maxLooked-1)
	return text, q.args
}

const auditColumns = "a.seq, a.at, a.doc, a.body, a.prev, a.hash"

// numberQuery lists entries by their numbers, and one more than the limit.
func numberQuery(org string, f haft.AuditFilter, place haft.AuditPlace) (string, []any) {
	text := "SELECT " + auditColumns + " FROM audit a WHERE a.org = $1 AND a.seq < $2 ORDER BY a.seq DESC LIMIT $3"
	after := place.Seq
	switch {
	case f.Oldest:
		text = "SELECT " + auditColumns + " FROM audit a WHERE a.org = $1 AND a.seq > $2 ORDER BY a.seq LIMIT $3"
	case after <= 0:
		after = 1 << 62
	}
	return text, []any{column(org), after, f.Limit + 1}
}

// facetQuery lists entries that have all of facets by their times, up to a place if
// there is one, and one more than the limit.
func facetQuery(org string, f haft.AuditFilter, after haft.AuditPlace, facets []facet,
	to *haft.AuditPlace) (string, []any) {
	q := &facetText{args: []any{}}
	q.from(org, f, facets[0], after, to)
	for _, other := range facets[1:] {
		fmt.Fprintf(&q.where, " AND EXISTS (SELECT 1 FROM audit_facets g WHERE g.org = f.org AND g.facet = %s AND "+
			"g.value = %s AND g.at = f.at AND g.seq = f.seq)",
			q.arg(other.of), q.arg(column(other.value)))
	}
	text := "SELECT " + auditColumns + " FROM audit_facets f JOIN audit a ON a.org = f.org AND a.seq = f.seq WHERE " +
		q.where.String() + q.order(f) + " LIMIT " + q.arg(f.Limit+1)
	return text, q.args
}

// A facetText is a query over the rows f of one facet.
type facetText struct {
	where strings.Builder
	args  []any
}

// arg adds an argument and returns its placeholder.
func (q *facetText) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

// from narrows the query to rows of a facet within the bounds of f, behind the place
// after, and up to the place to. It has one bound at each end, the narrower one: with
// two a database may begin at the wider.
func (q *facetText) from(org string, f haft.AuditFilter, of facet, after haft.AuditPlace, to *haft.AuditPlace) {
	fmt.Fprintf(&q.where, "f.org = %s AND f.facet = %s AND f.value = %s", q.arg(column(org)), q.arg(of.of),
		q.arg(column(of.value)))
	first, last := " AND f.at >= %s", " AND f.at < %s"
	behind, upTo := " AND (f.at, f.seq) > (%s, %s)", " AND (f.at, f.seq) <= (%s, %s)"
	begin, end := f.Since, f.Until
	inside := !after.Time.Before(f.Since)
	if !f.Oldest {
		first, last, begin, end = last, first, f.Until, f.Since
		behind, upTo = " AND (f.at, f.seq) < (%s, %s)", " AND (f.at, f.seq) >= (%s, %s)"
		inside = f.Until.IsZero() || after.Time.Before(f.Until)
	}
	if after != (haft.AuditPlace{}) && inside {
		fmt.Fprintf(&q.where, behind, q.arg(micros(after.Time)), q.arg(after.Seq))
	} else if !begin.IsZero() {
		fmt.Fprintf(&q.where, first, q.arg(ceilMicros(begin)))
	}
	if to != nil {
		fmt.Fprintf(&q.where, upTo, q.arg(micros(to.Time)), q.arg(to.Seq))
	} else if !end.IsZero() {
		fmt.Fprintf(&q.where, last, q.arg(ceilMicros(end)))
	}
}

// order is that of the rows.
func (q *facetText) order(f haft.AuditFilter) string {
	if f.Oldest {
		return " ORDER BY f.at, f.seq"
	}
	return " ORDER BY f.at DESC, f.seq DESC"
}

// scanAudit reads one row of auditColumns.
func scanAudit(r scanner, org string) (audit.Entry, error) {
	e := audit.Entry{Org: org}
	var at int64
	var doc, body string
	if err := r.Scan(&e.Seq, &at, &doc, &body, &e.Prev, &e.Hash); err != nil {
		return e, err
	}
	var d auditDoc
	if err := decode(doc, &d); err != nil {
		return e, err
	}
	e.Kind, e.Actor, e.Call, e.Tool, e.Digest, e.Erased = d.Kind, d.Actor, d.Call, d.Tool, d.Digest, d.Erased
	e.Time = fromMicros(at)
	if body != "" {
		e.Body = json.RawMessage(body)
	}
	return e, nil
}

// ceilMicros is the first microsecond that is not before t.
func ceilMicros(t time.Time) int64 {
	us := t.UnixMicro()
	if t.After(time.UnixMicro(us)) {
		us++
	}
	return us
}
