// Package profile puts together what the model of an agent gets: instructions, memory and tools, as they are now.
package profile

import (
	"context"
	"fmt"

	"haft"
	"haft/internal/conversation"
)

// A Finder finds agents for those who may see them.
type Finder interface {
	Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error)
}

// Rows reads agents, for the agent itself.
type Rows interface {
	Agent(ctx context.Context, org, ref string) (*haft.Agent, error)
}

// Blocks reads the memory of agents.
type Blocks interface {
	Blocks(ctx context.Context, org string, f haft.BlockFilter) ([]haft.Block, error)
}

// Tools reads tools in the version that calls run now.
type Tools interface {
	Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error)
}

// Agents implements [conversation.Agents].
type Agents struct {
	Finder
	Rows   Rows
	Blocks Blocks
	Tools  Tools
}

var _ conversation.Agents = Agents{}

// Profile implements [conversation.Agents]. Tools that are disabled or not there any more are left out. The profile is
// for the agent, which may do less than read its tools: it is shown to the model only.
func (a Agents) Profile(ctx context.Context, p haft.Principal, id haft.AgentID) (*conversation.Profile, error) {
	agent, err := a.Rows.Agent(ctx, p.Org, string(id))
	if err != nil {
		return nil, err
	}
	blocks, err := a.blocks(ctx, p.Org, id)
	if err != nil {
		return nil, fmt.Errorf("read the memory of the agent: %w", err)
	}
	prof := &conversation.Profile{Agent: *agent, Instructions: agent.Instructions, Model: agent.Model, Blocks: blocks}
	for _, name := range agent.Tools {
		t, err := a.Tools.Tool(ctx, p, name)
		if haft.CodeOf(err) == haft.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the tools of the agent: %w", err)
		}
		if !t.Disabled {
			prof.Tools = append(prof.Tools, *t)
		}
	}
	return prof, nil
}

// blocks reads all blocks of an agent, which come a page at a time.
func (a Agents) blocks(ctx context.Context, org string, id haft.AgentID) ([]haft.Block, error) {
	var all []haft.Block
	for f := (haft.BlockFilter{Agent: string(id)}); ; f.After = all[len(all)-1].ID {
		list, err := a.Blocks.Blocks(ctx, org, f)
		if err != nil || len(list) == 0 {
			return all, err
		}
		all = append(all, list...)
	}
}
