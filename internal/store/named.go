package store

import (
	"context"
	"time"

	"haft"
)

// A named is a table of documents that have an id and, within their organisation, a name.
type named[T interface{ Revision() string }] struct {
	what  string // in messages
	table string
	key   string // the column of the name
	head  func(*T) head
	// setHead gives a document all of a head.
	setHead func(*T, head)
}

// A head is what all documents of [named] tables have.
type head struct {
	id, org, name    string
	condition        string // on which it is written
	created, updated time.Time
}

// put adds a document, or replaces the one of that name in its organisation if that is what
// the condition says, and else returns [haft.CodeConflict]. That one keeps its id and the
// time of its creation. also, if it is not nil, runs in the same transaction, with the id.
// put returns what is kept.
func (n *named[T]) put(ctx context.Context, s *Store, v T,
	also func(ctx context.Context, t *tx, id string) error) (*T, error) {
	given := n.head(&v)
	if given.org == "" {
		return nil, invalid("the %s belongs to an organisation", n.what)
	}
	if err := need("the "+n.key+" of the "+n.what, given.name); err != nil {
		return nil, err
	}
	if err := need("the id of the "+n.what, given.id); err != nil {
		return nil, err
	}
	err := s.write(ctx, "keep the "+n.what, func(ctx context.Context, t *tx) error {
		old, err := first(ctx, t, "find the "+n.what, doc[T], unlogged("SELECT doc FROM "+n.table+
			" WHERE org = $1 AND "+n.key+" = $2"+t.s.dialect.ForUpdate), column(given.org), given.name)
		if err != nil {
			return err
		}
		h, revision, before := given, "", time.Time{}
		if old != nil {
			was := n.head(old)
			h.id, h.created, revision, before = was.id, was.created, (*old).Revision(), was.updated
		}
		if err := holds(given.condition, revision); err != nil {
			return err
		}
		if also != nil {
			if err := also(ctx, t, h.id); err != nil {
				return err
			}
		}
		if h.updated = stamp(given.updated, before); h.created.IsZero() {
			h.created = h.updated
		}
		h.condition = ""
		n.setHead(&v, h)
		doc, err := encodeText("the "+n.what, v)
		if err != nil {
			return err
		}
		return t.execOr(ctx, conflict("another "+n.what+" has that id"), "INSERT INTO "+n.table+" (id, org, "+n.key+
			", doc) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc WHERE "+n.table+
			".org = excluded.org AND "+n.table+"."+n.key+" = excluded."+n.key,
			h.id, column(h.org), h.name, doc)
	})
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// byRef returns the document of that id or name, or [haft.CodeNotFound].
func (n *named[T]) byRef(ctx context.Context, s *Store, org, ref string) (*T, error) {
	all, err := list(ctx, s, "find the "+n.what, doc[T], unlogged("SELECT doc FROM "+n.table+
		" WHERE org = $1 AND (id = $2 OR "+n.key+" = $2)"), column(org), column(ref))
	if err != nil {
		return nil, err
	}
	return pick(all, n.what, func(v *T) bool { return n.head(v).id == ref })
}

// pick returns the one of at most two that ref means. An id wins: nothing can be named so
// that it passes for something else.
func pick[T any](all []T, what string, hasID func(*T) bool) (*T, error) {
	switch {
	case len(all) == 0:
		return nil, notFound(what)
	case len(all) == 2 && hasID(&all[1]):
		return &all[1], nil
	}
	return &all[0], nil
}

// list lists the documents of an organisation by name, after that name.
func (n *named[T]) list(ctx context.Context, s *Store, org, after string, limit int) ([]T, error) {
	return list(ctx, s, "list "+n.what+"s", doc[T], unlogged("SELECT doc FROM "+n.table+" WHERE org = $1 AND "+n.key+
		" > $2 ORDER BY "+n.key+" LIMIT $3"), column(org), column(after), page(limit))
}

// lock returns the document of that id, which nobody else changes before the transaction
// ends, or [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition.
func (n *named[T]) lock(ctx context.Context, t *tx, org, id, condition string) (*T, error) {
	v, err := find(ctx, t, n.what, doc[T], unlogged("SELECT doc FROM "+n.table+" WHERE org = $1 AND id = $2"+
		t.s.dialect.ForUpdate), column(org), column(id))
	if err != nil {
		return nil, err
	}
	return v, holds(condition, (*v).Revision())
}

// remove removes the document of that id, on the terms of lock.
func (n *named[T]) remove(ctx context.Context, t *tx, org, id, condition string) error {
	if _, err := n.lock(ctx, t, org, id, condition); err != nil {
		return err
	}
	return t.execOr(ctx, notFound(n.what), "DELETE FROM "+n.table+" WHERE org = $1 AND id = $2", column(org),
		column(id))
}

// holds reports why something is not to be written on a condition, given the
// revision that is kept; "" means that there is none.
func holds(condition, kept string) error {
	switch {
	case condition == "" || condition == kept || condition == haft.IfNone && kept == "":
		return nil
	case condition == haft.IfNone:
		return conflict("it is there already")
	case kept == "":
		return conflict("it is not there any more; look again first")
	}
	return conflict("it was changed by somebody else; look again first")
}

// stamp returns a time for a change that differs from that of the change before,
// whatever the clock says.
func stamp(at, before time.Time) time.Time {
	if at.IsZero() {
		at = time.Now()
	}
	at = at.UTC().Truncate(time.Microsecond)
	if !at.After(before) {
		at = before.Add(time.Microsecond)
	}
	return at
}
