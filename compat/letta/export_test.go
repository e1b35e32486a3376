package letta

import (
	"context"
	"encoding/json"

	"haft"
	"haft/internal/lettavalue"
)

// ToolID is toolID.
func ToolID(id haft.ToolID) string { return toolID(id) }

// ReadToolID is readID of a tool.
func ReadToolID(s string) (string, bool, error) { return readID(toolWord, toolPrefix, s) }

// PythonText is [lettavalue.Text].
func PythonText(s string) string { return lettavalue.Text([]byte(s)) }

// Flow returns what events show, if nobody can read what a turn waits for.
func Flow(ctx context.Context, tokens bool, events ...haft.TurnEvent) []byte {
	f := &flow{tokens: tokens, shown: map[string]bool{}, answered: map[string]bool{},
		waits: func(context.Context, haft.Turn) map[haft.CallID]bool { return nil }}
	all := []wireMessage{}
	for _, e := range events {
		all = append(all, f.take(ctx, e)...)
	}
	text, _ := json.Marshal(all) // texts and numbers can be written
	return text
}

// ReadAgentFile reads a file and returns how many tools and blocks its agent has.
func ReadAgentFile(raw []byte) (tools, blocks int, err error) {
	f, err := readFile(raw)
	if err != nil {
		return 0, 0, err
	}
	b, err := f.agent(nil)
	if err != nil {
		return 0, 0, err
	}
	return len(f.Tools), len(b.Blocks), nil
}

// AbsentNames are the names of what is not here.
func AbsentNames() (names []string) {
	for _, part := range absentParts() {
		names = append(names, part.name)
	}
	return names
}
