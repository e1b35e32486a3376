package haft

import "slices"

// An Action is something that a credential can be confined to. Every entry point
// asks for one, and package authority decides. The names are those of scopes.
type Action string

// The actions. This is the only list of them.
const (
	ToolsRead       Action = "tools:read"
	ToolsWrite      Action = "tools:write"
	CallsRead       Action = "calls:read"
	CallsWrite      Action = "calls:write" // make, cancel and replay calls
	FilesRead       Action = "files:read"
	FilesWrite      Action = "files:write"
	WorkspacesRead  Action = "workspaces:read"
	WorkspacesWrite Action = "workspaces:write"
	AgentsRead      Action = "agents:read"
	AgentsWrite     Action = "agents:write"
	ApprovalsRead   Action = "approvals:read"
	ApprovalsWrite  Action = "approvals:write" // answer them
	EventsRead      Action = "events:read"
	KeysRead        Action = "keys:read"
	KeysWrite       Action = "keys:write"
	SecretsRead     Action = "secrets:read" // their names; nobody reads a value
	SecretsWrite    Action = "secrets:write"
	PoliciesRead    Action = "policies:read"
	PoliciesWrite   Action = "policies:write"
	SandboxesRead   Action = "sandboxes:read"
	SandboxesWrite  Action = "sandboxes:write"
	ServersRead     Action = "servers:read" // MCP servers
	ServersWrite    Action = "servers:write"
	WebhooksRead    Action = "webhooks:read"
	WebhooksWrite   Action = "webhooks:write"
	AuditRead       Action = "audit:read"
	UsageRead       Action = "usage:read"
	DataExport      Action = "data:export"
	DataErase       Action = "data:erase"
	Operate         Action = "operate" // stop and resume the whole server

	// AllActions stands for every action in a scope. It gives no role.
	AllActions Action = "admin"
)

// actions are all of them. Nothing changes it.
var actions = []Action{
	ToolsRead, ToolsWrite, CallsRead, CallsWrite, FilesRead, FilesWrite, WorkspacesRead, WorkspacesWrite,
	AgentsRead, AgentsWrite, ApprovalsRead,
	ApprovalsWrite, EventsRead, KeysRead, KeysWrite, SecretsRead, SecretsWrite,
	PoliciesRead, PoliciesWrite, SandboxesRead, SandboxesWrite,
	ServersRead, ServersWrite, WebhooksRead, WebhooksWrite, AuditRead, UsageRead, DataExport,
	DataErase, Operate,
}

// Actions lists every action, without [AllActions].
func Actions() []Action { return slices.Clone(actions) }

// Known reports whether a is an action, or [AllActions].
func (a Action) Known() bool { return a == AllActions || slices.Contains(actions, a) }

// Managed reports whether the action needs the role of a manager, such as
// [RoleAdmin], besides the scope. An unknown action does. Everybody may do the
// others with what is their own.
func (a Action) Managed() bool {
	switch a {
	case ToolsRead, CallsRead, CallsWrite, FilesRead, FilesWrite, WorkspacesRead, WorkspacesWrite, AgentsRead,
		ServersRead, ApprovalsRead, ApprovalsWrite, EventsRead:
		return false
	}
	return true
}
