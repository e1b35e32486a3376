package letta

import (
	"context"
	"maps"
	"slices"

	"haft"
)

// oldServers lists the servers by name, as clients before 1.0 want it.
func (d *API) oldServers(ctx context.Context, q *request) (any, error) {
	list := map[string]wireServer{}
	for s, err := range d.cfg.Servers.MCPServerList(ctx, q.who.Principal) {
		if err != nil {
			return nil, err
		}
		list[s.Name] = showServer(s, true)
	}
	return list, nil
}

// oldPutServer adds a server and lists all.
func (d *API) oldPutServer(ctx context.Context, q *request) (any, error) {
	var w wireServer
	if err := q.lenient(&w); err != nil {
		return nil, err
	}
	if _, err := d.putServer(ctx, q, w, false); err != nil {
		return nil, err
	}
	return d.oldList(ctx, q)
}

// oldList lists the servers as clients before 1.0 get them after a change.
func (d *API) oldList(ctx context.Context, q *request) (any, error) {
	all, err := d.oldServers(ctx, q)
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

func (d *API) oldUpdateServer(ctx context.Context, q *request) (any, error) {
	var w wireServer
	if err := q.lenient(&w); err != nil {
		return nil, err
	}
	w.Name = ""
	return d.mergeServer(ctx, q, w, true)
}

func (d *API) oldDeleteServer(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	if _, err := d.deleteServer(ctx, q, s); err != nil {
		return nil, err
	}
	return d.oldList(ctx, q)
}

// oldServerTools lists the tools of a server as the server lists them.
func (d *API) oldServerTools(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	list, err := d.toolsOf(ctx, q.who.Principal, s)
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
			"health": map[string]any{"status": t.Version.Health.Status, "reasons": reasons},
		})
	}
	return tools, nil
}

// oldExecute calls a tool of a server by the server's name for it.
func (d *API) oldExecute(ctx context.Context, q *request) (any, error) {
	res, t, err := d.callServerTool(ctx, q)
	if err != nil {
		return nil, err
	}
	x := toExecution(t.Name, res)
	if x.Status != "success" {
		return map[string]any{"result": failureText(t.Name, res), "success": false}, nil
	}
	return map[string]any{"result": x.Return, "success": true}, nil
}
