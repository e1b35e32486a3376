package memory

import (
	"context"

	"haft"
	"haft/internal/memorystore"
)

// Tools are what the built-in tools of package agenttool work on. They act on the memory of the agent of a call, and on
// what its own user said to it. They ask for no scope: policy, tool rules and approvals have decided the call, and the
// audit has it.
type Tools struct {
	Store  *memorystore.Store
	Agents Agents
}

// EditBlock has edit make the next value of the block that the agent calls label, while nobody else changes it. edit
// may be called more than once.
func (t Tools) EditBlock(ctx context.Context, p haft.Principal, label string,
	edit func(haft.Block) (string, error)) error {
	self, err := agentOf(ctx, t.Agents, p)
	if err != nil {
		return err
	}
	_, err = t.Store.EditBlock(ctx, p.Org, self.ID, label, edit)
	return err
}

// AddPassage adds to the archive of the agent what is erased with the user of the call.
func (t Tools) AddPassage(ctx context.Context, p haft.Principal, text string, tags []string) (*haft.Passage, error) {
	self, err := agentOf(ctx, t.Agents, p)
	if err != nil {
		return nil, err
	}
	return t.Store.AddPassage(ctx, p.Org, p.Owner(), self.ID, text, tags)
}

// Passages searches the archive of the agent.
func (t Tools) Passages(ctx context.Context, p haft.Principal, f haft.PassageFilter) ([]haft.Passage, error) {
	self, err := agentOf(ctx, t.Agents, p)
	if err != nil {
		return nil, err
	}
	return t.Store.Passages(ctx, p.Org, self.ID, f)
}

// Messages searches what the user of the call and the agent said to each other.
func (t Tools) Messages(ctx context.Context, p haft.Principal, f haft.MessageFilter) ([]haft.Message, error) {
	self, err := agentOf(ctx, t.Agents, p)
	if err != nil {
		return nil, err
	}
	if p.Owner() == "" {
		return nil, denied("a call of nobody has no conversation")
	}
	return t.Store.Messages(ctx, p.Org, p.Owner(), self.ID, f)
}

// agentOf returns the agent that p is.
func agentOf(ctx context.Context, agents Agents, p haft.Principal) (*haft.Agent, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Agent == "" {
		return nil, denied("only an agent has memory")
	}
	self, err := agents.Agent(ctx, p.Org, p.Agent)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return nil, denied("there is no such agent in this organisation")
	case err != nil:
		return nil, err
	case self.Disabled:
		return nil, denied("the agent is disabled")
	}
	return self, nil
}
