package store

import (
	"context"
	"time"

	"haft"
	"haft/internal/store/stored"
)

// Claim takes an idempotency key for a call. It returns the call that has the
// key, which is id if it was free, and whether that call was made with the same
// digest. Of many who claim at once one wins. The key belongs to a scope, such as a
// user, and to the agent that calls, which may be empty.
func (s Calls) Claim(ctx context.Context, org, scope, agent, key, digest string, id haft.CallID,
	now time.Time) (winner haft.CallID, same bool, err error) {
	if key == "" || org == "" {
		return "", false, invalid("an idempotency key belongs to an organisation and is not empty")
	}
	if err := need("the id of a call", string(id)); err != nil {
		return "", false, err
	}
	k := Key{org, scope, agent, key, id}
	err = s.db.write(ctx, "claim an idempotency key", func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "INSERT INTO claims (org, scope, agent, name, call, digest, at) VALUES ($1, $2, $3, "+
			"$4, $5, $6, $7) ON CONFLICT (org, scope, agent, name) DO NOTHING",
			append(k.args(), column(digest), stored.Micros(now))...)
		if err != nil || n == 1 {
			winner, same = id, true
			return err
		}
		has, err := first(ctx, t, "find the key", scanPair[haft.CallID, string], unlogged("SELECT call, digest "+
			"FROM claims WHERE org = $1 AND scope = $2 AND agent = $3 AND name = $4"), k.args()[:4]...)
		if winner, same = "", false; has != nil {
			winner, same = has.a, has.b == column(digest)
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	return winner, same, nil
}

// A Key is an idempotency key that was claimed for a call, see [Calls.Claim].
type Key struct {
	Org, Scope, Agent, Name string
	Call                    haft.CallID
}

// ofKey is the condition for the row of a key that its call still has.
const ofKey = " FROM claims WHERE org = $1 AND scope = $2 AND agent = $3 AND name = $4 AND call = $5"

func (k *Key) args() []any {
	return []any{column(k.Org), column(k.Scope), column(k.Agent), column(k.Name), string(k.Call)}
}

// hold refuses calls whose keys others have taken, and keeps the keys until the
// transaction ends.
func (t *tx) hold(ctx context.Context, keys []Key) error {
	stale := &Stale{}
	for _, k := range keys {
		held, err := first(ctx, t, "find an idempotency key", scalar[int],
			unlogged("SELECT 1"+ofKey+t.s.dialect.ForShare), k.args()...)
		if err != nil {
			return err
		}
		if held == nil {
			stale.Calls = append(stale.Calls, k.Call)
		}
	}
	if len(stale.Calls) == 0 {
		return nil
	}
	return &haft.Error{Code: haft.CodeConflict, Message: "another call has the idempotency key by now", Err: stale}
}

// ReleaseUnkept gives a key back whose call is not kept. A call that is being written down
// is first, and keeps its key; one that comes later is refused, see [Batch.Keys].
func (s Calls) ReleaseUnkept(ctx context.Context, k Key) error {
	return s.db.write(ctx, "release an idempotency key", func(ctx context.Context, t *tx) error {
		if _, err := first(ctx, t, "find the key", scalar[int], unlogged("SELECT 1"+ofKey+t.s.dialect.ForUpdate),
			k.args()...); err != nil {
			return err
		}
		if s.db.front != nil {
			s.db.front.release(k.Call)
		}
		// A statement of its own: it sees what was written while the first one waited.
		_, err := t.exec(ctx, "DELETE"+ofKey+" AND NOT EXISTS (SELECT 1 FROM calls WHERE id = $6)",
			append(k.args(), column(string(k.Call)))...)
		return err
	})
}

// Release gives a key back that a call has, because the call was never kept.
func (s Calls) Release(ctx context.Context, org, scope, agent, key string, id haft.CallID) error {
	k := Key{org, scope, agent, key, id}
	_, err := s.db.exec(ctx, "release an idempotency key", "DELETE"+ofKey, k.args()...)
	return err
}

// PruneClaims forgets keys that were taken before a time, and returns how many.
func (s Calls) PruneClaims(ctx context.Context, before time.Time) (int, error) {
	return s.db.prune(ctx,
		"DELETE FROM claims WHERE (org, scope, agent, name) IN (SELECT org, scope, agent, name FROM "+
			"claims WHERE at < $1 ORDER BY at LIMIT $2)", stored.Micros(before))
}

// prune runs a statement that removes some rows until there are no more. The
// statement gets the time and how many to remove at once.
func (s *Store) prune(ctx context.Context, text string, at int64) (int, error) {
	gone := 0
	for {
		n, err := s.exec(ctx, "prune what is old", text, at, pruneRows)
		if err != nil {
			return gone, err
		}
		if gone += int(n); n < pruneRows {
			return gone, nil
		}
	}
}
