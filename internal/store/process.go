package store

import (
	"context"
	"errors"

	"haft"
)

// The rules of this file: every open call and chain belongs to a process, and what
// belongs to no process that is registered is anybody's to adopt. Whether a process
// lives is told by its count of beats, which others watch with their own clocks: the
// clocks of two machines are never compared. A process that is given up loses its row,
// and with it the right to write, see [Batch.Owner]; only then do others adopt what was
// its own. So no two processes ever have the same call.

// ErrGivenUp says that others have given this process up. What it has in its hands is
// theirs by now.
var ErrGivenUp = errors.New("this process was given up by others that share the database")

// Join registers a process. In a store that is not shared it is the only one: whoever
// was registered before is dead.
func (s Processes) Join(ctx context.Context, owner string) error {
	if err := need("the name of the process", owner); err != nil {
		return err
	}
	return s.db.write(ctx, "register the process", func(ctx context.Context, t *tx) error {
		if !s.db.dialect.Shared {
			if _, err := t.exec(ctx, "DELETE FROM processes"); err != nil {
				return err
			}
		}
		_, err := t.exec(ctx, "INSERT INTO processes (owner, beat) VALUES ($1, 1)", owner)
		return err
	})
}

// Beat says that a process lives, or returns [ErrGivenUp].
func (s Processes) Beat(ctx context.Context, owner string) error {
	return s.db.write(ctx, "say that the process lives", func(ctx context.Context, t *tx) error {
		return t.execOr(ctx, givenUp(), "UPDATE processes SET beat = beat + 1 WHERE owner = $1", owner)
	})
}

// Beats returns the count of beats of each process.
func (s Processes) Beats(ctx context.Context) (map[string]int64, error) {
	return counts[int64](ctx, s.db, "list the processes", unlogged("SELECT owner, beat FROM processes"))
}

// counts reads a number for each text.
func counts[N int | int64](ctx context.Context, s *Store, doing string, q query, args ...any) (map[string]N, error) {
	all, err := list(ctx, s, doing, scanPair[string, N], q, args...)
	byText := make(map[string]N, len(all))
	for _, p := range all {
		byText[p.a] = p.b
	}
	return byText, err
}

// GiveUp removes a process whose count of beats still is beat, and reports whether it
// did. From then on nothing that it writes is kept. A transaction of its own that is
// under way is waited for.
func (s Processes) GiveUp(ctx context.Context, owner string, beat int64) (done bool, err error) {
	n, err := s.db.exec(ctx, "give up a process", "DELETE FROM processes WHERE owner = $1 AND beat = $2", column(owner),
		beat)
	return n == 1, err
}

// Leave removes a process that ends by itself. What it has not ended can be adopted.
func (s Processes) Leave(ctx context.Context, owner string) error {
	_, err := s.db.exec(ctx, "leave the processes", "DELETE FROM processes WHERE owner = $1", column(owner))
	return err
}

// alive refuses what a process writes that was given up, and keeps it from being given
// up until the transaction ends.
func (t *tx) alive(ctx context.Context, owner string) error {
	if owner == "" || !t.s.dialect.Shared {
		return nil
	}
	found, err := first(ctx, t, "find the process", scalar[int],
		unlogged("SELECT 1 FROM processes WHERE owner = $1"+t.s.dialect.ForShare), owner)
	if err == nil && found == nil {
		err = givenUp()
	}
	return err
}

func givenUp() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: ErrGivenUp.Error(), Err: ErrGivenUp}
}

// adoptAtOnce is how many rows one transaction adopts.
const adoptAtOnce = 1000

// Adopt makes owner the one of open calls and chains that belong to no process, of those
// that wait only if it is told to, and returns how many there were of all.
func (s Processes) Adopt(ctx context.Context, owner string, waiting bool) (n int, err error) {
	if err := need("the name of the process", owner); err != nil {
		return 0, err
	}
	texts := []string{adopt("chains", "final = 0"), adopt("calls", "status = 'running'")}
	if waiting {
		texts = append(texts, adopt("calls", "status = 'queued'"))
	}
	for _, text := range texts {
		for {
			var moved int64
			err := s.db.write(ctx, "adopt calls", func(ctx context.Context, t *tx) (err error) {
				// What a process adopts that was given up belongs to nobody still.
				if err := t.alive(ctx, owner); err != nil {
					return err
				}
				moved, err = t.exec(ctx, text, owner, adoptAtOnce)
				return err
			})
			if err != nil {
				return n, err
			}
			if n += int(moved); moved < adoptAtOnce {
				break
			}
		}
	}
	return n, nil
}

// adopt is the statement that adopts some rows of a table. The condition is there twice: a
// row that another process has adopted while this one waited for it is looked at again by
// the outer one. Calls that wait for a person belong to whoever hears the answer, and need
// not be adopted.
func adopt(table, open string) string {
	cond := open + " AND owner NOT IN (SELECT owner FROM processes)"
	return "UPDATE " + table + " SET owner = $1 WHERE id IN (SELECT id FROM " + table + " WHERE " + cond +
		" LIMIT $2) AND " + cond
}

