package main

// entryPoints says for every way into Haft which of the answers of authority_test.go
// is its own. A new route, MCP method or command that is not here fails the test:
// think about who asks, what is shown and what is kept, and then add it.
var entryPoints = map[string]string{
	"call": `
MCP tools/call
POST /letta/v1/agents/{agent}/messages
POST /letta/v1/agents/{agent}/messages/async
POST /letta/v1/agents/{agent}/messages/stream
POST /letta/v1/agents/{agent}/tools/{name}/run
POST /letta/v1/mcp-servers/{server}/tools/{tool}/run
POST /letta/v1/tools/mcp/servers/{old}/tools/{name}/execute
POST /letta/v1/tools/run
POST /v1/agents/{agent}/messages
POST /v1/calls
POST /v1/calls/batch
POST /v1/calls/{id}/replay
POST /v1/chains
POST /v1/sessions
POST /v1/tool_calls
haft call
haft calls replay
haft chat
haft session add
haft session exec
haft tool call
`,
	"cancel": `
DELETE /v1/sessions/{id}
POST /letta/v1/agents/{agent}/messages/cancel
POST /v1/calls/cancel
POST /v1/calls/{id}/cancel
POST /v1/turns/{id}/cancel
haft calls cancel
haft session remove
`,
	"history": `
GET /letta/v1/agents/{agent}/messages
GET /letta/v1/runs
GET /letta/v1/runs/active
GET /letta/v1/runs/{run}
GET /letta/v1/runs/{run}/messages
GET /letta/v1/runs/{run}/steps
GET /letta/v1/runs/{run}/usage
GET /v1/agents/{agent}/messages
GET /v1/agents/{agent}/turns
GET /v1/calls
GET /v1/calls/{id}
GET /v1/calls/{id}/artifacts/{name}
GET /v1/calls/{id}/events
GET /v1/chains/{id}
GET /v1/events
GET /v1/sessions
GET /v1/turns/{id}
GET /v1/turns/{id}/events
GET /v1/usage
MCP resources/list
MCP resources/read
POST /letta/v1/agents/messages/search
POST /letta/v1/messages/search
POST /letta/v1/runs/{run}/stream
WebSocket /v1/events
haft agent messages
haft calls artifacts
haft calls events
haft calls list
haft calls show
haft calls stats
haft events
haft logs
haft top
haft session list
`,
	"session": `
/e2b/
/e2b/sandbox/
/files
/v1/sessions/{id}/ports/{port}/
DELETE /v1/sessions/{id}/contexts/{name}
DELETE /v1/sessions/{id}/files
GET /v1/sessions/{id}/contexts
GET /v1/sessions/{id}/files
GET /v1/sessions/{id}/files/content
GET /v1/sessions/{id}/files/watch
PATCH /v1/sessions/{id}
POST /v1/calls/{id}/input
POST /v1/sessions/{id}/files/move
PUT /v1/sessions/{id}/files/content
PUT /v1/sessions/{id}/files/directory
haft session files
haft session get
haft session put
`,
	"file": `
DELETE /v1/files/{id}
GET /v1/files
GET /v1/files/{id}
GET /v1/files/{id}/content
PATCH /v1/files/{id}
POST /v1/files
haft file add
haft file get
haft file list
haft file remove
`,
	"workspace": `
DELETE /v1/workspaces/{name}
DELETE /v1/workspaces/{name}/files
GET /v1/workspaces
GET /v1/workspaces/{name}
GET /v1/workspaces/{name}/diff
GET /v1/workspaces/{name}/files
GET /v1/workspaces/{name}/files/content
POST /v1/workspaces
POST /v1/workspaces/{name}/restore
PUT /v1/workspaces/{name}/files
haft workspace add
haft workspace delete
haft workspace diff
haft workspace files
haft workspace fork
haft workspace get
haft workspace list
haft workspace put
haft workspace remove
haft workspace restore
haft workspace show
haft workspace snapshot
`,
	"approve": `
GET /v1/approvals
GET /v1/approvals/{id}
POST /v1/approvals/{id}/approve
POST /v1/approvals/{id}/deny
haft approvals approve
haft approvals deny
haft approvals list
haft approvals show
`,
	"find": `
GET /letta/v1/agents
GET /letta/v1/agents/count
GET /letta/v1/agents/{agent}
GET /letta/v1/agents/{agent}/archival-memory
GET /letta/v1/agents/{agent}/archival-memory/search
GET /letta/v1/agents/{agent}/core-memory
GET /letta/v1/agents/{agent}/core-memory/blocks
GET /letta/v1/agents/{agent}/core-memory/blocks/{label}
GET /letta/v1/agents/{agent}/export
GET /letta/v1/agents/{agent}/tools
GET /letta/v1/blocks
GET /letta/v1/blocks/count
GET /letta/v1/blocks/{block}
GET /letta/v1/blocks/{block}/agents
GET /letta/v1/health
GET /letta/v1/mcp-servers
GET /letta/v1/mcp-servers/{server}
GET /letta/v1/mcp-servers/{server}/tools
GET /letta/v1/mcp-servers/{server}/tools/{tool}
GET /letta/v1/models
GET /letta/v1/tags
GET /letta/v1/tools
GET /letta/v1/tools/count
GET /letta/v1/tools/mcp/servers
GET /letta/v1/tools/mcp/servers/{old}/tools
GET /letta/v1/tools/{tool}
GET /v1/agents
GET /v1/agents/{agent}
GET /v1/agents/{agent}/blocks
GET /v1/agents/{agent}/passages
GET /v1/agents/{agent}/passages/tags
GET /v1/blocks
GET /v1/blocks/{id}
GET /v1/blocks/{id}/agents
GET /v1/mcp_servers
GET /v1/mcp_servers/{server}
GET /v1/models
GET /v1/tools
GET /v1/tools/{ref}
GET /v1/tools/{ref}/versions
GET /v1/tools/{ref}/versions/{number}
MCP tools/list
POST /letta/v1/tools/add-base-tools
POST /letta/v1/tools/generate-schema
POST /letta/v1/tools/mcp/servers/{old}/{name}
POST /letta/v1/tools/search
haft agent blocks
haft agent list
haft agent recall
haft agent show
haft mcp-server list
haft mcp-server show
haft tool export
haft tool list
haft tool search
haft tool show
haft tool versions
`,
	"manage": `
DELETE /letta/v1/agents/{agent}
DELETE /letta/v1/agents/{agent}/archival-memory/{passage}
DELETE /letta/v1/blocks/{block}
DELETE /letta/v1/mcp-servers/{server}
DELETE /letta/v1/sandbox-config/environment-variable/{variable}
DELETE /letta/v1/sandbox-config/{config}
DELETE /letta/v1/tools/mcp/servers/{old}
DELETE /letta/v1/tools/{tool}
DELETE /v1/agents/{agent}
DELETE /v1/agents/{agent}/blocks/{id}
DELETE /v1/agents/{agent}/passages/{id}
DELETE /v1/agents/{agent}/tools/{ref}
DELETE /v1/blocks/{id}
DELETE /v1/keys/{id}
DELETE /v1/mcp_servers/{server}
DELETE /v1/sandbox_configs/{ref}
DELETE /v1/secrets/{name}
DELETE /v1/tools/{ref}
DELETE /v1/webhooks/{id}
GET /letta/v1/sandbox-config
GET /letta/v1/sandbox-config/{config}/environment-variable
GET /v1/audit
GET /v1/audit/entries
GET /v1/audit/keys
GET /v1/export
GET /v1/keys
GET /v1/keys/{id}
GET /v1/policies/{of}
GET /v1/retention
GET /v1/sandbox_configs
GET /v1/sandbox_configs/{ref}
GET /v1/secrets
GET /v1/webhooks
GET /v1/webhooks/{id}
GET /v1/webhooks/{id}/dead_letters
PATCH /letta/v1/agents/{agent}
PATCH /letta/v1/agents/{agent}/core-memory/blocks/attach/{block}
PATCH /letta/v1/agents/{agent}/core-memory/blocks/detach/{block}
PATCH /letta/v1/agents/{agent}/core-memory/blocks/{label}
PATCH /letta/v1/agents/{agent}/tools/approval/{name}
PATCH /letta/v1/agents/{agent}/tools/attach/{tool}
PATCH /letta/v1/agents/{agent}/tools/detach/{tool}
PATCH /letta/v1/blocks/{block}
PATCH /letta/v1/mcp-servers/{server}
PATCH /letta/v1/mcp-servers/{server}/refresh
PATCH /letta/v1/sandbox-config/environment-variable/{variable}
PATCH /letta/v1/sandbox-config/{config}
PATCH /letta/v1/tools/mcp/servers/{old}
PATCH /letta/v1/tools/{tool}
PATCH /v1/agents/{agent}
PATCH /v1/blocks/{id}
PATCH /v1/keys/{id}
PATCH /v1/tools/{ref}
POST /letta/v1/agents
POST /letta/v1/agents/import
POST /letta/v1/agents/{agent}/archival-memory
POST /letta/v1/blocks
POST /letta/v1/mcp-servers
POST /letta/v1/sandbox-config
POST /letta/v1/sandbox-config/e2b/default
POST /letta/v1/sandbox-config/local
POST /letta/v1/sandbox-config/local/default
POST /letta/v1/sandbox-config/local/recreate-venv
POST /letta/v1/sandbox-config/{config}/environment-variable
POST /letta/v1/tools
POST /letta/v1/tools/mcp/servers/{old}/resync
POST /v1/agents
POST /v1/agents/{agent}/passages
POST /v1/blocks
POST /v1/erase
POST /v1/keys
POST /v1/keys/{id}/rotate
POST /v1/mcp_servers/{server}/refresh
POST /v1/policies/explain
POST /v1/sandbox_configs
POST /v1/tools
POST /v1/webhooks
POST /v1/webhooks/{id}/redeliver
PUT /letta/v1/tools
PUT /letta/v1/tools/mcp/servers
PUT /v1/agents/{agent}
PUT /v1/agents/{agent}/blocks/{id}
PUT /v1/agents/{agent}/tools/{ref}
PUT /v1/mcp_servers/{server}
PUT /v1/policies/{of}
PUT /v1/retention
PUT /v1/sandbox_configs/{ref}
PUT /v1/secrets/{name}
PUT /v1/webhooks/{id}
haft agent attach
haft agent block
haft agent add
haft agent detach
haft agent disable
haft agent enable
haft agent env
haft agent remember
haft agent remove
haft agent rules
haft agent set
haft agent share
haft audit export
haft audit key
haft audit show
haft audit verify
haft calls retention
haft erase
haft export
haft key add
haft key disable
haft key list
haft key remove
haft key rotate
haft mcp-server add
haft mcp-server import
haft mcp-server refresh
haft mcp-server remove
haft policy explain
haft init
haft policy set
haft policy show
haft sandbox set
haft secret list
haft secret remove
haft secret set
haft tool add
haft tool disable
haft tool enable
haft tool lock
haft tool review
haft tool remove
haft tool rollback
haft webhook add
haft webhook dead
haft webhook list
haft webhook redeliver
haft webhook remove
`,
	"login": `
POST /v1/mcp_servers/{server}/login
POST /v1/mcp_servers/{server}/login/finish
haft mcp-server login
`,
	"operate": `
GET /metrics
POST /v1/resume
POST /v1/stop
haft backup
haft calls resume
haft calls stop
haft restore
haft secret rotate
`,
	"self": `
GET /v1/whoami
`,
	"open": `
/
GET /healthz
GET /openapi.json
GET /readyz
`,
	"protocol": `
/letta/
/mcp
MCP initialize
MCP logging/setLevel
MCP ping
MCP resources/templates/list
haft mcp
haft dev
haft serve
`,
	"local": `
haft audit verify-file
haft bench
haft config list
haft config remove
haft config set
haft config show
haft config use
haft doctor
haft mcp install
haft mcp uninstall
haft mcp-server search
haft version
haft env build
haft env gc
haft env list
haft env show
haft policy check
haft run
haft sandbox list
haft sandbox remove
haft sandbox show
haft schema
haft test
`,
	"background": `
background: a call goes on after an approval
background: a call that a call makes
background: a chain goes on
background: a submitted call
background: an MCP server says that its tools changed
background: events are sent to webhooks
background: recovery after a crash
`,
}
