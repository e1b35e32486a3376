package agents

import (
	"context"
	"fmt"

	"haft"
	"haft/internal/conversation"
	"haft/internal/memory"
	"haft/internal/memorystore"
)

// Tools reads tools in the version that calls run now.
type Tools interface {
	Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error)
}

// profiles put together what the model of an agent gets: instructions, memory and tools, as they are now.
type profiles struct {
	Finder
	rows   memory.Agents
	blocks *memorystore.Store
	tools  Tools
}

// Profile implements [conversation.Agents]. Tools that are disabled, unavailable or not there any more are left out.
// The profile is for the agent, which may do less than read its tools: it is shown to the model only.
func (a profiles) Profile(ctx context.Context, p haft.Principal, id haft.AgentID) (*conversation.Profile, error) {
	agent, err := a.rows.Agent(ctx, p.Org, string(id))
	if err != nil {
		return nil, err
	}
	blocks, err := memorystore.AllBlocks(ctx, a.blocks, p.Org, id)
	if err != nil {
		return nil, fmt.Errorf("read the memory of the agent: %w", err)
	}
	prof := &conversation.Profile{Agent: *agent, Instructions: agent.Instructions, Model: agent.Model, Blocks: blocks}
	for _, name := range agent.Tools {
		t, err := a.tools.Tool(ctx, p, name)
		if haft.CodeOf(err) == haft.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the tools of the agent: %w", err)
		}
		if !t.Disabled && t.Unavailable == "" {
			prof.Tools = append(prof.Tools, *t)
		}
	}
	return prof, nil
}
