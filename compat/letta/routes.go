package letta

import (
	"context"
	"maps"

	"haft"
)

// A route is the action that a credential must allow, and the handler.
type route struct {
	action haft.Action
	answer handler
}

// A handler answers a request.
type handler func(ctx context.Context, q *request) (any, error)

// withBody reads the body for a handler.
func withBody[B any](answer func(ctx context.Context, q *request, b B) (any, error)) handler {
	return func(ctx context.Context, q *request) (any, error) {
		var b B
		if err := q.read(&b); err != nil {
			return nil, err
		}
		return answer(ctx, q, b)
	}
}

// withFound looks up what the path names for a handler.
func withFound[T any](find func(ctx context.Context, q *request) (*T, error),
	answer func(ctx context.Context, q *request, v T) (any, error)) handler {
	return func(ctx context.Context, q *request) (any, error) {
		v, err := find(ctx, q)
		if err != nil {
			return nil, err
		}
		return answer(ctx, q, *v)
	}
}

// requires returns routes that answer 501 if the server was not given what they need.
func requires(has bool, name string, routes map[string]route) map[string]route {
	if !has {
		for pattern, r := range routes {
			r.answer = func(context.Context, *request) (any, error) { return nil, missing(name) }
			routes[pattern] = r
		}
	}
	return routes
}

// routes returns all routes. Addresses are served with and without a slash at their end:
// Letta's have one where they name a collection, and not all clients send it.
func routes(service haft.Service, cfg Config) map[string]route {
	tools := toolHandlers{service, cfg.Derive, cfg.Settings}
	source := sourceHandlers{service, cfg.SourceTool, cfg.Derive}
	agents := agentHandlers{service, service, tools, blockHandlers{cfg.Memory, cfg.Sharer}, cfg.Agents,
		cfg.Models}
	onAgent := func(answer func(context.Context, *request, haft.Agent) (any, error)) handler {
		return withFound(agents.pathAgent, answer)
	}
	sandboxes := sandboxHandlers{cfg.Sandboxes}
	all := map[string]route{
		"GET /health": {haft.ToolsRead, health(cfg.Version)},

		"GET /tools":                  {haft.ToolsRead, tools.listTools},
		"POST /tools":                 {haft.ToolsWrite, withBody(tools.createTool)},
		"PUT /tools":                  {haft.ToolsWrite, withBody(tools.createTool)},
		"GET /tools/count":            {haft.ToolsRead, tools.countTools},
		"GET /tools/{tool}":           {haft.ToolsRead, withFound(tools.pathTool, tools.showTool)},
		"PATCH /tools/{tool}":         {haft.ToolsWrite, tools.updateTool},
		"DELETE /tools/{tool}":        {haft.ToolsWrite, withFound(tools.pathTool, tools.deleteTool)},
		"POST /tools/add-base-tools":  {haft.ToolsRead, tools.baseTools},
		"POST /tools/search":          {haft.ToolsRead, withBody(tools.searchTools)},
		"POST /tools/run":             {haft.CallsWrite, withBody(source.runSource)},
		"POST /tools/generate-schema": {haft.ToolsRead, withBody(source.generateSchema)},

		"GET /agents":                                 {haft.AgentsRead, agents.listAgents},
		"POST /agents":                                {haft.AgentsWrite, agents.createAgent},
		"GET /agents/count":                           {haft.AgentsRead, agents.countAgents},
		"GET /tags":                                   {haft.AgentsRead, agents.listTags},
		"POST /agents/import":                         {haft.AgentsWrite, agents.importAgent},
		"GET /agents/{agent}/export":                  {haft.AgentsRead, onAgent(agents.exportAgent)},
		"GET /agents/{agent}":                         {haft.AgentsRead, onAgent(agents.showAgent)},
		"PATCH /agents/{agent}":                       {haft.AgentsWrite, agents.updateAgent},
		"DELETE /agents/{agent}":                      {haft.AgentsWrite, onAgent(agents.deleteAgent)},
		"GET /agents/{agent}/tools":                   {haft.AgentsRead, onAgent(agents.agentTools)},
		"PATCH /agents/{agent}/tools/attach/{tool}":   {haft.AgentsWrite, withFound(tools.pathTool, agents.attachTool)},
		"PATCH /agents/{agent}/tools/detach/{tool}":   {haft.AgentsWrite, withFound(tools.pathTool, agents.detachTool)},
		"PATCH /agents/{agent}/tools/approval/{name}": {haft.AgentsWrite, agents.toolApproval},
		"POST /agents/{agent}/tools/{name}/run":       {haft.CallsWrite, agents.runTool},
	}
	maps.Copy(all, requires(cfg.Models != nil, noModel, map[string]route{
		"GET /models": {haft.AgentsRead, agents.listModels}}))
	maps.Copy(all, requires(cfg.Sandboxes != nil, "sandbox configurations", sandboxes.routes()))
	maps.Copy(all, requires(cfg.Variables != nil, "stored variables",
		variableHandlers{cfg.Variables, sandboxes}.routes()))
	maps.Copy(all, requires(agents.blocks.has(), noMemory, agents.blockRoutes()))
	maps.Copy(all, requires(cfg.Archive != nil, "archive of agents", passageHandlers{cfg.Archive}.routes(onAgent)))
	maps.Copy(all, requires(cfg.Conversations != nil, "conversations with agents: "+noModel,
		talkHandlers{cfg.Conversations, service, agents, cfg.Heartbeat}.routes(onAgent)))
	maps.Copy(all, requires(cfg.Servers != nil, "MCP servers",
		serverHandlers{cfg.Servers, tools, service}.routes()))
	return all
}

