package store

import (
	"context"
	"errors"
	"fmt"

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
func (s *Store) Join(ctx context.Context, owner string) error {
	if err := need("the name of the process", owner); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		if !s.dialect.Shared {
			if _, err := t.exec(ctx, "DELETE FROM processes"); err != nil {
				return err
			}
		}
		_, err := t.exec(ctx, "INSERT INTO processes (owner, beat) VALUES ($1, 1)", owner)
		return err
	})
	if err != nil {
		return fmt.Errorf("register the process: %w", err)
	}
	return nil
}

// Beat says that a process lives, or returns [ErrGivenUp].
func (s *Store) Beat(ctx context.Context, owner string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "UPDATE processes SET beat = beat + 1 WHERE owner = $1", owner)
		if err == nil && n == 0 {
			return givenUp()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("say that the process lives: %w", err)
	}
	return nil
}

// Beats returns the count of beats of each process.
func (s *Store) Beats(ctx context.Context) (map[string]int64, error) {
	beats := map[string]int64{}
	err := s.rows(ctx, func(r scanner) error {
		var owner string
		var beat int64
		err := r.Scan(&owner, &beat)
		beats[owner] = beat
		return err
	}, "SELECT owner, beat FROM processes")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	return beats, nil
}

// GiveUp removes a process whose count of beats still is beat, and reports whether it
// did. From then on nothing that it writes is kept. A transaction of its own that is
// under way is waited for.
func (s *Store) GiveUp(ctx context.Context, owner string, beat int64) (done bool, err error) {
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "DELETE FROM processes WHERE owner = $1 AND beat = $2", column(owner), beat)
		done = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("give up a process: %w", err)
	}
	return done, nil
}

// Leave removes a process that ends by itself. What it has not ended can be adopted.
func (s *Store) Leave(ctx context.Context, owner string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "DELETE FROM processes WHERE owner = $1", column(owner))
		return err
	})
	if err != nil {
		return fmt.Errorf("leave the processes: %w", err)
	}
	return nil
}

// alive refuses what a process writes that was given up, and keeps it from being given
// up until the transaction ends.
func (t *tx) alive(ctx context.Context, owner string) error {
	if owner == "" || !t.s.dialect.Shared {
		return nil
	}
	rows, err := t.query(ctx, "SELECT 1 FROM processes WHERE owner = $1"+t.s.dialect.ForShare, owner)
	if err != nil {
		return err
	}
	found := false
	if err := each(rows, func(r scanner) error { found = true; return nil }); err != nil || found {
		return err
	}
	return givenUp()
}

func givenUp() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: ErrGivenUp.Error(), Err: ErrGivenUp}
}

// adoptAtOnce is how many rows one transaction adopts.
const adoptAtOnce = 1000

// Adopt makes owner the one of open calls and chains that belong to no process, of those
// that wait only if it is told to, and returns how many there were of all.
func (s *Store) Adopt(ctx context.Context, owner string, waiting bool) (n int, err error) {
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
			err := s.write(ctx, func(ctx context.Context, t *tx) (err error) {
				// What a process adopts that was given up belongs to nobody still.
				if err := t.alive(ctx, owner); err != nil {
					return err
				}
				moved, err = t.exec(ctx, text, owner, adoptAtOnce)
				return err
			})
			if err != nil {
				return n, fmt.Errorf("adopt calls: %w", err)
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
func (s *Store) ReleaseCalls(ctx context.Context, owner string, ids []haft.CallID) error {
	text := "UPDATE calls SET owner = '' WHERE status = 'queued' AND owner = $1"
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		if len(ids) == 0 {
			_, err := t.exec(ctx, text, owner)
			return err
		}
		return chunks(ids, func(part []haft.CallID) error {
			args := make([]any, len(part))
			for i, id := range part {
				args[i] = column(string(id))
			}
			args = pad(args)
			_, err := t.exec(ctx, text+" AND id IN "+in(len(args), 2), append([]any{owner}, args...)...)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("leave calls to others: %w", err)
	}
	return nil
}

// ReleaseChain leaves a chain of a process to others.
func (s *Store) ReleaseChain(ctx context.Context, owner string, id haft.ChainID) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "UPDATE chains SET owner = '' WHERE final = 0 AND owner = $1 AND id = $2", owner,
			column(string(id)))
		return err
	})
	if err != nil {
		return fmt.Errorf("leave a chain to others: %w", err)
	}
	return nil
}

// OrgKey is an organisation as it is counted by [Store.QueuedByOrg].
func OrgKey(org string) string { return column(org) }

