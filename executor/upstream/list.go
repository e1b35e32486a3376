package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
)

// The bounds on a list of tools. The registry has its own bounds on what it stores.
const (
	maxToolBytes = 1 << 20
	maxListBytes = 16 << 20
	maxCursor    = 64 << 10
)

// tooLong refuses a list that exceeds a bound. None of it is used, so that nobody
// mistakes a part for the whole.
func tooLong(most int, what string) error {
	return &Failed{Fault: FaultProtocol, Message: fmt.Sprintf("the server lists more than %d %s: the list is not taken",
		most, what)}
}

// listTools reads all pages of a server's list of tools.
func listTools(ctx context.Context, s *mcp.ClientSession, cfg Config) (*haft.MCPListing, error) {
	l := &haft.MCPListing{Tools: []haft.MCPTool{}}
	if init := s.InitializeResult(); init != nil {
		l.Protocol = init.ProtocolVersion
		if init.ServerInfo != nil {
			l.Title = strings.TrimSpace(cut(cmp.Or(init.ServerInfo.Title, init.ServerInfo.Name), 100) + " " +
				cut(init.ServerInfo.Version, 40))
		}
		if init.Capabilities != nil && init.Capabilities.Tools == nil {
			return l, nil
		}
	}
	seen, cursors := map[string]bool{}, map[string]bool{}
	total, cursor := 0, ""
	for range cfg.MaxPages {
		page, err := s.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if t == nil {
				continue
			}
			tool, size, why := convert(t)
			switch {
			case len(l.Tools) >= cfg.MaxTools:
				return nil, tooLong(cfg.MaxTools, "tools")
			case total+size > maxListBytes:
				return nil, tooLong(maxListBytes, "bytes")
			case why == "" && seen[t.Name]:
				why = "the server lists two tools of that name; the first one counts"
			}
			if why != "" {
				if len(l.Problems) >= cfg.MaxTools {
					return nil, tooLong(cfg.MaxTools, "tools")
				}
				l.Problems = append(l.Problems, haft.MCPProblem{Tool: cut(t.Name, 128), Reasons: []string{why}})
				continue
			}
			seen[t.Name], total = true, total+size
			l.Tools = append(l.Tools, tool)
		}
		if page.NextCursor == "" {
			return l, nil
		}
		if cursor = page.NextCursor; cursors[cursor] || len(cursor) > maxCursor {
			l.Problems = append(l.Problems,
				haft.MCPProblem{Reasons: []string{"the pages of the list lead in a circle"}})
			return l, nil
		}
		cursors[cursor] = true
	}
	return nil, tooLong(cfg.MaxPages, "pages")
}

// convert converts a tool of the SDK, or says why it cannot.
func convert(t *mcp.Tool) (tool haft.MCPTool, size int, why string) {
	tool = haft.MCPTool{Name: t.Name, Description: t.Description}
	if t.Name == "" || len(t.Name) > 512 {
		return tool, 0, "it has no name, or one that is too long"
	}
	var err error
	if tool.Input, err = executor.EncodeJSON(t.InputSchema); err != nil || t.InputSchema == nil {
		return tool, 0, "it has no schema for its arguments"
	}
	if t.OutputSchema != nil {
		if tool.Output, err = executor.EncodeJSON(t.OutputSchema); err != nil {
			return tool, 0, "the schema of its value cannot be read"
		}
	}
	if a := t.Annotations; a != nil {
		yes := true
		tool.Annotations = haft.Annotations{Title: a.Title, Destructive: a.DestructiveHint, OpenWorld: a.OpenWorldHint}
		if a.ReadOnlyHint {
			tool.Annotations.ReadOnly = &yes
		}
		if a.IdempotentHint {
			tool.Annotations.Idempotent = &yes
		}
	}
	tool.Annotations.Title = cut(cmp.Or(tool.Annotations.Title, t.Title), 200)
	if size = len(t.Name) + len(t.Description) + len(tool.Input) + len(tool.Output); size > maxToolBytes {
		return tool, 0, fmt.Sprintf("it is described in more than %d bytes", maxToolBytes)
	}
	if !json.Valid(tool.Input) {
		return tool, 0, "the schema of its arguments cannot be read"
	}
	return tool, size, ""
}

// cut shortens a text to at most so many bytes, at the end of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
