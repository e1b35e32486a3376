// Package memory lets principals read and change what agents remember: it implements [haft.Memory],
// [haft.BlockSharer] and [haft.Archive] over package memorystore.
//
// Memory belongs to the organisation, as agents do: whoever may read agents reads it, and managers change it. An agent
// as principal has its own memory and no other: it reads its blocks and its archive, changes the values of blocks that
// are not read-only, and adds and removes passages. The scope that it needs for changes is calls:write, which lets it
// do the same with tools. Every change is in the audit, with the size of a text in characters and without the text.
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

// own is for what an agent may do with its own memory: it returns the id of the agent that p is, or "" if p is none
// and may do the action.
func (a *API) own(ctx context.Context, p haft.Principal, action haft.Action) (haft.AgentID, error) {
	if p.Agent == "" {
		return "", a.Rules.May(p, action)
	}
	if action == haft.AgentsWrite {
		action = haft.CallsWrite
	}
	if err := a.Rules.May(p, action); err != nil {
		return "", err
	}
	self, err := a.Agents.Agent(ctx, p.Org, p.Agent)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return "", denied("there is no such agent in this organisation")
	case err != nil:
		return "", err
	case self.Disabled:
		return "", denied("the agent is disabled")
	}
	return self.ID, nil
}

// agent returns the agent of that id or name, if p may do an action to its memory.
func (a *API) agent(ctx context.Context, p haft.Principal, ref string, action haft.Action) (*haft.Agent, error) {
	self, err := a.own(ctx, p, action)
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
	b, _, err := a.block(ctx, p, id, haft.AgentsRead)
	return b, err
}

// block returns a block that p may do an action to, and the id of the agent that p is.
func (a *API) block(ctx context.Context, p haft.Principal, id haft.BlockID,
	action haft.Action) (*haft.Block, haft.AgentID, error) {
	self, err := a.own(ctx, p, action)
	if err != nil {
		return nil, "", err
	}
	b, err := a.Store.Block(ctx, p.Org, id)
	if err != nil || self == "" {
		return b, self, err
	}
	has, err := a.Store.Blocks(ctx, p.Org, haft.BlockFilter{Agent: string(self), Label: b.Label, Limit: 1})
	if err == nil && (len(has) == 0 || has[0].ID != id) {
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such block"}
	}
	if err != nil {
		return nil, "", err
	}
	return b, self, nil
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
		agent, err := a.agent(ctx, p, f.Agent, haft.AgentsRead)
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
	b, self, err := a.block(ctx, p, id, haft.AgentsWrite)
	if err != nil {
		return nil, err
	}
	if self == "" {
		b, err = a.Store.ChangeBlock(ctx, p.Org, id, c)
	} else {
		b, err = a.changeOwn(ctx, p.Org, self, b, c)
	}
	if err != nil {
		return nil, err
	}
	return b, a.log(ctx, p, "block.change", b)
}

// changeOwn changes the value of a block of an agent.
func (a *API) changeOwn(ctx context.Context, org string, self haft.AgentID, b *haft.Block,
	c haft.BlockChange) (*haft.Block, error) {
	if c.Value == nil || c.Label != nil || c.Description != nil || c.Limit != nil || c.ReadOnly != nil {
		return nil, denied("an agent changes the values of its blocks and nothing else of them")
	}
	return a.Store.EditBlock(ctx, org, self, b.Label, func(now haft.Block) (string, error) {
		if now.ID != b.ID || c.Version != 0 && c.Version != now.Version {
			return "", &haft.Error{Code: haft.CodeConflict,
				Message: "the block was changed by somebody else: read it again first"}
		}
		return *c.Value, nil
	})
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

// BlockAgents implements [haft.BlockSharer].
func (a *API) BlockAgents(ctx context.Context, p haft.Principal, id haft.BlockID) ([]haft.AgentID, error) {
	if _, _, err := a.block(ctx, p, id, haft.AgentsRead); err != nil {
		return nil, err
	}
	return a.Store.BlockAgents(ctx, p.Org, id)
}

// AddPassage implements [haft.Archive].
func (a *API) AddPassage(ctx context.Context, p haft.Principal, ref string, text string,
	tags []string) (*haft.Passage, error) {
	agent, err := a.agent(ctx, p, ref, haft.AgentsWrite)
	if err != nil {
		return nil, err
	}
	added, err := a.Store.AddPassage(ctx, p.Org, agent.ID, text, tags)
	if err != nil {
		return nil, err
	}
	return added, a.Log(ctx, p, "passage.add", map[string]any{"agent": agent.ID, "passage": added.ID,
		"size": utf8.RuneCountInString(text), "tags": len(added.Tags)})
}

// Passages implements [haft.Archive].
func (a *API) Passages(ctx context.Context, p haft.Principal, ref string,
	f haft.PassageFilter) ([]haft.Passage, error) {
	agent, err := a.agent(ctx, p, ref, haft.AgentsRead)
	if err != nil {
		return nil, err
	}
	return a.Store.Passages(ctx, p.Org, agent.ID, f)
}

// RemovePassage implements [haft.Archive].
func (a *API) RemovePassage(ctx context.Context, p haft.Principal, ref string, id haft.PassageID) error {
	agent, err := a.agent(ctx, p, ref, haft.AgentsWrite)
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
	agent, err := a.agent(ctx, p, ref, haft.AgentsRead)
	if err != nil {
		return nil, err
	}
	return a.Store.PassageTags(ctx, p.Org, agent.ID)
}
