package memorystore

import (
	"context"
	"time"

	"haft"
	"haft/internal/store"
)

// How many rows, and messages with their terms, one transaction removes.
const (
	removeRows     = 500
	removeMessages = 50
)

// removeAll runs a statement that removes some rows until there are no more. Its arguments are whose, and how many at
// once.
func (s *Store) removeAll(ctx context.Context, statement, of string) error {
	for n := int64(removeRows); n == removeRows; {
		err := s.db.Write(ctx, "remove memory", func(ctx context.Context, t store.Tx) (err error) {
			n, err = t.Exec(ctx, statement, of, removeRows)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeSome is the statement that removes some rows of a table.
func removeSome(table, key, where string) string {
	return "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE " + where +
		" LIMIT $2)"
}

// Purge removes the memory of agents that were removed. If it is stopped, the next one goes on.
func (s *Store) Purge(ctx context.Context) error {
	for {
		agents, err := list(ctx, s, text[string], query("SELECT agent FROM memories WHERE removed = 1 LIMIT ?",
			maxPage))
		if err != nil || len(agents) == 0 {
			return err
		}
		for _, agent := range agents {
			for _, statement := range []string{
				removeSome("turns", "id", "agent = $1"),
				removeSome("messages", "agent, seq", "agent = $1"),
				removeSome("passages", "id", "agent = $1"),
				removeSome("memory_terms", "agent, term, item", "agent = $1"),
				removeSome("agent_blocks", "agent, label", "agent = $1"),
				removeSome("memory_shares", "agent, usr", "agent = $1"),
				// The mark stays while another process removes rows of which this one sees nothing.
				removeSome("memories", "agent", "agent = $1 AND removed = 1 AND NOT EXISTS (SELECT 1 FROM turns WHERE "+
					"agent = $1) AND NOT EXISTS (SELECT 1 FROM messages WHERE agent = $1) AND NOT EXISTS (SELECT 1 "+
					"FROM passages WHERE agent = $1) AND NOT EXISTS (SELECT 1 FROM memory_terms WHERE agent = $1)"),
			} {
				if err := s.removeAll(ctx, statement, agent); err != nil {
					return err
				}
			}
		}
	}
}

// Erase removes what a user of an organisation said: turns with their messages and summaries, whether they have ended
// or not, and the passages that agents added for the user. Without a user it removes all memory of an organisation
// whose agents are gone.
func (s *Store) Erase(ctx context.Context, org, user string) error {
	if user == "" {
		for _, statement := range []string{
			removeSome("agent_blocks", "agent, label", "block IN (SELECT id FROM blocks WHERE org = $1)"),
			removeSome("blocks", "id", "org = $1"),
			"UPDATE memories SET removed = 1 WHERE agent IN (SELECT agent FROM memories WHERE org = $1 AND removed = " +
				"0 LIMIT $2)",
		} {
			if err := s.removeAll(ctx, statement, store.Column(org)); err != nil {
				return err
			}
		}
		return s.Purge(ctx)
	}
	for {
		turns, err := list(ctx, s, text[string], query("SELECT id FROM turns WHERE org = ? AND usr = ? LIMIT ?",
			store.Column(org), store.Column(user), maxPage))
		if err != nil {
			return err
		}
		if len(turns) == 0 {
			if err := s.erasePassages(ctx, org, user); err != nil {
				return err
			}
			return eraseShares(ctx, s, org, user)
		}
		for _, id := range turns {
			if err := take(ctx, s, id); err != nil {
				return err
			}
			if err := s.removeTurn(ctx, id); err != nil {
				return err
			}
		}
	}
}

// erasePassages removes the passages that agents added for a user. Those of an agent that is gone are left to
// [Store.Purge].
func (s *Store) erasePassages(ctx context.Context, org, user string) error {
	for last := haft.PassageID(""); ; {
		passages, err := s.UserPassages(ctx, org, user, last, 0)
		if err != nil || len(passages) == 0 {
			return err
		}
		for _, p := range passages {
			last = p.ID
			if err := s.RemovePassage(ctx, org, p.Agent, p.ID); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
				return err
			}
		}
	}
}

// eraseShares removes what is counted for a user, who has nothing any more. It is nothing, unless a server of an older
// version removed messages, which counts nothing.
func eraseShares(ctx context.Context, s *Store, org, user string) error {
	return s.db.Write(ctx, "erase what is counted", func(ctx context.Context, t store.Tx) error {
		_, err := t.Exec(ctx, "DELETE FROM memory_shares WHERE usr = $1 AND agent IN (SELECT agent FROM memories "+
			"WHERE org = $2)", store.Column(user), store.Column(org))
		return err
	})
}

// TakeTurns takes the turns of a user, or of all users of an organisation, from their processes, so that they make no
// more calls: before these are erased, and the turns by [Store.Erase].
func (s *Store) TakeTurns(ctx context.Context, org, user string) error {
	return s.db.Write(ctx, "take turns", func(ctx context.Context, t store.Tx) error {
		q := query("UPDATE turns SET owner = '', final = 1 WHERE org = ? AND final = 0", store.Column(org))
		if user != "" {
			q.Add(" AND usr = ?", store.Column(user))
		}
		_, err := t.Run(ctx, q)
		return err
	})
}

// take takes a turn from its process, which keeps nothing of it any more.
func take(ctx context.Context, s *Store, turn string) error {
	return s.db.Write(ctx, "take a turn", func(ctx context.Context, t store.Tx) error {
		_, err := t.Exec(ctx, "UPDATE turns SET owner = '', final = 1 WHERE id = $1", turn)
		return err
	})
}

// A sized is a message that is to be removed.
type sized struct {
	id, agent, user string
	bytes           int64
}

func scanSized(r store.Scanner) (m sized, err error) {
	err = r.Scan(&m.id, &m.agent, &m.user, &m.bytes)
	return m, err
}

// removeTurn removes a turn that nobody goes on with, after its messages: if it is stopped, the turn is still there.
func (s *Store) removeTurn(ctx context.Context, turn string) error {
	for n := removeMessages; n == removeMessages; {
		err := s.db.Write(ctx, "remove a turn", func(ctx context.Context, t store.Tx) error {
			messages, err := list(ctx, locked{t}, scanSized, query("SELECT id, agent, usr, OCTET_LENGTH(doc) FROM "+
				"messages WHERE turn = ? LIMIT ?", turn, removeMessages))
			if n = len(messages); err != nil {
				return err
			}
			for _, m := range messages {
				if _, err := t.Exec(ctx, "DELETE FROM memory_terms WHERE item = $1", m.id); err != nil {
					return err
				}
				if _, err := t.Exec(ctx, "DELETE FROM messages WHERE id = $1", m.id); err != nil {
					return err
				}
				if _, err := t.Exec(ctx, "UPDATE memories SET bytes = bytes - $1 WHERE agent = $2", m.bytes,
					m.agent); err != nil {
					return err
				}
				if err := share(ctx, t, haft.AgentID(m.agent), m.user, -m.bytes); err != nil {
					return err
				}
			}
			if n < removeMessages {
				_, err = t.Exec(ctx, "DELETE FROM turns WHERE id = $1", turn)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A TurnPlace is where pruning goes on: behind a turn, in the order of their ends.
type TurnPlace struct {
	ended   int64
	turn    string
	removes bool // whether summaries stand for it
}

func scanPlace(r store.Scanner) (p TurnPlace, err error) {
	err = r.Scan(&p.turn, &p.ended, &p.removes)
	return p, err
}

// PruneTurns removes turns of an organisation that ended before a time, with their messages, if summaries stand for all
// of these, or if they are twice as old: what the model of an agent still gets stays longer, and not for ever. It stops
// at the time end, and returns where to go on, or nil if it is done; at is nil in the beginning.
func (s *Store) PruneTurns(ctx context.Context, org string, before time.Time, at *TurnPlace, end time.Time) (
	*TurnPlace, error) {
	if at == nil {
		at = &TurnPlace{}
	}
	twice := int64(0)
	if age := time.Since(before); age > 0 {
		twice = before.Add(-age).UnixMicro()
	}
	for {
		turns, err := list(ctx, s, scanPlace, query(`SELECT t.id, t.ended, t.ended < ? OR NOT EXISTS (SELECT 1 FROM messages x WHERE
			x.turn = t.id AND x.seq > (SELECT COALESCE(MAX(s.replaces), 0) FROM messages s WHERE s.agent = t.agent
			AND s.usr = t.usr AND s.replaces > 0)) FROM turns t WHERE t.org = ? AND t.final = 1 AND t.ended < ?
			AND (t.ended, t.id) > (?, ?) ORDER BY t.ended, t.id LIMIT ?`, twice, store.Column(org), before.UnixMicro(),
			at.ended, at.turn, maxPage))
		if err != nil || len(turns) == 0 {
			return nil, err
		}
		for _, t := range turns {
			if at = &t; t.removes {
				err = s.removeTurn(ctx, t.turn)
			}
			if err != nil || time.Now().After(end) {
				return at, err
			}
		}
	}
}

// UserTurns lists turns of an organisation, or of one user if that is not empty, after another one, if that has an id.
func (s *Store) UserTurns(ctx context.Context, org, user string, after haft.Turn, limit int) ([]haft.Turn, error) {
	q := query("SELECT doc FROM turns WHERE org = ? AND (usr, id) > (?, ?)", store.Column(org),
		store.Column(after.Principal.Owner()), string(after.ID))
	if user != "" {
		q.Add(" AND usr = ?", store.Column(user))
	}
	q.Add(" ORDER BY usr, id LIMIT ?", page(limit))
	return list(ctx, s, scanTurn(), q)
}
