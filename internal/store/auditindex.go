package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/pause"
	"haft/internal/store/stored"
)

// What entries of an audit are found by. Each entry has one row of every facet of
// which it has a value, in the order of time.
//
// The rows are not made when entries are added: what a call costs does not depend on how
// its trace may be searched. [Audit.IndexAudit] makes them in the background, and a search
// makes those that are still missing, in short transactions; it may be stopped and goes on
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

const indexedQuery unlogged = "SELECT seq FROM audit_indexed WHERE org = $1"

// doingIndex says in errors what indexing does.
const doingIndex = "make the audit trail findable"

// indexedShare is which part of the time IndexAudit may write: one in so many.
const indexedShare = 4

// IndexAudit makes findable what is not yet, of all organisations, so that no search has to
// wait for it. Callers come before it: after each transaction it waits for three times as long
// as that took. Of servers that do it at the same time one makes the rows of an entry.
func (s Audit) IndexAudit(ctx context.Context) error {
	wait := func(took time.Duration) error { return pause.For(ctx, (indexedShare-1)*took) }
	var failed error // of one organisation; others go on
	for after := ""; ; {
		orgs, next, err := s.Unindexed(ctx, after)
		if err != nil {
			return errors.Join(failed, err)
		}
		for i := 0; i < len(orgs) && ctx.Err() == nil; i++ {
			failed = errors.Join(failed, s.indexAudit(ctx, orgs[i], wait))
		}
		if next == "" {
			return failed
		}
		after = next
	}
}

// unindexedQuery finds organisations by the ends of two indexes each.
const unindexedQuery logged = `SELECT h.org, h.name FROM audit_heads h LEFT JOIN audit_indexed i ON i.org = h.org
	WHERE h.org > $1 AND EXISTS (SELECT 1 FROM audit a WHERE a.org = h.org AND a.seq > COALESCE(i.seq, 0))
	ORDER BY h.org LIMIT $2`

// Unindexed lists organisations that have entries which are not findable yet, and where to go
// on, or "".
func (s Audit) Unindexed(ctx context.Context, after string) (orgs []string, next string, err error) {
	orgs, err = list(ctx, s.db, doingIndex, func(r scanner) (org string, err error) {
		var name string
		if err := r.Scan(&next, &name); err != nil {
			return "", err
		}
		err = stored.Decode(name, &org)
		return org, err
	}, unindexedQuery, after, MaxPage)
	if len(orgs) < MaxPage {
		next = ""
	}
	return orgs, next, err
}

// indexAudit makes all entries of an organisation findable. After each transaction it calls wait
// with how long that took.
func (s Audit) indexAudit(ctx context.Context, org string, wait func(time.Duration) error) error {
	for {
		began := time.Now()
		mark, err := value[int64](ctx, s.db, doingIndex, indexedQuery, column(org))
		if err != nil {
			return err
		}
		entries, err := s.AuditEntries(ctx, org, mark, indexedAtOnce)
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := s.db.write(ctx, doingIndex, func(ctx context.Context, t *tx) error {
			return t.indexAudit(ctx, org, mark, entries)
		}); err != nil {
			return err
		}
		if err := wait(time.Since(began)); err != nil || len(entries) < indexedAtOnce {
			return err
		}
	}
}

// indexAudit makes entries findable that follow the one with the number mark. It adds the rows of one
// facet after those of another, as the index sorts them.
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
	rows := make([]any, 0, len(list)*(facetCall+1)*insertFacets.cols)
	for facet := range facetCall + 1 {
		for _, e := range list {
			value := [...]string{"", e.Kind, e.Actor.User, e.Actor.Agent, e.Tool, string(e.Call)}[facet]
			if facet == facetAll || value != "" {
				rows = append(rows, column(org), facet, column(value), stored.Micros(e.Time), e.Seq)
			}
		}
	}
	_, err = t.add(ctx, insertFacets, rows)
	return err
}

// FindAudit lists entries of an organisation that fit f: those that follow the place
// after, and behind which place to go on, or nil if there are no more. A page may have fewer
// entries than the limit, and even none, and yet not be the last.
func (s Audit) FindAudit(ctx context.Context, org string, f haft.AuditFilter,
	after haft.AuditPlace) ([]audit.Entry, *haft.AuditPlace, error) {
	f.Limit = page(f.Limit)
	var next *haft.AuditPlace
	q := numberQuery(org, f, after)
	if f.Narrow() {
		if err := s.indexAudit(ctx, org, func(time.Duration) error { return nil }); err != nil {
			return nil, nil, err
		}
		facets, err := s.fewestFirst(ctx, org, facetsOf(f))
		if err != nil {
			return nil, nil, err
		}
		if len(facets) > 1 {
			next, err = first(ctx, s.db, searchAudit, scanPlace, lastOfPageQuery(org, f, after, facets[0]))
			if err != nil {
				return nil, nil, err
			}
		}
		q = facetQuery(org, f, after, facets, next)
	}
	all, err := list(ctx, s.db, searchAudit, auditOf(org), q)
	if err != nil {
		return nil, nil, err
	}
	if len(all) > f.Limit {
		all = all[:f.Limit]
		last := all[f.Limit-1]
		next = &haft.AuditPlace{Time: last.Time, Seq: last.Seq}
	}
	return all, next, nil
}

// searchAudit says in errors what FindAudit does.
const searchAudit = "search the audit trail"

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

