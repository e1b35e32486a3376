package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"haft"
	"haft/executor"
	"haft/schema"
)

// WithToolsName is the name of the tool of [RunCodeWithTools].
const WithToolsName = "run_code_with_tools"

// Bounds on the descriptions of tools that code gets.
const (
	maxToolsForCode = 1000
	maxToolText     = 200 // bytes of a description
)

// RunCodeWithTools adds the tool run_code_with_tools: [RunCode] whose code may call
// the other tools of its caller, as functions. It asks for them over the
// descriptor of the answer, so that no network is needed. Each is a call of
// its own and a child of this one.
func RunCodeWithTools(s *Set, run executor.Executor, cfg CodeConfig) error {
	r := codeRunner{run: run, cfg: cfg, tools: true}
	no := false
	return AddRaw[codeIn, codeOut](s, Def{
		Name: WithToolsName, Version: "1", Category: "code", RunsCode: true,
		Tags: []string{"code", "python", "javascript", "typescript"},
		Description: "Runs a program in a sandbox that can call your other tools as functions, so that many calls, " +
			"loops and large intermediate results need no turn of yours. " +
			"Python: value = tool_name(argument=value), or tools[\"tool-name\"](argument=value); a call without a " +
			"value raises ToolError with kind, retry and call_id. " +
			"JavaScript, TypeScript: await tool_name({argument: value}), or tools[\"tool-name\"]({…}). " +
			"Values are data, as the tool's schema says. Each call is checked, limited and recorded like one of " +
			"yours. " +
			"What it prints comes back, the value of its last expression too, and the files that it leaves in the " +
			"directory out.",
		Enums:       map[string][]string{"language": {"python", "javascript", "typescript"}},
		Defaults:    map[string]string{"language": "python"},
		Annotations: haft.Annotations{Title: "Run code that calls tools", ReadOnly: &no},
		Settings:    haft.Settings{Parallel: true, Output: haft.Output{MaxChars: 2 * haft.DefaultMaxChars}},
	}, r.tool)
}

// A toolForCode describes a tool to the code.
type toolForCode struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Parameters  []string `json:"parameters"`
}

// toolsForCode lists the tools that the code may call.
func toolsForCode(ctx context.Context, others executor.Others) ([]toolForCode, error) {
	list := []toolForCode{}
	for t, err := range others.Tools(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list the tools that the code may call: %w", err)
		}
		if len(list) == maxToolsForCode {
			break
		}
		if t.Unavailable != "" {
			continue
		}
		list = append(list, toolForCode{t.Name, executor.Shorten(t.Version.Description, maxToolText),
			parameterNames(t.Version.Parameters)})
	}
	return list, nil
}

// parameterNames are the properties of a schema, in order: what a call without names
// gives them by.
func parameterNames(raw json.RawMessage) []string {
	names := []string{}
	if v, err := schema.Decode(raw); err == nil {
		if o, ok := v.(*schema.Object); ok && o.Object("properties") != nil {
			names = append(names, o.Object("properties").Keys()...)
		}
	}
	return names
}
