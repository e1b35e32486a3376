package store

import (
	"context"
	"iter"

	"haft/audit"
)

// Trail yields the whole audit of an organisation, from its first entry on.
func (s *Store) Trail(ctx context.Context, org string) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for after := int64(0); ; {
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

// AllCheckpoints returns every checkpoint of an organisation.
func (s *Store) AllCheckpoints(ctx context.Context, org string) ([]audit.Checkpoint, error) {
	var all []audit.Checkpoint
	for after := int64(0); ; {
		page, err := s.Checkpoints(ctx, org, after, MaxPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < MaxPage {
			return all, nil
		}
		after = page[len(page)-1].Seq
	}
}
