package letta

import (
	"context"
	"maps"
	"slices"

	"haft"
)

// oldServers lists the servers by name, as clients before 1.0 want it.
func (h serverHandlers) oldServers(ctx context.Context, q *request) (any, error) {
	list := map[string]wireServer{}
	for s, err := range h.servers.MCPServerList(ctx, q.who.Principal) {
		if err != nil {
			return nil, err
		}
		list[s.Name] = showServer(s, true)
	}
	return list, nil
}

// oldPutServer adds a server and lists all.
func (h serverHandlers) oldPutServer(ctx context.Context, q *request) (any, error) {
	var w wireServer
	if err := q.lenient(&w); err != nil {
		return nil, err
	}
	if _, err := h.putServer(ctx, q, w, false); err != nil {
		return nil, err
	}
	return h.oldList(ctx, q)
}

// oldList lists the servers as clients before 1.0 get them after a change.
func (h serverHandlers) oldList(ctx context.Context, q *request) (any, error) {
	all, err := h.oldServers(ctx, q)
	if err != nil {
		return nil, err
	}
	byName := all.(map[string]wireServer)
	list := []wireServer{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list, nil
}

func (h serverHandlers) oldUpdateServer(ctx context.Context, q *request) (any, error) {
	var w wireServer
	if err := q.lenient(&w); err != nil {
		return nil, err
	}
	w.Name = ""
	return h.mergeServer(ctx, q, w, true)
}

func (h serverHandlers) oldDeleteServer(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	if _, err := h.deleteServer(ctx, q, s); err != nil {
		return nil, err
	}
	return h.oldList(ctx, q)
}

// oldServerTools lists the tools of a server as the server lists them.
func (h serverHandlers) oldServerTools(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	list, err := h.toolsOf(ctx, q.who.Principal, s)
	if err != nil {
		return nil, err
	}
	tools := []map[string]any{}
	for _, t := range list {
		reasons := []string{}
		for _, r := range t.Version.Health.Reasons {
			reasons = append(reasons, r.String())
		}
		tools = append(tools, map[string]any{
			"name": t.Version.Function, "description": t.Version.Description, "inputSchema": t.Version.Parameters,
			"outputSchema": t.Version.Returns,
			"health":       map[string]any{"status": t.Version.Health.Status, "reasons": reasons},
		})
	}
	return tools, nil
}

// oldExecute calls a tool of a server by the server's name for it.
func (h serverHandlers) oldExecute(ctx context.Context, q *request) (any, error) {
	res, t, err := h.callServerTool(ctx, q)
	if err != nil {
		return nil, err
	}
	x := toExecution(t.Name, res)
	if x.Status != "success" {
		return map[string]any{"result": failureText(t.Name, res), "success": false}, nil
	}
	return map[string]any{"result": contentOf(x.Return), "success": true}, nil
}
