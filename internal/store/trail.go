package store

import (
	"context"
	"iter"

	"haft/internal/audit"
)

// Trail yields the whole audit of an organisation, from its first entry on.
func (s *Store) Trail(ctx context.Context, org string) iter.Seq2[audit.Entry, error] {
	return s.TrailAfter(ctx, org, 0)
}

// TrailAfter yields the audit of an organisation after an entry.
func (s *Store) TrailAfter(ctx context.Context, org string, after int64) iter.Seq2[audit.Entry, error] {
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
func (s *Store) AllCheckpoints(ctx context.Context, org string) ([]audit.Checkpoint, error) {
	var all []audit.Checkpoint
	for after, more := int64(0), true; more; {
		page, err := s.Checkpoints(ctx, org, after, MaxPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if more = len(page) == MaxPage; more {
			after = page[len(page)-1].Seq
		}
	}
	for after, more := int64(0), true; more; {
		page, err := s.chained(ctx, "WHERE org = $1 AND number > $2 ORDER BY number LIMIT $3", column(org), after,
			MaxPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if more = len(page) == MaxPage; more {
			after = page[len(page)-1].Place.Number
		}
	}
	return all, nil
}
