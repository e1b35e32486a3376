package memorystore

import (
	"context"
	"fmt"
	"slices"

	"haft"
	"haft/internal/store"
)

// turnPrefix begins the id of every turn.
const turnPrefix = "run-"

// claimAtOnce is how many turns one transaction claims.
const claimAtOnce = 100

// A turnDoc is a turn as it is kept.
type turnDoc struct {
	haft.Turn
	Principal haft.Principal `json:"principal"`
}

// scanTurn reads a turn, and other columns behind it.
func scanTurn(others ...any) func(store.Scanner) (haft.Turn, error) {
	return func(r store.Scanner) (haft.Turn, error) {
		d, err := decode[turnDoc](r, others...)
		d.Turn.Principal = d.Principal
		return d.Turn, err
	}
}

// BeginTurn begins a turn of t.Agent for t.Principal as that of a process, with its first message. The principal must
// have no turn of the agent that runs or waits: else it returns [haft.CodeConflict]. With a key that the principal has
// used for the agent before, it returns that turn and false. Of t only Model, Parent, Depth and Budget count besides.
func (s *Store) BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, first haft.Message) (
	turn *haft.Turn, begun bool, err error) {
	if len(key) > maxKey {
		return nil, false, invalid("/idempotency_key", fmt.Sprintf("expected at most %d bytes", maxKey))
	}
	if err := checkMessages([]haft.Message{first}); err != nil {
		return nil, false, err
	}
	if t.Principal.Owner() == "" { // which means everybody where turns are listed
		return nil, false, &haft.Error{Code: haft.CodeInvalid,
			Message: "a turn belongs to somebody: the principal has neither a user nor a credential"}
	}
	created := now()
	t = haft.Turn{ID: haft.TurnID(newID(turnPrefix, created)), Agent: t.Agent, Status: haft.TurnRunning, Model: t.Model,
		Parent: t.Parent, Depth: t.Depth, Budget: t.Budget, Created: created, Principal: t.Principal}
	doc, err := encode("turn", turnDoc{t, t.Principal}, maxTurn)
	if err != nil {
		return nil, false, err
	}
	user := store.Column(t.Principal.Owner())
	err = s.db.Write(ctx, "begin a turn", func(ctx context.Context, tx store.Tx) error {
		turn, begun = &t, false
		if err := tx.Alive(ctx, owner); err != nil {
			return err
		}
		if _, err := touch(ctx, tx, t.Principal.Org, t.Agent, counts{}); err != nil {
			return err
		}
		if same, err := earlier(ctx, tx, t.Agent, user, key); err != nil || same != nil {
			turn = same
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO turns (id, org, agent, usr, idem, status, final, owner, cancel, ended, "+
			"doc) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, 0, 0, $8)", string(t.ID), store.Column(t.Principal.Org),
			string(t.Agent), user, store.Column(key), string(t.Status), owner, doc); err != nil {
			return err
		}
		begun = true
		_, err = addMessages(ctx, tx, &t, []haft.Message{first})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return turn, begun, nil
}

// earlier returns the turn that a user began with a key, or nil, or [haft.CodeConflict] if the user has another one
// that has not ended. Precondition: the row of the agent is locked.
func earlier(ctx context.Context, t store.Tx, agent haft.AgentID, user, key string) (*haft.Turn, error) {
	same, err := list(ctx, locked{t}, scanTurn(), query("SELECT doc FROM turns WHERE agent = ? AND usr = ? AND idem = "+
		"? AND idem <> ''", string(agent), user, store.Column(key)))
	if err != nil {
		return nil, err
	}
	if len(same) > 0 {
		return &same[0], nil
	}
	open, err := list(ctx, locked{t}, text[string], query("SELECT id FROM turns WHERE agent = ? AND usr = ? AND "+
		"final = 0", string(agent), user))
	if err == nil && len(open) > 0 {
		err = conflict("the agent still works on your last message: wait until it has ended, or cancel it")
	}
	return nil, err
}

// AdvanceTurn adds messages to a turn and writes how it stands, both or neither. It returns the messages as they are
// kept. The turn must be that of the process and not have ended: else it returns [haft.CodeConflict], and
// [haft.CodeNotFound] if it was removed. Of turn count Status, Stop, Error, Model, Usage and Approvals.
func (s *Store) AdvanceTurn(ctx context.Context, owner string, turn haft.Turn,
	messages ...haft.Message) ([]haft.Message, error) {
	if err := checkMessages(messages); err != nil {
		return nil, err
	}
	if !slices.Contains([]haft.TurnStatus{haft.TurnRunning, haft.TurnWaiting, haft.TurnCompleted, haft.TurnFailed,
		haft.TurnCancelled}, turn.Status) {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the turn has no known status"}
	}
	return write(ctx, s, "go on with a turn", func(ctx context.Context, t store.Tx) ([]haft.Message, error) {
		if err := t.Alive(ctx, owner); err != nil {
			return nil, err
		}
		kept, err := addMessages(ctx, t, &turn, messages)
		if err != nil {
			return nil, err
		}
		has := ""
		was, err := one(ctx, locked{t}, "turn", scanTurn(&has), query("SELECT doc, owner FROM turns WHERE id = ? AND "+
			"org = ? AND agent = ?", store.Column(string(turn.ID)), store.Column(turn.Principal.Org),
			store.Column(string(turn.Agent))))
		switch {
		case err != nil:
			return nil, err
		case was.Final():
			return nil, conflict("the turn has ended")
		case has != owner:
			return nil, conflict("another server has this turn")
		}
		was.Status, was.Stop, was.Error, was.Model = turn.Status, turn.Stop, turn.Error, turn.Model
		was.Usage, was.Approvals = turn.Usage, turn.Approvals
		return kept, writeTurn(ctx, t, was)
	})
}

// writeTurn writes a turn that is locked.
func writeTurn(ctx context.Context, t store.Tx, turn *haft.Turn) error {
	ended := int64(0)
	if turn.Final() {
		turn.Ended = now()
		ended = turn.Ended.UnixMicro()
	}
	doc, err := encode("turn", turnDoc{*turn, turn.Principal}, maxTurn)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, "UPDATE turns SET status = $1, final = $2, ended = $3, doc = $4 WHERE id = $5",
		string(turn.Status), number(turn.Final()), ended, doc, string(turn.ID))
	return err
}

// ofTurn is the condition for a turn of an organisation whose agent is there.
const ofTurn = " WHERE id = ? AND org = ? AND EXISTS (SELECT 1 FROM agents WHERE agents.id = turns.agent)"

// Turn returns a turn, or [haft.CodeNotFound].
func (s *Store) Turn(ctx context.Context, org string, id haft.TurnID) (*haft.Turn, error) {
	return one(ctx, s, "turn", scanTurn(), query("SELECT doc FROM turns"+ofTurn, store.Column(string(id)),
		store.Column(org)))
}

// Turns lists the turns of an agent for a user, or for all of them if that is empty, after another, oldest first.
func (s *Store) Turns(ctx context.Context, org, user string, agent haft.AgentID, after haft.TurnID,
	limit int) ([]haft.Turn, error) {
	q := query("SELECT doc FROM turns WHERE org = ? AND agent = ? AND id > ?", store.Column(org),
		store.Column(string(agent)), store.Column(string(after)))
	if user != "" {
		q.Add(" AND usr = ?", store.Column(user))
	}
	q.Add(" ORDER BY id LIMIT ?", page(limit))
	return list(ctx, s, scanTurn(), q)
}

// OpenTurns lists the turns of a process that have not ended, after another, a page at a time.
func (s *Store) OpenTurns(ctx context.Context, owner string, after haft.TurnID) ([]haft.Turn, error) {
	return list(ctx, s, scanTurn(), query("SELECT doc FROM turns WHERE owner = ? AND final = 0 AND id > ? ORDER BY id "+
		"LIMIT ?", owner, store.Column(string(after)), store.MaxPage))
}

// ClaimTurns makes a process the owner of turns whose process is gone, and returns them. Of many who claim at once each
// gets others.
func (s *Store) ClaimTurns(ctx context.Context, owner string) ([]haft.Turn, error) {
	return write(ctx, s, "claim turns", func(ctx context.Context, t store.Tx) ([]haft.Turn, error) {
		if err := t.Alive(ctx, owner); err != nil {
			return nil, err
		}
		turns, err := list(ctx, locked{t}, scanTurn(), query("SELECT doc FROM turns WHERE final = 0 AND owner <> ? "+
			"AND owner NOT IN (SELECT owner FROM processes) ORDER BY id LIMIT ?", owner, claimAtOnce))
		if err != nil || len(turns) == 0 {
			return nil, err
		}
		q := query("UPDATE turns SET owner = ? WHERE id IN ", owner)
		q.In(anys(turns, func(turn haft.Turn) string { return string(turn.ID) }))
		_, err = t.Run(ctx, q)
		return turns, err
	})
}

// CancelTurn asks the process that has a turn to end it, see [Store.CancelledTurns]. It can be done twice.
func (s *Store) CancelTurn(ctx context.Context, org string, id haft.TurnID) error {
	return s.db.Write(ctx, "cancel a turn", func(ctx context.Context, t store.Tx) error {
		n, err := t.Run(ctx, query("UPDATE turns SET cancel = 1"+ofTurn, store.Column(string(id)),
			store.Column(org)))
		if err == nil && n == 0 {
			err = missing("turn")
		}
		return err
	})
}

// CancelledTurns lists the turns of a process that have not ended and that somebody has cancelled.
func (s *Store) CancelledTurns(ctx context.Context, owner string) ([]haft.TurnID, error) {
	return list(ctx, s, text[haft.TurnID], query("SELECT id FROM turns WHERE owner = ? AND final = 0 AND cancel = 1 "+
		"ORDER BY id LIMIT ?", owner, store.MaxPage))
}
