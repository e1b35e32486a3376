// Package memory lets principals read and change what agents remember: it implements [haft.Memory],
// [haft.BlockSharer] and [haft.Archive] over package memorystore.
//
// Memory belongs to the organisation, as agents do: whoever may read agents reads it, and managers change it. An agent
// as principal reads its own memory and no other, and changes nothing here: it does so with tools, which get [Tools].
// Every change is in the audit, with the size of a text in characters and without the text.
package memory

import (
	"context"
	"unicode/utf8"

	"haft"
	"haft/internal/authority"
	"haft/internal/memorystore"
)

// Agents finds agents by id or name.
type Agents interface {
	Agent(ctx context.Context, org, ref string) (*haft.Agent, error)
}

// An API is what principals can do with memory. All fields are needed.
type API struct {
	Store  *memorystore.Store
	Agents Agents
	Rules  authority.Rules
	// Log writes to the audit what was done.
	Log func(ctx context.Context, p haft.Principal, kind string, body any) error
}

var (
	_ haft.Memory      = (*API)(nil)
	_ haft.BlockSharer = (*API)(nil)
	_ haft.Archive     = (*API)(nil)
)

// own returns the id of the agent that p is, or "" if p is none. It reports why p may not read.
func (a *API) own(ctx context.Context, p haft.Principal) (haft.AgentID, error) {
	if err := a.Rules.May(p, haft.AgentsRead); err != nil || p.Agent == "" {
		return "", err
	}
	self, err := agentOf(ctx, a.Agents, p)
	if err != nil {
		return "", err
	}
	return self.ID, nil
}

// readable returns the agent of that id or name, if p may read its memory.
func (a *API) readable(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	self, err := a.own(ctx, p)
	if err != nil {
		return nil, err
	}
	agent, err := a.Agents.Agent(ctx, p.Org, ref)
	if err == nil && self != "" && agent.ID != self {
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such agent"}
	}
	if err != nil {
		return nil, err
	}
	return agent, nil
}

// managed returns the agent of that id or name, if p may change its memory.
func (a *API) managed(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	if err := a.Rules.May(p, haft.AgentsWrite); err != nil {
		return nil, err
	}
	return a.Agents.Agent(ctx, p.Org, ref)
}

func denied(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }

// log writes to the audit what was done to a block.
func (a *API) log(ctx context.Context, p haft.Principal, kind string, b *haft.Block) error {
	return a.Log(ctx, p, kind, map[string]any{"block": b.ID, "label": b.Label, "version": b.Version,
		"size": utf8.RuneCountInString(b.Value), "limit": b.Limit, "read_only": b.ReadOnly})
}

// AddBlock implements [haft.Memory].
func (a *API) AddBlock(ctx context.Context, p haft.Principal, b haft.Block) (*haft.Block, error) {
	if err := a.Rules.May(p, haft.AgentsWrite); err != nil {
		return nil, err
	}
	b.Org = p.Org
	added, err := a.Store.AddBlock(ctx, b)
	if err != nil {
		return nil, err
	}
	return added, a.log(ctx, p, "block.add", added)
}