// ReleaseCalls leaves queued calls of a process to others: all of them if none are named.
func (s Calls) ReleaseCalls(ctx context.Context, owner string, ids []haft.CallID) error {
	return s.db.write(ctx, "leave calls to others", func(ctx context.Context, t *tx) error {
		release := func(part []haft.CallID) error {
			q := build("UPDATE calls SET owner = '' WHERE status = 'queued' AND owner = ?", owner)
			if len(part) > 0 {
				q.add(" AND id IN ")
				q.in(columns(part))
			}
			_, err := t.run(ctx, q)
			return err
		}
		if len(ids) == 0 {
			return release(nil)
		}
		return chunks(ids, release)
	})
}

// ReleaseChain leaves a chain of a process to others.
func (s Chains) ReleaseChain(ctx context.Context, owner string, id haft.ChainID) error {
	_, err := s.db.exec(ctx, "leave a chain to others",
		"UPDATE chains SET owner = '' WHERE final = 0 AND owner = $1 AND id = $2", owner, column(string(id)))
	return err
}

// OrgKey is an organisation as it is counted by [Calls.QueuedByOrg].
func OrgKey(org string) string { return column(org) }

// Queued lists calls of an organisation that a process has yet to begin, oldest first,
// with what is sealed.
func (s Calls) Queued(ctx context.Context, owner, orgKey string, limit int) ([]haft.Record, error) {
	return list(ctx, s.db, "list queued calls", scanRecord, queuedQuery, orgKey, owner, page(limit))
}

// QueuedByOrg counts the calls that a process has yet to begin, by [OrgKey].
func (s Calls) QueuedByOrg(ctx context.Context, owner string) (map[string]int, error) {
	return counts[int](ctx, s.db, "count queued calls",
		logged("SELECT org, COUNT(*) FROM calls WHERE status = 'queued' AND owner = $1 GROUP BY org"), owner)
}

// A Ref names a call or a chain.
type Ref struct {
	ID      string
	org     string // as it is kept
	created int64
}

// RecordOf returns the call that r names, with what is sealed, or [haft.CodeNotFound].
func (s Calls) RecordOf(ctx context.Context, r Ref) (*haft.Record, error) {
	return find(ctx, s.db, "call", scanRecord, recordByID, r.ID, r.org)
}

// ChainOf returns the chain that r names, or [haft.CodeNotFound].
func (s Chains) ChainOf(ctx context.Context, r Ref) (*haft.Chain, error) {
	return find(ctx, s.db, "chain", doc[haft.Chain], chainByID, r.ID, r.org)
}

// refs runs a query for pages of references: its last four arguments are the organisation,
// the time and the id after which the page begins, and its length.
func (s *Store) refs(ctx context.Context, doing string, q query, args ...any) ([]Ref, error) {
	return allPages(func(last Ref) ([]Ref, error) {
		return list(ctx, s, doing, func(r scanner) (ref Ref, err error) {
			err = r.Scan(&ref.org, &ref.ID, &ref.created)
			return ref, err
		}, q, append(args[:len(args):len(args)], last.org, last.created, last.ID, MaxPage)...)
	})
}

const (
	queuedQuery logged = "SELECT " + recordColumns +
		" FROM calls WHERE status = 'queued' AND org = $1 AND owner = $2 ORDER BY created, id LIMIT $3"
	runningQuery logged = `SELECT org, id, created FROM calls WHERE status = 'running' AND owner = $1
		AND (org, created, id) > ($2, $3, $4) ORDER BY org, created, id LIMIT $5`
	answeredQuery logged = `SELECT org, id, created FROM calls WHERE status = 'pending_approval' AND NOT EXISTS
		(SELECT 1 FROM approvals WHERE approvals.call = calls.id AND approvals.org = calls.org AND approvals.state = 'pending')
		AND (org, created, id) > ($1, $2, $3) ORDER BY org, created, id LIMIT $4`
	idleQuery logged = `SELECT org, id, created FROM chains WHERE final = 0 AND owner = $1 AND NOT EXISTS
		(SELECT 1 FROM calls WHERE calls.org = chains.org AND calls.chain = chains.id AND calls.chain <> '' AND calls.final = 0)
		AND (org, created, id) > ($2, $3, $4) ORDER BY org, created, id LIMIT $5`
)

// Running lists the calls that a process has begun.
func (s Calls) Running(ctx context.Context, owner string) ([]Ref, error) {
	return s.db.refs(ctx, "list running calls", runningQuery, owner)
}

// Answered lists calls that wait for an answer which was given.
func (s Calls) Answered(ctx context.Context) ([]Ref, error) {
	return s.db.refs(ctx, "list calls whose requests are answered", answeredQuery)
}

// IdleChains lists open chains of a process none of whose calls is open.
func (s Chains) IdleChains(ctx context.Context, owner string) ([]Ref, error) {
	return s.db.refs(ctx, "list chains that nobody takes further", idleQuery, owner)
}
