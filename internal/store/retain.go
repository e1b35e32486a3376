package store

import (
	"context"
	"slices"
	"time"

	"haft"
	"haft/internal/store/stored"
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
func (s Calls) KeepNewest(ctx context.Context, org string, status haft.Status, count int64) (time.Time, error) {
	q := build("SELECT created FROM calls WHERE org = ?", column(org))
	if status != "" {
		q.add(" AND status = ?", string(status))
	}
	q.add(" ORDER BY created DESC, id DESC LIMIT 1 OFFSET ?", count)
	created, err := first(ctx, s.db, "count the calls of an organisation", scalar[int64], q.logged())
	if err != nil || created == nil {
		return time.Time{}, err
	}
	return stored.Time(*created + 1), nil
}

// pruneCalls is how many calls are looked at, and so removed at most, in one transaction.
const pruneCalls = 200

// PruneCalls removes some calls after a place, with their approvals and ended chains, and
// returns how many are gone and where to go on, or nil if there are no more. Calls that are
// open, and those of an open chain, stay. Events have an age of their own, see
// [Events.PruneEvents]: whoever watches misses none because a call is gone.
func (s Calls) PruneCalls(ctx context.Context, o OldCalls, after *CallPlace) (int, *CallPlace, error) {
	ids, chains, next, err := s.oldCalls(ctx, o, after)
	if err != nil {
		return 0, nil, err
	}
	if len(ids) == 0 {
		return 0, next, nil
	}
	var gone int64
	err = s.db.write(ctx, "prune calls", func(ctx context.Context, t *tx) (err error) {
		gone, err = t.removeCalls(ctx, o.Org, ids, chains)
		return err
	})
	if err != nil {
		return 0, nil, err
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
func (s Calls) oldCalls(ctx context.Context, o OldCalls,
	after *CallPlace) (ids, chains []any, next *CallPlace, err error) {
	if after == nil {
		after = &CallPlace{}
	}
	q := build("SELECT id, created, chain, doc FROM calls WHERE org = ? AND final = 1 AND created < ? AND "+
		"(created, id) > (?, ?)", column(o.Org), stored.Micros(o.Before), after.created, after.id)
	if o.Status != "" {
		q.add(" AND status = ?", string(o.Status))
	}
	q.add(" ORDER BY created, id LIMIT ?", pruneCalls)
	seen, last := 0, CallPlace{}
	_, err = list(ctx, s.db, "prune calls", func(r scanner) (none struct{}, err error) {
		var chain, doc string
		if err := r.Scan(&last.id, &last.created, &chain, &doc); err != nil {
			return none, err
		}
		seen++
		var d endedDoc
		if err := stored.Decode(doc, &d); err != nil {
			return none, err
		}
		ran := d.Result != nil && (d.Result.Tries > 0 || d.Result.Cached)
		// A call that waited for long for a person has not ended for long.
		if o.Never && ran || !d.Ended.Before(o.Before) {
			return none, nil
		}
		ids, chains = append(ids, last.id), addChain(chains, chain)
		return none, nil
	}, q.logged())
	if seen == pruneCalls {
		next = &last
	}
	return ids, chains, next, err
}

// addChain adds the chain of a call to chains, if it has one.
func addChain(chains []any, chain string) []any {
	if chain == "" || slices.Contains(chains, any(chain)) {
		return chains
	}
	return append(chains, chain)
}

// removeCalls removes ended calls and what belongs to them, but for their events.
func (t *tx) removeCalls(ctx context.Context, org string, ids, chains []any) (int64, error) {
	q := build(`DELETE FROM calls WHERE org = ? AND final = 1
		AND NOT EXISTS (SELECT 1 FROM chains WHERE chains.id = calls.chain AND chains.final = 0)
		AND id IN `, column(org))
	q.in(ids)
	gone, err := t.run(ctx, q)
	if err != nil {
		return 0, err
	}
	// By the call alone: with the organisation a database looks at all of its approvals.
	q = build("DELETE FROM approvals WHERE NOT EXISTS (SELECT 1 FROM calls WHERE id = approvals.call) AND call IN ")
	q.in(ids)
	if _, err = t.run(ctx, q); err != nil || len(chains) == 0 {
		return gone, err
	}
	q = build(`DELETE FROM chains WHERE org = ? AND final = 1
		AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.org = ? AND calls.chain = chains.id AND calls.chain <> '')
		AND id IN `, column(org), column(org))
	q.in(chains)
	_, err = t.run(ctx, q)
	return gone, err
}

// KeptCalls counts the calls of an organisation, and those of some statuses among them, and
// finds the oldest.
func (s Calls) KeptCalls(ctx context.Context, org string,
	of []haft.Status) (all, some int64, oldest time.Time, err error) {
	const doing = "count the calls of an organisation"
	if all, err = value[int64](ctx, s.db, doing, logged("SELECT COUNT(*) FROM calls WHERE org = $1"),
		column(org)); err != nil {
		return 0, 0, time.Time{}, err
	}
	for _, status := range of {
		n, err := value[int64](ctx, s.db, doing, logged("SELECT COUNT(*) FROM calls WHERE status = $1 AND org = $2"),
			string(status), column(org))
		if err != nil {
			return 0, 0, time.Time{}, err
		}
		some += n
	}
	created, err := value[int64](ctx, s.db, doing,
		logged("SELECT created FROM calls WHERE org = $1 ORDER BY created, id LIMIT 1"), column(org))
	return all, some, stored.Time(created), err
}
