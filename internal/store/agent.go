package store

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// PutAgent adds an agent, or replaces the one of that name in its organisation if
// that is what If says, and else returns [haft.CodeConflict]. That one keeps its id
// and the time of its creation. It returns what is kept.
func (s *Store) PutAgent(ctx context.Context, a haft.Agent) (*haft.Agent, error) {
	return s.putAgent(ctx, a, nil)
}

// OwnSecrets is what becomes of the secrets of an agent or of an MCP server when it
// is written.
type OwnSecrets struct {
	// Kind is that of its scope, whose id is its own.
	Kind string
	// Put are written, each over its revision, and those named in Keep stay. All
	// others go.
	Put  []Secret
	Keep []string
	// Drop are the kinds of scopes below its own, ID/…, whose secrets all go. It is for
	// servers only.
	Drop []string
}

// PutAgentEnv is [Store.PutAgent] with the secrets of the agent, in one transaction:
// both are written or neither. An agent of that name with another id is a
// [haft.CodeConflict] too.
func (s *Store) PutAgentEnv(ctx context.Context, a haft.Agent, env OwnSecrets) (*haft.Agent, error) {
	if a.ID == "" || env.Kind == "" {
		return nil, invalid("an agent that has secrets has an id, and their scope a kind")
	}
	if err := env.check(a.Org, string(a.ID)); err != nil {
		return nil, err
	}
	return s.putAgent(ctx, a, &env)
}

// check reports why these cannot be the secrets of what has that id.
func (o OwnSecrets) check(org, id string) error {
	for _, v := range o.Put {
		if v.Org != org || v.Kind != o.Kind || v.Scope != id {
			return invalid("the secret belongs to something else")
		}
		if err := v.check(); err != nil {
			return err
		}
	}
	return nil
}

// putAgent writes an agent, and what becomes of its secrets.
func (s *Store) putAgent(ctx context.Context, a haft.Agent, env *OwnSecrets) (*haft.Agent, error) {
	if a.Org == "" {
		return nil, invalid("an agent belongs to an organisation")
	}
	if err := need("the name of the agent", a.Name); err != nil {
		return nil, err
	}
	if a.ID == "" {
		a.ID = haft.AgentID(newID("agent_"))
	}
	if err := need("the id of the agent", string(a.ID)); err != nil {
		return nil, err
	}
	condition, at := a.If, a.Updated
	a.If = ""
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		old, err := locked[haft.Agent](ctx, t, "SELECT doc FROM agents WHERE org = $1 AND name = $2", column(a.Org),
			a.Name)
		if err != nil {
			return err
		}
		kept, before := "", time.Time{}
		if old != nil {
			kept, before = old.Revision(), old.Updated
			if env != nil && a.ID != old.ID {
				return conflict("somebody else made this agent at the same time; try again")
			}
			a.ID, a.Created = old.ID, old.Created
		}
		if err := holds(condition, kept); err != nil {
			return err
		}
		if err := t.putOwn(ctx, a.Org, string(a.ID), env); err != nil {
			return err
		}
		if a.Updated = stamp(at, before); a.Created.IsZero() {
			a.Created = a.Updated
		}
		doc, err := encode(a)
		if err != nil {
			return err
		}
		if len(doc) > MaxText {
			return invalid("the agent has %d bytes, %d is the most", len(doc), MaxText)
		}
		n, err := t.exec(ctx, "INSERT INTO agents (id, org, name, doc) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO "+
			"UPDATE SET doc = excluded.doc WHERE agents.org = excluded.org AND agents.name = excluded.name",
			string(a.ID), column(a.Org), a.Name, doc)
		if err == nil && n == 0 {
			return conflict("another agent has that id")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the agent: %w", err)
	}
	return &a, nil
}

// putOwn writes the secrets of what has that id, and removes those that it has no
// more.
func (t *tx) putOwn(ctx context.Context, org, id string, own *OwnSecrets) error {
	if own == nil {
		return nil
	}
	stay := make(map[string]bool, len(own.Put)+len(own.Keep))
	for _, name := range own.Keep {
		stay[name] = true
	}
	for _, v := range own.Put {
		stay[v.Name] = true
		if err := t.putSecret(ctx, v); err != nil {
			return err
		}
	}
	rows, err := t.query(ctx, "SELECT name FROM secrets WHERE org = $1 AND kind = $2 AND scope = $3", column(org),
		column(own.Kind), column(id))
	if err != nil {
		return err
	}
	var gone []string
	if err := each(rows, func(r scanner) error {
		var name string
		if err := r.Scan(&name); err != nil {
			return err
		}
		if !stay[name] {
			gone = append(gone, name)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range gone {
		if _, err := t.exec(ctx, "DELETE FROM secrets WHERE org = $1 AND kind = $2 AND scope = $3 AND name = $4",
			column(org), column(own.Kind), column(id), name); err != nil {
			return err
		}
	}
	if len(own.Put)+len(gone) == 0 {
		return nil
	}
	return markSecrets(ctx, t, org)
}

// Agent returns the agent of that id or name, or [haft.CodeNotFound].
func (s *Store) Agent(ctx context.Context, org, ref string) (*haft.Agent, error) {
	list, err := docs[haft.Agent](ctx, s, "SELECT doc FROM agents WHERE org = $1 AND (id = $2 OR name = $2)",
		column(org), column(ref))
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the agent: %w", err)
	case len(list) == 0:
		return nil, notFound("agent")
	case len(list) == 2 && string(list[1].ID) == ref: // an id is nobody else's name
		return &list[1], nil
	}
	return &list[0], nil
}

// Agents lists the agents of an organisation by name, after that name.
func (s *Store) Agents(ctx context.Context, org, after string, limit int) ([]haft.Agent, error) {
	list, err := docs[haft.Agent](ctx, s, "SELECT doc FROM agents WHERE org = $1 AND name > $2 ORDER BY name LIMIT $3",
		column(org), column(after), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return list, nil
}

// RemoveAgent removes the agent of that id or name, or returns
// [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition.
func (s *Store) RemoveAgent(ctx context.Context, org, ref, condition string) error {
	a, err := s.Agent(ctx, org, ref)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		now, err := locked[haft.Agent](ctx, t, "SELECT doc FROM agents WHERE org = $1 AND id = $2", column(org),
			string(a.ID))
		if err != nil {
			return err
		}
		if now == nil {
			return notFound("agent")
		}
		if err := holds(condition, now.Revision()); err != nil {
			return err
		}
		n, err := t.exec(ctx, "DELETE FROM agents WHERE org = $1 AND id = $2", column(org), string(a.ID))
		if err == nil && n == 0 {
			return notFound("agent")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the agent: %w", err)
	}
	return nil
}
