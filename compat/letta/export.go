package letta

import (
	"context"
	"fmt"
	"slices"
	"time"

	"haft"
)

// exportAgent writes an agent with its tools and blocks as a file that importAgent reads. Messages, variables and
// passages are left out.
func (h agentHandlers) exportAgent(ctx context.Context, q *request, a haft.Agent) (any, error) {
	old, err := boolParam(q.URL.Query(), "use_legacy_format")
	if err != nil {
		return nil, err
	}
	if old {
		return nil, notHere("query use_legacy_format: only the form from Letta 0.8 on is written")
	}
	if err := q.who.Permit(haft.ToolsRead); err != nil { // the file has their sources
		return nil, err
	}
	blocks, err := h.blocks.ofAgent(ctx, q.who.Principal, a)
	if err != nil {
		return nil, err
	}
	blockIDs, toolIDs, tools := []string{}, []string{}, []wireTool{}
	for i := range blocks {
		blocks[i].ID = haft.BlockID(fmt.Sprint("block-", i))
		blockIDs = append(blockIDs, string(blocks[i].ID))
	}
	known := map[string]*wireTool{}
	for _, name := range slices.Clone(a.Tools) {
		t, err := h.cachedTool(ctx, q.who.Principal, name, known)
		if err != nil {
			return nil, err
		}
		if t == nil {
			removeTool(&a, name) // and the rules about it, which no import takes
			continue
		}
		t.ID = fmt.Sprint("tool-", len(tools))
		toolIDs, tools = append(toolIDs, t.ID), append(tools, *t)
	}
	state, err := h.showAgentState(ctx, q.who.Principal, a, known)
	if err != nil {
		return nil, err
	}
	none := []any{}
	delete(state.Metadata, ownKey)
	agent := map[string]any{
		"id": "agent-0", "name": state.Name, "description": state.Description, "system": state.System,
		"agent_type": state.AgentType, "model": state.Model, "llm_config": state.LLM,
		"embedding_config": state.Embedding, "tags": state.Tags, "tool_rules": append([]haft.ToolRule{}, a.Rules...),
		"metadata": state.Metadata, "project_id": state.Project, "template_id": state.Template,
		"base_template_id": state.BaseTemplate, "timezone": state.Timezone, "tool_ids": toolIDs, "block_ids": blockIDs,
		"messages": none, "in_context_message_ids": none, "files_agents": none, "group_ids": none,
	}
	return map[string]any{
		"agents": []any{agent}, "blocks": blocks, "tools": tools, "groups": none, "files": none, "sources": none,
		"mcp_servers": none, "skills": none, "metadata": map[string]any{}, "created_at": time.Now().UTC(),
	}, nil
}