// onAgent looks up the agent of the path for a handler.
type onAgent = func(answer func(context.Context, *request, haft.Agent) (any, error)) handler

// blockRoutes are those of blocks, and of the blocks of agents.
func (h agentHandlers) blockRoutes() map[string]route {
	b := h.blocks
	show := func(_ context.Context, _ *request, one haft.Block) (any, error) { return showBlock(one), nil }
	onLabel := func(answer func(context.Context, *request, haft.Block) (any, error)) handler {
		return withFound(h.pathAgent, func(ctx context.Context, q *request, a haft.Agent) (any, error) {
			one, err := b.labelled(ctx, q, a)
			if err != nil {
				return nil, err
			}
			return answer(ctx, q, *one)
		})
	}
	core := withFound(h.pathAgent, func(ctx context.Context, q *request, a haft.Agent) (any, error) {
		list, err := b.ofAgent(ctx, q.who.Principal, a)
		return map[string]any{"blocks": list, "prompt_template": ""}, err
	})
	const of = "/agents/{agent}/core-memory"
	var attach, detach handler
	if b.has() {
		attach, detach = h.shareBlock(b.share.AttachBlock), h.shareBlock(b.share.DetachBlock)
	}
	return map[string]route{
		"GET /blocks":                            {haft.AgentsRead, b.listBlocks},
		"POST /blocks":                           {haft.AgentsWrite, withBody(b.createBlock)},
		"GET /blocks/count":                      {haft.AgentsRead, b.countBlocks},
		"GET /blocks/{block}":                    {haft.AgentsRead, withFound(b.pathBlock, show)},
		"PATCH /blocks/{block}":                  {haft.AgentsWrite, withFound(b.pathBlock, b.changeBlock)},
		"DELETE /blocks/{block}":                 {haft.AgentsWrite, withFound(b.pathBlock, b.deleteBlock)},
		"GET /blocks/{block}/agents":             {haft.AgentsRead, h.blockAgents},
		"GET " + of:                              {haft.AgentsRead, core},
		"GET " + of + "/blocks":                  {haft.AgentsRead, withFound(h.pathAgent, b.agentBlocks)},
		"GET " + of + "/blocks/{label}":          {haft.AgentsRead, onLabel(show)},
		"PATCH " + of + "/blocks/{label}":        {haft.AgentsWrite, onLabel(b.changeBlock)},
		"PATCH " + of + "/blocks/attach/{block}": {haft.AgentsWrite, attach},
		"PATCH " + of + "/blocks/detach/{block}": {haft.AgentsWrite, detach},
	}
}

// routes are those of the archive of agents.
func (h passageHandlers) routes(agent onAgent) map[string]route {
	const of = "/agents/{agent}/archival-memory"
	return map[string]route{
		"GET " + of:                   {haft.AgentsRead, agent(h.listPassages)},
		"POST " + of:                  {haft.AgentsWrite, agent(h.createPassage)},
		"GET " + of + "/search":       {haft.AgentsRead, agent(h.searchPassages)},
		"DELETE " + of + "/{passage}": {haft.AgentsWrite, agent(h.deletePassage)},
	}
}

// routes are those of messages and runs.
func (h talkHandlers) routes(agent onAgent) map[string]route {
	onTurn := func(answer func(context.Context, *request, haft.Turn) (any, error)) handler {
		return withFound(h.pathTurn, answer)
	}
	const of = "/agents/{agent}/messages"
	return map[string]route{
		"GET " + of:                    {haft.CallsRead, agent(h.listMessages)},
		"POST " + of:                   {haft.CallsWrite, agent(h.sendMessage)},
		"POST " + of + "/stream":       {haft.CallsWrite, agent(h.streamMessage)},
		"POST " + of + "/async":        {haft.CallsWrite, agent(h.sendAsync)},
		"POST " + of + "/cancel":       {haft.CallsWrite, agent(h.cancelTurns)},
		"POST /messages/search":        {haft.CallsRead, h.searchMessages},
		"POST /agents/messages/search": {haft.CallsRead, h.oldSearchMessages},
		"GET /runs":                    {haft.CallsRead, h.listRuns},
		"GET /runs/active":             {haft.CallsRead, h.listRuns},
		"GET /runs/{run}":              {haft.CallsRead, onTurn(h.showTurn)},
		"GET /runs/{run}/messages":     {haft.CallsRead, onTurn(h.turnMessages)},
		"GET /runs/{run}/usage":        {haft.CallsRead, onTurn(h.turnUsage)},
		"GET /runs/{run}/steps":        {haft.CallsRead, onTurn(h.turnSteps)},
		"POST /runs/{run}/stream":      {haft.CallsRead, onTurn(h.turnStream)},
	}
}

