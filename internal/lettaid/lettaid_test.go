package lettaid_test

import (
	"maps"
	"testing"

	"haft/internal/lettaid"
)

// TestAddEnv: a caller cannot say for which agent a call is.
func TestAddEnv(t *testing.T) {
	const tool, agent = "tool.AAAAAAAAAAAAAAAAAAAAAAAA", "ag_AAAAAAAAAAAAAAAAAAAAAAAB"
	id := lettaid.Tool(tool)
	for _, c := range []struct{ env, want map[string]string }{
		{map[string]string{"HAFT_TOOL_ID": tool, "LETTA_AGENT_ID": "agent-of-another", "LETTA_TOOL_ID": "other"},
			map[string]string{"HAFT_TOOL_ID": tool, "LETTA_TOOL_ID": id}},
		{map[string]string{"HAFT_TOOL_ID": tool, "HAFT_AGENT_ID": agent, "LETTA_AGENT_ID": "agent-of-another"},
			map[string]string{"HAFT_TOOL_ID": tool, "HAFT_AGENT_ID": agent, "LETTA_TOOL_ID": id,
				"LETTA_AGENT_ID": lettaid.Agent(agent)}},
	} {
		if lettaid.AddEnv(c.env); !maps.Equal(c.env, c.want) {
			t.Errorf("got %v, want %v", c.env, c.want)
		}
	}
}