// Block implements [haft.Memory].
func (a *API) Block(ctx context.Context, p haft.Principal, id haft.BlockID) (*haft.Block, error) {
	self, err := a.own(ctx, p)
	if err != nil {
		return nil, err
	}
	b, err := a.Store.Block(ctx, p.Org, id)
	if err != nil || self == "" {
		return b, err
	}
	has, err := a.Store.Blocks(ctx, p.Org, haft.BlockFilter{Agent: string(self), Label: b.Label, Limit: 1})
	if err == nil && (len(has) == 0 || has[0].ID != id) {
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such block"}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Blocks implements [haft.Memory].
func (a *API) Blocks(ctx context.Context, p haft.Principal, f haft.BlockFilter) ([]haft.Block, error) {
	if f.Agent == "" {
		f.Agent = p.Agent
	}
	if f.Agent == "" {
		if err := a.Rules.May(p, haft.AgentsRead); err != nil {
			return nil, err
		}
	} else {
		agent, err := a.readable(ctx, p, f.Agent)
		if err != nil {
			return nil, err
		}
		f.Agent = string(agent.ID)
	}
	return a.Store.Blocks(ctx, p.Org, f)
}

// ChangeBlock implements [haft.Memory].
func (a *API) ChangeBlock(ctx context.Context, p haft.Principal, id haft.BlockID,
	c haft.BlockChange) (*haft.Block, error) {
	if err := a.Rules.May(p, haft.AgentsWrite); err != nil {
		return nil, err
	}
	b, err := a.Store.ChangeBlock(ctx, p.Org, id, c)
	if err != nil {
		return nil, err
	}
	return b, a.log(ctx, p, "block.change", b)
}

// manage has do change a block, if p is a manager, and writes to the audit that it did.
func (a *API) manage(ctx context.Context, p haft.Principal, id haft.BlockID, kind, ref string,
	do func(haft.AgentID) error) error {
	if err := a.Rules.May(p, haft.AgentsWrite); err != nil {
		return err
	}
	b, err := a.Store.Block(ctx, p.Org, id)
	if err != nil {
		return err
	}
	agent := &haft.Agent{}
	if ref != "" {
		if agent, err = a.Agents.Agent(ctx, p.Org, ref); err != nil {
			return err
		}
	}
	if err := do(agent.ID); err != nil {
		return err
	}
	return a.Log(ctx, p, kind, map[string]any{"block": b.ID, "label": b.Label, "agent": agent.ID})
}

// RemoveBlock implements [haft.Memory].
func (a *API) RemoveBlock(ctx context.Context, p haft.Principal, id haft.BlockID) error {
	return a.manage(ctx, p, id, "block.remove", "",
		func(haft.AgentID) error { return a.Store.RemoveBlock(ctx, p.Org, id) })
}

// AttachBlock implements [haft.BlockSharer].
func (a *API) AttachBlock(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error {
	return a.manage(ctx, p, id, "block.attach", agent,
		func(agent haft.AgentID) error { return a.Store.AttachBlock(ctx, p.Org, agent, id) })
}

// DetachBlock implements [haft.BlockSharer].
func (a *API) DetachBlock(ctx context.Context, p haft.Principal, agent string, id haft.BlockID) error {
	return a.manage(ctx, p, id, "block.detach", agent,
		func(agent haft.AgentID) error { return a.Store.DetachBlock(ctx, p.Org, agent, id) })
}

// BlockAgents implements [haft.BlockSharer]. It is not for agents: one does not learn with whom it shares a block.
func (a *API) BlockAgents(ctx context.Context, p haft.Principal, id haft.BlockID) ([]haft.AgentID, error) {
	if err := a.Rules.May(p, haft.AgentsRead); err != nil {
		return nil, err
	}
	if p.Agent != "" {
		return nil, denied("an agent does not see which agents have a block")
	}
	if _, err := a.Store.Block(ctx, p.Org, id); err != nil {
		return nil, err
	}
	return a.Store.BlockAgents(ctx, p.Org, id)
}

// AddPassage implements [haft.Archive].
func (a *API) AddPassage(ctx context.Context, p haft.Principal, ref string, text string,
	tags []string) (*haft.Passage, error) {
	agent, err := a.managed(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	added, err := a.Store.AddPassage(ctx, p.Org, "", agent.ID, text, tags)
	if err != nil {
		return nil, err
	}
	return added, a.Log(ctx, p, "passage.add", map[string]any{"agent": agent.ID, "passage": added.ID,
		"size": utf8.RuneCountInString(text), "tags": len(added.Tags)})
}

// Passages implements [haft.Archive].
func (a *API) Passages(ctx context.Context, p haft.Principal, ref string,
	f haft.PassageFilter) ([]haft.Passage, error) {
	agent, err := a.readable(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	return a.Store.Passages(ctx, p.Org, agent.ID, f)
}

// RemovePassage implements [haft.Archive].
func (a *API) RemovePassage(ctx context.Context, p haft.Principal, ref string, id haft.PassageID) error {
	agent, err := a.managed(ctx, p, ref)
	if err != nil {
		return err
	}
	if err := a.Store.RemovePassage(ctx, p.Org, agent.ID, id); err != nil {
		return err
	}
	return a.Log(ctx, p, "passage.remove", map[string]any{"agent": agent.ID, "passage": id})
}

// PassageTags implements [haft.Archive].
func (a *API) PassageTags(ctx context.Context, p haft.Principal, ref string) ([]string, error) {
	agent, err := a.readable(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	return a.Store.PassageTags(ctx, p.Org, agent.ID)
}