// routes are those of sandbox configurations.
func (h sandboxHandlers) routes() map[string]route {
	return map[string]route{
		"GET /sandbox-config":                {haft.SandboxesRead, h.listConfigs},
		"POST /sandbox-config":               {haft.SandboxesWrite, withBody(h.createConfig)},
		"POST /sandbox-config/local":         {haft.SandboxesWrite, withBody(h.localConfig)},
		"POST /sandbox-config/local/default": {haft.SandboxesWrite, h.defaultLocal},
		"POST /sandbox-config/e2b/default":   {haft.SandboxesWrite, h.defaultE2B},
		// packages are never changed, only added to
		"POST /sandbox-config/local/recreate-venv": {haft.SandboxesWrite, h.defaultLocal},
		"PATCH /sandbox-config/{config}":           {haft.SandboxesWrite, withBody(h.updateConfig)},
		"DELETE /sandbox-config/{config}":          {haft.SandboxesWrite, withFound(h.pathConfig, h.deleteConfig)},
	}
}

// routes are those of the variables of sandbox configurations.
func (h variableHandlers) routes() map[string]route {
	list, remove := withFound(h.sandboxes.pathConfig, h.listVariables), withFound(h.pathVariable, h.deleteVariable)
	return map[string]route{
		"GET /sandbox-config/{config}/environment-variable":      {haft.SecretsRead, list},
		"POST /sandbox-config/{config}/environment-variable":     {haft.SecretsWrite, withBody(h.createVariable)},
		"PATCH /sandbox-config/environment-variable/{variable}":  {haft.SecretsWrite, withBody(h.updateVariable)},
		"DELETE /sandbox-config/environment-variable/{variable}": {haft.SecretsWrite, remove},
	}
}

// routes are those of MCP servers, of clients from 1.0 on and of those before.
func (h serverHandlers) routes() map[string]route {
	onServer := func(answer func(context.Context, *request, haft.MCPServer) (any, error)) handler {
		return withFound(h.pathServer, answer)
	}
	showTool := withFound(h.serverTool, h.tools.showTool)
	return map[string]route{
		"GET /mcp-servers":  {haft.ServersRead, h.listServers},
		"POST /mcp-servers": {haft.ServersWrite, withBody(h.createServer)},
		"GET /mcp-servers/{server}": {haft.ServersRead, onServer(
			func(_ context.Context, _ *request, s haft.MCPServer) (any, error) { return showServer(s, false), nil })},
		"PATCH /mcp-servers/{server}":                 {haft.ServersWrite, withBody(h.updateServer)},
		"DELETE /mcp-servers/{server}":                {haft.ServersWrite, onServer(h.deleteServer)},
		"PATCH /mcp-servers/{server}/refresh":         {haft.ServersWrite, onServer(h.refreshServer)},
		"GET /mcp-servers/{server}/tools":             {haft.ServersRead, onServer(h.serverTools)},
		"GET /mcp-servers/{server}/tools/{tool}":      {haft.ServersRead, showTool},
		"POST /mcp-servers/{server}/tools/{tool}/run": {haft.CallsWrite, h.runServerTool},

		"GET /tools/mcp/servers":                             {haft.ServersRead, h.oldServers},
		"PUT /tools/mcp/servers":                             {haft.ServersWrite, h.oldPutServer},
		"PATCH /tools/mcp/servers/{old}":                     {haft.ServersWrite, h.oldUpdateServer},
		"DELETE /tools/mcp/servers/{old}":                    {haft.ServersWrite, onServer(h.oldDeleteServer)},
		"GET /tools/mcp/servers/{old}/tools":                 {haft.ServersRead, onServer(h.oldServerTools)},
		"POST /tools/mcp/servers/{old}/{name}":               {haft.ServersRead, showTool},
		"POST /tools/mcp/servers/{old}/resync":               {haft.ServersWrite, onServer(h.refreshServer)},
		"POST /tools/mcp/servers/{old}/tools/{name}/execute": {haft.CallsWrite, h.oldExecute},
	}
}