const countQuery unlogged = "SELECT COUNT(*) FROM (SELECT seq FROM audit_facets WHERE org = $1 AND facet = $2 AND " +
	"value = $3 LIMIT $4) AS counted"

// fewestFirst moves the facet of which there are the fewest rows to the front.
func (s Audit) fewestFirst(ctx context.Context, org string, list []facet) ([]facet, error) {
	if len(list) < 2 {
		return list, nil
	}
	best, fewest := 0, fewRows+1
	for i, f := range list {
		n, err := value[int](ctx, s.db, searchAudit, countQuery, column(org), f.of, column(f.value), fewRows)
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

// scanPlace reads where an entry is in the order of times.
func scanPlace(r scanner) (haft.AuditPlace, error) {
	p, err := scanPair[int64, int64](r)
	return haft.AuditPlace{Time: stored.Time(p.a), Seq: p.b}, err
}

// lastOfPageQuery finds the place up to which one page looks for entries that have several
// facets: the last of so many rows of one. There is none if the page goes up to the end.
func lastOfPageQuery(org string, f haft.AuditFilter, after haft.AuditPlace, driver facet) query {
	q := build("SELECT f.at, f.seq FROM audit_facets f WHERE ")
	addFacet(q, org, f, driver, after, nil)
	q.add(facetOrder(f)+" LIMIT 1 OFFSET ?", maxLooked-1)
	return q.unlogged()
}

const auditColumns = "a.seq, a.at, a.doc, a.body, a.prev, a.hash"

// numberQuery lists entries by their numbers, and one more than the limit.
func numberQuery(org string, f haft.AuditFilter, place haft.AuditPlace) query {
	q := build("SELECT "+auditColumns+" FROM audit a WHERE a.org = ?", column(org))
	switch {
	case f.Oldest:
		q.add(" AND a.seq > ? ORDER BY a.seq", place.Seq)
	case place.Seq <= 0:
		q.add(" ORDER BY a.seq DESC")
	default:
		q.add(" AND a.seq < ? ORDER BY a.seq DESC", place.Seq)
	}
	q.add(" LIMIT ?", f.Limit+1)
	return q.logged()
}

// facetQuery lists entries that have all of facets by their times, up to a place if
// there is one, and one more than the limit.
func facetQuery(org string, f haft.AuditFilter, after haft.AuditPlace, facets []facet, to *haft.AuditPlace) query {
	q := build("SELECT " + auditColumns + " FROM audit_facets f JOIN audit a ON a.org = f.org AND a.seq = f.seq WHERE ")
	addFacet(q, org, f, facets[0], after, to)
	for _, other := range facets[1:] {
		q.add(" AND EXISTS (SELECT 1 FROM audit_facets g WHERE g.org = f.org AND g.facet = ? AND g.value = ? AND "+
			"g.at = f.at AND g.seq = f.seq)", other.of, column(other.value))
	}
	q.add(facetOrder(f)+" LIMIT ?", f.Limit+1)
	return q.logged()
}

// addFacet narrows a query to rows of a facet within the bounds of f, behind the place
// after, and up to the place to. It has one bound at each end, the narrower one: with
// two a database may begin at the wider.
func addFacet(q *builder, org string, f haft.AuditFilter, of facet, after haft.AuditPlace, to *haft.AuditPlace) {
	q.add("f.org = ? AND f.facet = ? AND f.value = ?", column(org), of.of, column(of.value))
	first, last := " AND f.at >= ?", " AND f.at < ?"
	behind, upTo := " AND (f.at, f.seq) > (?, ?)", " AND (f.at, f.seq) <= (?, ?)"
	begin, end := f.Since, f.Until
	inside := !after.Time.Before(f.Since)
	if !f.Oldest {
		first, last, begin, end = last, first, f.Until, f.Since
		behind, upTo = " AND (f.at, f.seq) < (?, ?)", " AND (f.at, f.seq) >= (?, ?)"
		inside = f.Until.IsZero() || after.Time.Before(f.Until)
	}
	if after != (haft.AuditPlace{}) && inside {
		q.add(behind, stored.Micros(after.Time), after.Seq)
	} else if !begin.IsZero() {
		q.add(first, stored.MicrosUp(begin))
	}
	if to != nil {
		q.add(upTo, stored.Micros(to.Time), to.Seq)
	} else if !end.IsZero() {
		q.add(last, stored.MicrosUp(end))
	}
}

// facetOrder is that of the rows.
func facetOrder(f haft.AuditFilter) string {
	if f.Oldest {
		return " ORDER BY f.at, f.seq"
	}
	return " ORDER BY f.at DESC, f.seq DESC"
}

// auditOf returns what reads rows of auditColumns of an organisation.
func auditOf(org string) func(scanner) (audit.Entry, error) {
	return func(r scanner) (audit.Entry, error) {
		e := audit.Entry{Org: org}
		var at int64
		var doc, body string
		if err := r.Scan(&e.Seq, &at, &doc, &body, &e.Prev, &e.Hash); err != nil {
			return e, err
		}
		var d auditDoc
		if err := stored.Decode(doc, &d); err != nil {
			return e, err
		}
		e.Kind, e.Actor, e.Call, e.Tool, e.Digest, e.Erased = d.Kind, d.Actor, d.Call, d.Tool, d.Digest, d.Erased
		e.Time = stored.Time(at)
		if body != "" {
			e.Body = json.RawMessage(body)
		}
		return e, nil
	}
}