// Queued lists calls of an organisation that a process has yet to begin, oldest first,
// with what is sealed.
func (s *Store) Queued(ctx context.Context, owner, orgKey string, limit int) ([]haft.Record, error) {
	list, err := s.records(ctx, queuedQuery, orgKey, owner, page(limit))
	if err != nil {
		return nil, fmt.Errorf("list queued calls: %w", err)
	}
	return list, nil
}

// QueuedByOrg counts the calls that a process has yet to begin, by [OrgKey].
func (s *Store) QueuedByOrg(ctx context.Context, owner string) (map[string]int, error) {
	counts := map[string]int{}
	err := s.rows(ctx, func(r scanner) error {
		var org string
		var n int
		err := r.Scan(&org, &n)
		counts[org] = n
		return err
	}, "SELECT org, COUNT(*) FROM calls WHERE status = 'queued' AND owner = $1 GROUP BY org", owner)
	if err != nil {
		return nil, fmt.Errorf("count queued calls: %w", err)
	}
	return counts, nil
}

// A Ref names a call or a chain.
type Ref struct {
	ID  string
	org string // as it is kept
}

// RecordOf returns the call that r names, with what is sealed, or [haft.CodeNotFound].
func (s *Store) RecordOf(ctx context.Context, r Ref) (*haft.Record, error) {
	list, err := s.records(ctx, "SELECT "+recordColumns+" FROM calls WHERE id = $1 AND org = $2", r.ID, r.org)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the call: %w", err)
	case len(list) == 0:
		return nil, notFound("call")
	}
	return &list[0], nil
}

// ChainOf returns the chain that r names, or [haft.CodeNotFound].
func (s *Store) ChainOf(ctx context.Context, r Ref) (*haft.Chain, error) {
	return one[haft.Chain](ctx, s, "chain", "SELECT doc FROM chains WHERE id = $1 AND org = $2", r.ID, r.org)
}

// refs runs a query for pages of references: its last four arguments are the organisation,
// the time and the id after which the page begins, and its length.
func (s *Store) refs(ctx context.Context, text string, args ...any) ([]Ref, error) {
	var list []Ref
	var last Ref
	created := int64(0)
	for {
		n := 0
		err := s.rows(ctx, func(r scanner) error {
			var ref Ref
			err := r.Scan(&ref.org, &ref.ID, &created)
			list, last, n = append(list, ref), ref, n+1
			return err
		}, text, append(args[:len(args):len(args)], last.org, created, last.ID, MaxPage)...)
		if err != nil || n < MaxPage {
			return list, err
		}
	}
}

const (
	queuedQuery = "SELECT " + recordColumns +
		" FROM calls WHERE status = 'queued' AND org = $1 AND owner = $2 ORDER BY created, id LIMIT $3"
	runningQuery = `SELECT org, id, created FROM calls WHERE status = 'running' AND owner = $1
		AND (org, created, id) > ($2, $3, $4) ORDER BY org, created, id LIMIT $5`
	answeredQuery = `SELECT org, id, created FROM calls WHERE status = 'pending_approval' AND NOT EXISTS
		(SELECT 1 FROM approvals WHERE approvals.call = calls.id AND approvals.org = calls.org AND approvals.state = 'pending')
		AND (org, created, id) > ($1, $2, $3) ORDER BY org, created, id LIMIT $4`
	idleQuery = `SELECT org, id, created FROM chains WHERE final = 0 AND owner = $1 AND NOT EXISTS
		(SELECT 1 FROM calls WHERE calls.org = chains.org AND calls.chain = chains.id AND calls.chain <> '' AND calls.final = 0)
		AND (org, created, id) > ($2, $3, $4) ORDER BY org, created, id LIMIT $5`
)

// Running lists the calls that a process has begun.
func (s *Store) Running(ctx context.Context, owner string) ([]Ref, error) {
	list, err := s.refs(ctx, runningQuery, owner)
	if err != nil {
		return nil, fmt.Errorf("list running calls: %w", err)
	}
	return list, nil
}

// Answered lists calls that wait for an answer which was given.
func (s *Store) Answered(ctx context.Context) ([]Ref, error) {
	list, err := s.refs(ctx, answeredQuery)
	if err != nil {
		return nil, fmt.Errorf("list calls whose requests are answered: %w", err)
	}
	return list, nil
}

// IdleChains lists open chains of a process none of whose calls is open.
func (s *Store) IdleChains(ctx context.Context, owner string) ([]Ref, error) {
	list, err := s.refs(ctx, idleQuery, owner)
	if err != nil {
		return nil, fmt.Errorf("list chains that nobody takes further: %w", err)
	}
	return list, nil
}
