package store

import (
	"context"
	"iter"

	"haft/internal/audit"
)

// Trail yields the whole audit of an organisation, from its first entry on.
func (s Audit) Trail(ctx context.Context, org string) iter.Seq2[audit.Entry, error] {
	return s.TrailAfter(ctx, org, 0)
}

// TrailAfter yields the audit of an organisation after an entry.
func (s Audit) TrailAfter(ctx context.Context, org string, after int64) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for after := after; ; {
			page, err := s.AuditEntries(ctx, org, after, MaxPage)
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			for _, e := range page {
				if after = e.Seq; !yield(e, nil) {
					return
				}
			}
			if len(page) < MaxPage {
				return
			}
		}
	}
}

// AllCheckpoints returns every checkpoint of an organisation: first those of before there
// were chains of them.
func (s Audit) AllCheckpoints(ctx context.Context, org string) ([]audit.Checkpoint, error) {
	all, err := allPages(func(last audit.Checkpoint) ([]audit.Checkpoint, error) {
		return s.Checkpoints(ctx, org, last.Seq, MaxPage)
	})
	if err != nil {
		return nil, err
	}
	chained, err := allPages(func(last audit.Checkpoint) ([]audit.Checkpoint, error) {
		after := int64(0)
		if last.Place != nil {
			after = last.Place.Number
		}
		return s.chained(ctx, "WHERE org = $1 AND number > $2 ORDER BY number LIMIT $3", column(org), after, MaxPage)
	})
	return append(all, chained...), err
}

// allPages reads pages, each after the last element of the one before, until one is not full.
func allPages[T any](page func(last T) ([]T, error)) (all []T, err error) {
	for {
		var last T
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		part, err := page(last)
		if all = append(all, part...); err != nil || len(part) < MaxPage {
			return all, err
		}
	}
}
