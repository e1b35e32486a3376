package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"haft"
)

// OldCalls says which calls of an organisation to prune.
type OldCalls struct {
	Org string
	// Status is the one status that is looked at; "" means all.
	Status haft.Status
	// Before is when a call was made and ended that is pruned.
	Before time.Time
	// Never says that a call which ran stays. It is for statuses of calls that, but for
	// a few, never begin.
	Never bool
}

// A CallPlace is a place in the order of the calls of an organisation.
type CallPlace struct {
	created int64
	id      string
}

// KeepNewest returns the time before which calls were made that are not among the newest
// so many, of a status or of all if it is empty. Zero means that there are not more.
func (s *Store) KeepNewest(ctx context.Context, org string, status haft.Status, count int64) (time.Time, error) {
	text, args := "SELECT created FROM calls WHERE org = $1", []any{column(org), count}
	if status != "" {
		text, args = text+" AND status = $3", append(args, string(status))
	}
	var before time.Time
	err := s.rows(ctx, func(r scanner) error {
		var created int64
		err := r.Scan(&created)
		before = fromMicros(created + 1)
		return err
	}, text+" ORDER BY created DESC, id DESC LIMIT 1 OFFSET $2", args...)
	if err != nil {
		return time.Time{}, fmt.Errorf("count the calls of an organisation: %w", err)
	}
	return before, nil
}

// pruneCalls is how many calls are looked at, and so removed at most, in one transaction.
const pruneCalls = 200

// PruneCalls removes some calls after a place, with their approvals and ended chains, and
// returns how many are gone and where to go on, or nil if there are no more. Calls that are
// open, and those of an open chain, stay. Events have an age of their own, see
// [Store.PruneEvents]: whoever watches misses none because a call is gone.
func (s *Store) PruneCalls(ctx context.Context, o OldCalls, after *CallPlace) (int, *CallPlace, error) {
	ids, chains, next, err := s.oldCalls(ctx, o, after)
	if err != nil {
		return 0, nil, fmt.Errorf("prune calls: %w", err)
	}
	if len(ids) == 0 {
		return 0, next, nil
	}
	var gone int64
	err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
		gone, err = t.removeCalls(ctx, o.Org, ids, chains)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("prune calls: %w", err)
	}
	return int(gone), next, nil
}

// An endedDoc is what of a record says whether it is old.
type endedDoc struct {
	Ended  time.Time `json:"ended_at"`
	Result *struct {
		Tries  int  `json:"tries"`
		Cached bool `json:"cached"`
	} `json:"result"`
}

// oldCalls reads a page of calls, and returns those to remove and their chains.
func (s *Store) oldCalls(ctx context.Context, o OldCalls,
	after *CallPlace) (ids, chains []any, next *CallPlace, err error) {
	text := "SELECT id, created, chain, doc FROM calls WHERE org = $1 AND final = 1 AND created < $2 AND (created, " +
		"id) > ($3, $4)"
	if after == nil {
		after = &CallPlace{}
	}
	args := []any{column(o.Org), micros(o.Before), after.created, after.id, pruneCalls}
	if o.Status != "" {
		text, args = text+" AND status = $6", append(args, string(o.Status))
	}
	seen, last := 0, CallPlace{}
	err = s.rows(ctx, func(r scanner) error {
		var chain, doc string
		if err := r.Scan(&last.id, &last.created, &chain, &doc); err != nil {
			return err
		}
		seen++
		var d endedDoc
		if err := decode(doc, &d); err != nil {
			return err
		}
		ran := d.Result != nil && (d.Result.Tries > 0 || d.Result.Cached)
		// A call that waited for long for a person has not ended for long.
		if o.Never && ran || !d.Ended.Before(o.Before) {
			return nil
		}
		ids = append(ids, last.id)
		if chain != "" && !slices.Contains(chains, any(chain)) {
			chains = append(chains, chain)
		}
		return nil
	}, text+" ORDER BY created, id LIMIT $5", args...)
	if seen == pruneCalls {
		next = &last
	}
	return ids, chains, next, err
}

// removeCalls removes ended calls and what belongs to them, but for their events.
func (t *tx) removeCalls(ctx context.Context, org string, ids, chains []any) (int64, error) {
	ids = pad(ids)
	gone, err := t.exec(ctx, `DELETE FROM calls WHERE org = $1 AND final = 1
		AND NOT EXISTS (SELECT 1 FROM chains WHERE chains.id = calls.chain AND chains.final = 0)
		AND id IN `+in(len(ids), 2), append([]any{column(org)}, ids...)...)
	if err != nil {
		return 0, err
	}
	// By the call alone: with the organisation a database looks at all of its approvals.
	_, err = t.exec(ctx, "DELETE FROM approvals WHERE NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = "+
		"approvals.call) AND call IN "+in(len(ids), 1), ids...)
	if err != nil || len(chains) == 0 {
		return gone, err
	}
	chains = pad(chains)
	_, err = t.exec(ctx, `DELETE FROM chains WHERE org = $1 AND final = 1
		AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.org = $1 AND calls.chain = chains.id AND calls.chain <> '')
		AND id IN `+in(len(chains), 2), append([]any{column(org)}, chains...)...)
	return gone, err
}

// KeptCalls counts the calls of an organisation, and those of some statuses among them, and
// finds the oldest.
func (s *Store) KeptCalls(ctx context.Context, org string,
	of []haft.Status) (all, some int64, oldest time.Time, err error) {
	err = s.rows(ctx, func(r scanner) error { return r.Scan(&all) }, "SELECT COUNT(*) FROM calls WHERE org = $1",
		column(org))
	for _, status := range of {
		if err == nil {
			err = s.rows(ctx, func(r scanner) error {
				var n int64
				err := r.Scan(&n)
				some += n
				return err
			}, "SELECT COUNT(*) FROM calls WHERE status = $1 AND org = $2", string(status), column(org))
		}
	}
	if err == nil {
		err = s.rows(ctx, func(r scanner) error {
			var created int64
			err := r.Scan(&created)
			oldest = fromMicros(created)
			return err
		}, "SELECT created FROM calls WHERE org = $1 ORDER BY created, id LIMIT 1", column(org))
	}
	if err != nil {
		return 0, 0, time.Time{}, fmt.Errorf("count the calls of an organisation: %w", err)
	}
	return all, some, oldest, nil
}
