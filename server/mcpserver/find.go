package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// The two tools that stand for all others when there are many.
const (
	findName = "find_tools"
	callName = "call_tool"
)

// Bounds on what find_tools shows.
const (
	maxQuery   = 500
	findLimit  = 10
	maxFound   = 50
	maxFindOut = 64 << 10 // bytes
	maxGroups  = 100
)

// findTool describes find_tools.
func findTool() *mcp.Tool {
	no := false
	return &mcp.Tool{
		Name: findName, Title: "Find tools",
		Description: "Finds tools by words of their name, description, tags and category, and returns how they are " +
			"called. " +
			"Without a query it says which servers there are, how many tools each has and how many tokens all of " +
			"them would take. Call what you find with call_tool.",
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"query":{"type":"string","description":"what the tool is to do, in a few words","maxLength":500},` +
				`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"the most to return; 10 if left out"}},"additionalProperties":false}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no,
			OpenWorldHint: &no, Title: "Find tools"},
		OutputSchema: json.RawMessage(
			`{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"},` +
				`"inputSchema":{"type":"object"},"tokens":{"type":"integer"}},"required":["name","description","inputSchema","tokens"]}},` +
				`"servers":{"type":"array","items":{"type":"object","properties":{"server":{"type":"string"},"tools":{"type":"integer"},"tokens":{"type":"integer"}},"required":["server","tools","tokens"]}},` +
				`"more":{"type":"boolean"}},"required":["tools"]}`),
	}
}

// callToolTool describes call_tool.
func callToolTool() *mcp.Tool {
	return &mcp.Tool{
		Name: callName, Title: "Call a tool",
		Description: "Calls a tool that find_tools has found, with arguments that fit its inputSchema.",
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string","description":"the name of the tool"},` +
				`"arguments":{"type":"object","description":"its arguments"}},"required":["name"],"additionalProperties":false}`),
	}
}

// found is one tool that was found.
type found struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Tokens      int             `json:"tokens"`
}

// A Group is the tools of one server, and what listing all of them would take.
type Group struct {
	Server string `json:"server"`
	Tools  int    `json:"tools"`
	Tokens int    `json:"tokens"`
}

// findings is the value of find_tools.
type findings struct {
	Tools   []found `json:"tools"`
	Servers []Group `json:"servers,omitempty"`
	More    bool    `json:"more,omitempty"`
}

// find is find_tools.
func (v *view) find(ctx context.Context, args json.RawMessage) (*mcp.CallToolResult, error) {
	var in struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &in); err != nil || len(in.Query) > maxQuery || in.Limit < 0 ||
			in.Limit > maxFound {
			return failed("validation_error: query is a text of at most 500 bytes, and limit a number from 1 to 50"),
				nil
		}
	}
	out := findings{Tools: []found{}}
	if strings.TrimSpace(in.Query) == "" {
		groups, err := Groups(v.tools(ctx, ""))
		if err != nil {
			return nil, toRPCError(err)
		}
		out.Servers = groups
		return structured(out)
	}
	limit, size := cmp.Or(in.Limit, findLimit), 0
	search := haft.ToolFilter{Search: in.Query, Limit: 4 * maxFound} // some are not the caller's
	if len(v.who.Tags) == 1 {
		search.Tag = v.who.Tags[0]
	}
	for t, err := range v.visible(v.s.service.Tools(ctx, v.who.Principal, search)) {
		if err != nil {
			return nil, toRPCError(err)
		}
		f := found{Name: t.Name, Description: t.Version.Description, InputSchema: t.Version.Parameters,
			Tokens: Tokens(t)}
		size += len(f.Description) + len(f.InputSchema) + 100
		if len(out.Tools) == limit || len(out.Tools) > 0 && size > maxFindOut {
			out.More = true
			break
		}
		out.Tools = append(out.Tools, f)
	}
	return structured(out)
}

// Groups counts tools, and what listing them would take, by server: that of an
// upstream MCP server, or haft for all others. The largest comes first.
func Groups(tools func(yield func(haft.Tool, error) bool)) ([]Group, error) {
	by := map[string]*Group{}
	for t, err := range tools {
		if err != nil {
			return nil, err
		}
		name := serverOf(t)
		if by[name] == nil {
			by[name] = &Group{Server: name}
		}
		by[name].Tools++
		by[name].Tokens += Tokens(t)
	}
	all := make([]Group, 0, len(by))
	for _, g := range by {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Server, b.Server))
	})
	return all[:min(len(all), maxGroups)], nil
}

// serverOf is the server that a tool is of: that of an MCP server stands before
// [haft.MCPSeparator] in its name.
func serverOf(t haft.Tool) string {
	if server, _, ok := strings.Cut(t.Name, haft.MCPSeparator); ok && t.Version.Kind == haft.KindMCP {
		return server
	}
	return "haft"
}

// structured is a result that is data, and the same as text for clients that take
// nothing else.
func structured(out any) (*mcp.CallToolResult, error) {
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(raw)}},
		StructuredContent: json.RawMessage(raw),
	}, nil
}

// failed returns a result that reports an error.
func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: true}
}
