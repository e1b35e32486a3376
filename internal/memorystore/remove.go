package memorystore

import (
	"context"
	"iter"
	"time"

	"haft"
	"haft/internal/store"
)

// How many rows, and messages with their terms, one transaction removes.
const (
	removeRows     = 500
	removeMessages = 50
)

// removeAll runs a statement that removes some rows until there are no more. Its last argument is how many at once.
func (s *Store) removeAll(ctx context.Context, doing, text string, args ...any) error {
	for n := int64(removeRows); n == removeRows; {
		err := s.db.Write(ctx, doing, func(ctx context.Context, t store.Tx) (err error) {
			n, err = t.Exec(ctx, text, append(args[:len(args):len(args)], removeRows)...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// some is the statement that removes some rows of a table.
func some(table, key, where string) string {
	return "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE " + where +
		" LIMIT $2)"
}

// Purge removes the memory of agents that were removed. One that was stopped is gone on with by the next.
func (s *Store) Purge(ctx context.Context) error {
	const doing = "remove the memory of an agent"
	for {
		agents, err := list(text, s.selected(ctx, doing, store.NewQuery("SELECT agent FROM memories WHERE removed = 1 "+
			"LIMIT ?", maxPage)))
		if err != nil || len(agents) == 0 {
			return err
		}
		for _, agent := range agents {
			for _, statement := range []string{
				some("turns", "id", "agent = $1"),
				some("messages", "agent, seq", "agent = $1"),
				some("passages", "agent, id", "agent = $1"),
				some("memory_terms", "agent, term, item", "agent = $1"),
				some("memories", "agent", "agent = $1 AND removed = 1"),
			} {
				if err := s.removeAll(ctx, doing, statement, agent); err != nil {
					return err
				}
			}
		}
	}
}

// Erase removes what a user of an organisation said: turns with their messages, whether they have ended or not, and
// summaries that were made of them. Without a user it removes all memory of an organisation whose agents are gone.
func (s *Store) Erase(ctx context.Context, org, user string) error {
	const doing = "erase memory"
	if user == "" {
		if err := s.removeAll(ctx, doing, some("agent_blocks", "agent, label", "block IN (SELECT id FROM blocks WHERE org = "+
			"$1)"), store.Column(org)); err != nil {
			return err
		}
		if err := s.removeAll(ctx, doing, some("blocks", "id", "org = $1"), store.Column(org)); err != nil {
			return err
		}
		if err := s.removeAll(ctx, doing, "UPDATE memories SET removed = 1 WHERE agent IN (SELECT agent FROM memories WHERE "+
			"org = $1 AND removed = 0 LIMIT $2)", store.Column(org)); err != nil {
			return err
		}
		return s.Purge(ctx)
	}
	for {
		turns, err := list(text, s.selected(ctx, doing, store.NewQuery("SELECT id FROM turns WHERE org = ? AND usr = ? LIMIT ?",
			store.Column(org), store.Column(user), maxPage)))
		if err != nil || len(turns) == 0 {
			return err
		}
		for _, id := range turns {
			err := s.db.Write(ctx, doing, func(ctx context.Context, t store.Tx) error { return dropSummaries(ctx, t, id) })
			if err != nil {
				return err
			}
			if err := s.removeTurn(ctx, doing, id); err != nil {
				return err
			}
		}
	}
}

// dropSummaries takes a turn from its process, and removes summaries of messages of it: those that came later.
func dropSummaries(ctx context.Context, t store.Tx, turn string) error {
	const later = " FROM messages WHERE role = 'summary' AND agent = (SELECT agent FROM turns WHERE id = $1) AND seq > " +
		"(SELECT MIN(x.seq) FROM messages x WHERE x.turn = $1)"
	for _, statement := range []string{
		"UPDATE turns SET owner = '', final = 1 WHERE id = $1",
		"UPDATE memories SET replaced = 0 WHERE agent = (SELECT agent FROM turns WHERE id = $1) AND EXISTS (SELECT 1" +
			later + ")",
		"DELETE FROM memory_terms WHERE item IN (SELECT id" + later + ")",
		"DELETE" + later,
	} {
		if _, err := t.Exec(ctx, statement, turn); err != nil {
			return err
		}
	}
	return nil
}

// removeTurn removes a turn that nobody goes on with, after its messages: if it is stopped, the turn is still there.
func (s *Store) removeTurn(ctx context.Context, doing, turn string) error {
	for n := removeMessages; n == removeMessages; {
		err := s.db.Write(ctx, doing, func(ctx context.Context, t store.Tx) error {
			ids, err := list(func(r store.Scanner) (any, error) { return text(r) },
				func(scan func(store.Scanner) error) error {
					return t.Each(ctx, scan, "SELECT id FROM messages WHERE turn = $1 LIMIT $2", turn, removeMessages)
				})
			if n = len(ids); err != nil {
				return err
			}
			for _, head := range []string{"DELETE FROM memory_terms WHERE item IN ", "DELETE FROM messages WHERE id IN "} {
				q := store.NewQuery(head)
				q.In(append(ids, ""))
				if _, err := t.Run(ctx, q); err != nil {
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

// PruneTurns removes turns of an organisation that ended before a time, with their messages, if summaries stand for all
// of these: what the model of an agent still gets stays. It stops at the time end, and reports whether there may be
// more.
func (s *Store) PruneTurns(ctx context.Context, org string, before, end time.Time) (more bool, err error) {
	const doing = "prune turns"
	turns, err := list(text, s.selected(ctx, doing, store.NewQuery("SELECT t.id FROM turns t JOIN memories m ON m.agent = "+
		"t.agent WHERE t.org = ? AND t.final = 1 AND t.ended < ? AND NOT EXISTS (SELECT 1 FROM messages x WHERE x.turn = "+
		"t.id AND x.seq > m.replaced) ORDER BY t.ended LIMIT ?", store.Column(org), before.UnixMicro(), store.MaxPage)))
	for _, id := range turns {
		if err == nil {
			err = s.removeTurn(ctx, doing, id)
		}
		if err != nil || time.Now().After(end) {
			return true, err
		}
	}
	return len(turns) == store.MaxPage, err
}

// Said yields the turns of an organisation, or of one user if that is not empty.
func (s *Store) Said(ctx context.Context, org, user string) iter.Seq2[haft.Turn, error] {
	return func(yield func(haft.Turn, error) bool) {
		for last, id := store.Column(user), ""; ; {
			q := store.NewQuery("SELECT doc, usr FROM turns WHERE org = ? AND (usr, id) > (?, ?)", store.Column(org), last, id)
			if user != "" {
				q.Add(" AND usr = ?", last)
			}
			q.Add(" ORDER BY usr, id LIMIT ?", maxPage)
			turns, err := list(scanTurn(&last), s.selected(ctx, "list turns", q))
			if err != nil {
				yield(haft.Turn{}, err)
				return
			}
			for _, turn := range turns {
				if id = string(turn.ID); !yield(turn, nil) {
					return
				}
			}
			if len(turns) < maxPage {
				return
			}
		}
	}
}
