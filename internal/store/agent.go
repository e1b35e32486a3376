package store

import (
	"context"
	"maps"

	"haft"
	"haft/internal/secret/keeper"
	"haft/internal/store/stored"
)

var agents = &named[haft.Agent]{
	what: "agent", table: "agents", key: "name",
	head: func(a *haft.Agent) head {
		return head{string(a.ID), a.Org, a.Name, a.If, a.Created, a.Updated}
	},
	setHead: func(a *haft.Agent, h head) {
		a.ID, a.Org, a.Name, a.If, a.Created, a.Updated = haft.AgentID(h.id), h.org, h.name, h.condition, h.created,
			h.updated
	},
}

// PutAgent adds an agent, or replaces the one of that name in its organisation if
// that is what If says, and else returns [haft.CodeConflict]. That one keeps its id
// and the time of its creation. It returns what is kept.
func (s Agents) PutAgent(ctx context.Context, a haft.Agent) (*haft.Agent, error) {
	if a.ID == "" {
		a.ID = haft.AgentID(newID("agent_"))
	}
	return agents.put(ctx, s.db, a, nil)
}

// OwnSecrets is what becomes of the secrets of an agent or of an MCP server when it
// is written.
type OwnSecrets struct {
	// Kind is that of its scope, whose id is its own.
	Kind keeper.Kind
	// Put are written, each over its revision, and those named in Keep stay. All
	// others go.
	Put  []keeper.Row
	Keep []string
	// Drop are the kinds of scopes below its own, ID/…, whose secrets all go. It is for
	// servers only.
	Drop []string
}

// PutAgentEnv is [Agents.PutAgent] with the secrets of the agent, in one transaction:
// both are written or neither. An agent of that name with another id is a
// [haft.CodeConflict] too.
func (s Agents) PutAgentEnv(ctx context.Context, a haft.Agent, env OwnSecrets) (*haft.Agent, error) {
	if a.ID == "" || env.Kind == "" {
		return nil, invalid("an agent that has secrets has an id, and their scope a kind")
	}
	also, err := env.write(a.Org, string(a.ID), "agent")
	if err != nil {
		return nil, err
	}
	return agents.put(ctx, s.db, a, also)
}

// write returns what writes the secrets of what has that id, and removes those that it has
// no more. It refuses secrets of something else.
func (o OwnSecrets) write(org, id, what string) (func(ctx context.Context, t *tx, id string) error, error) {
	scope := keeper.Scope{Org: org, Kind: o.Kind, ID: id}
	for _, v := range o.Put {
		if v.Scope != scope {
			return nil, invalid("the secret belongs to something else")
		}
		if err := checkSecret(v); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, t *tx, kept string) error {
		if kept != id {
			return conflict("somebody else made this " + what + " at the same time; try again")
		}
		return t.putOwn(ctx, scope, o)
	}, nil
}

// putOwn writes the secrets of a scope, and removes those that it has no more.
func (t *tx) putOwn(ctx context.Context, scope keeper.Scope, own OwnSecrets) error {
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
	names, err := list(ctx, t, "list secrets", scalar[string], unlogged("SELECT name FROM secrets"+inScope),
		scopeArgs(scope)...)
	if err != nil {
		return err
	}
	changed := int64(len(own.Put))
	for _, name := range names {
		if stay[name] {
			continue
		}
		n, err := t.exec(ctx, "DELETE FROM secrets"+inScope+" AND name = $4", scopeArgs(scope, name)...)
		if err != nil {
			return err
		}
		changed += n
	}
	dropped, err := t.dropSecrets(ctx, scope.Org, scope.ID, own.Drop)
	if err != nil || changed+dropped == 0 {
		return err
	}
	return t.markSecrets(ctx, scope.Org)
}

// Agent returns the agent of that id or name, or [haft.CodeNotFound].
func (s Agents) Agent(ctx context.Context, org, ref string) (*haft.Agent, error) {
	return agents.byRef(ctx, s.db, org, ref)
}

// Agents lists the agents of an organisation by name, after that name.
func (s Agents) Agents(ctx context.Context, org, after string, limit int) ([]haft.Agent, error) {
	return agents.list(ctx, s.db, org, after, limit)
}

// RemoveAgent removes the agent of that id or name, or returns
// [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition. Its blocks are detached, and its memory is marked: nothing is added to it or taken from
// it any more, and package memorystore removes its rows, which can be too many for one transaction.
func (s Agents) RemoveAgent(ctx context.Context, org, ref, condition string) error {
	a, err := s.Agent(ctx, org, ref)
	if err != nil {
		return err
	}
	return s.db.write(ctx, "remove the agent", func(ctx context.Context, t *tx) error {
		if err := agents.remove(ctx, t, org, string(a.ID), condition); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO memories (agent, org, seq, passages, removed) VALUES ($1, $2, 0, 0, 1) "+
			"ON CONFLICT (agent) DO UPDATE SET removed = 1", string(a.ID), column(org)); err != nil {
			return err
		}
		_, err := t.exec(ctx, "DELETE FROM agent_blocks WHERE agent = $1", string(a.ID))
		return err
	})
}

// AgentsWithEnv lists agents of all organisations that have variables in their
// own row, by id, after that id. Where secrets are encrypted there are none.
func (s Agents) AgentsWithEnv(ctx context.Context, after haft.AgentID, limit int) ([]haft.Agent, error) {
	return list(ctx, s.db, "list agents with variables", doc[haft.Agent],
		unlogged(`SELECT doc FROM agents WHERE id > $1 AND doc LIKE '%"env":{"%' ORDER BY id LIMIT $2`),
		column(string(after)), page(limit))
}

// DropAgentEnv removes the variables of a from its row, if they are still those.
// It reports whether they were.
func (s Agents) DropAgentEnv(ctx context.Context, a haft.Agent) (dropped bool, err error) {
	err = s.db.write(ctx, "take the variables out of an agent's row", func(ctx context.Context, t *tx) error {
		dropped = false
		now, err := first(ctx, t, "find the agent", doc[haft.Agent],
			unlogged("SELECT doc FROM agents WHERE id = $1"+s.db.dialect.ForUpdate), string(a.ID))
		if err != nil || now == nil || len(now.Env) == 0 || !maps.Equal(now.Env, a.Env) {
			return err
		}
		now.Env = nil
		doc, err := stored.Encode(now)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, "UPDATE agents SET doc = $1 WHERE id = $2", doc, string(a.ID))
		dropped = n > 0
		return err
	})
	return dropped, err
}
