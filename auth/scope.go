package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
)

// An Action is something that a door does for a caller.
type Action string

// The actions. What a role has to say about those of the first group is decided
// by the engine, which knows the rules of tools and policies.
const (
	ToolsRead      Action = "tools:read"
	ToolsWrite     Action = "tools:write"
	CallsRead      Action = "calls:read"
	CallsWrite     Action = "calls:write" // make, cancel and replay calls
	AgentsRead     Action = "agents:read"
	AgentsWrite    Action = "agents:write"
	ApprovalsRead  Action = "approvals:read"
	ApprovalsWrite Action = "approvals:write" // answer them
	EventsRead     Action = "events:read"
	Operate        Action = "operate" // stop everything, cancel the calls of others
)

// The actions of the second group need a role of [Config.Managers] too.
const (
	KeysRead       Action = "keys:read"
	KeysWrite      Action = "keys:write"
	SecretsRead    Action = "secrets:read" // their names; nobody reads a value
	SecretsWrite   Action = "secrets:write"
	PoliciesRead   Action = "policies:read"
	PoliciesWrite  Action = "policies:write"
	SandboxesRead  Action = "sandboxes:read"
	SandboxesWrite Action = "sandboxes:write"
	ServersRead    Action = "servers:read" // MCP servers
	ServersWrite   Action = "servers:write"
	WebhooksRead   Action = "webhooks:read"
	WebhooksWrite  Action = "webhooks:write"
	AuditRead      Action = "audit:read"
	UsageRead      Action = "usage:read"
	// Admin stands for every action in a scope. It gives no role.
	Admin Action = "admin"
)

// Actions lists every action.
func Actions() []Action {
	return []Action{
		ToolsRead, ToolsWrite, CallsRead, CallsWrite, AgentsRead, AgentsWrite, ApprovalsRead, ApprovalsWrite, EventsRead, Operate,
		KeysRead, KeysWrite, SecretsRead, SecretsWrite, PoliciesRead, PoliciesWrite, SandboxesRead, SandboxesWrite,
		ServersRead, ServersWrite, WebhooksRead, WebhooksWrite, AuditRead, UsageRead, Admin,
	}
}

// Managed reports whether the action needs the role of a manager, or is none that
// we know.
func (a Action) Managed() bool {
	switch a {
	case ToolsRead, ToolsWrite, CallsRead, CallsWrite, AgentsRead, AgentsWrite, ApprovalsRead, ApprovalsWrite, EventsRead, Operate:
		return false
	}
	return true
}

// permissions are the beginnings of what names tools, see package policy.
var permissions = []string{"tool:", "category:", "tag:", "kind:"}

// isPermission reports whether s names tools.
func isPermission(s string) bool {
	return slices.ContainsFunc(permissions, func(p string) bool { return strings.HasPrefix(s, p) && len(s) > len(p) })
}

// CheckScope reports why a credential cannot be confined to scope.
//
// A scope lists actions and permissions. A permission ("tool:NAME",
// "category:NAME", "tag:NAME" or "kind:KIND", with * for any text) lets tools be
// called, and so is [CallsWrite] for these. CallsWrite without a permission would
// let none be called and is refused: "tool:*" names them all.
func CheckScope(scope []string) error {
	if len(scope) > maxScope {
		return invalid(fmt.Sprintf("a scope has at most %d entries", maxScope))
	}
	for _, s := range scope {
		if !isPermission(s) && !slices.Contains(Actions(), Action(s)) || !cleanText(s) {
			return invalid("a scope has actions, such as calls:read, and permissions, such as tool:NAME")
		}
	}
	if permissions, actions := splitScope(scope); len(permissions) == 0 && slices.Contains(actions, CallsWrite) {
		return invalid("calls:write needs a permission for the tools to call, such as tool:*")
	}
	return nil
}

// splitScope parts a scope in what policy and what doors look at. Permissions are
// nil if scope is, and else not. What is neither is dropped: it allows nothing.
func splitScope(scope []string) (permissions []string, actions []Action) {
	if scope == nil {
		return nil, nil
	}
	permissions = []string{}
	for _, s := range scope {
		switch {
		case isPermission(s):
			permissions = append(permissions, s)
		case slices.Contains(Actions(), Action(s)):
			actions = append(actions, Action(s))
		}
	}
	if len(permissions) > 0 && !slices.Contains(actions, CallsWrite) {
		actions = append(actions, CallsWrite)
	}
	return permissions, actions
}

// covers reports whether what entry allows is within scope.
func covers(scope []string, entry string) bool {
	if slices.Contains(scope, entry) {
		return true
	}
	if kind, _, ok := strings.Cut(entry, ":"); ok && isPermission(entry) {
		return slices.Contains(scope, kind+":*")
	}
	_, actions := splitScope(scope)
	return slices.Contains(actions, Admin) || slices.Contains(actions, Action(entry))
}

// An Identity is who sent a request, and what the credential may do. The zero
// Identity is nobody and may do nothing.
type Identity struct {
	Principal haft.Principal
	// Key is the id of the API key, if it was one.
	Key string
	// Issuer is whose token it was, if it was one.
	Issuer string
	// Signed says that the request was signed. Its body must be read through
	// [CheckBody] with Digest.
	Signed bool
	Digest string
	// Expires is when the credential does, or zero. What goes on for longer than
	// a request ends then.
	Expires time.Time

	scope   []string
	manager bool
}

// Trusted returns the identity of a principal who needs no credential, because
// the caller is the operator. It is confined to the permissions of the principal.
func Trusted(p haft.Principal) Identity {
	return Identity{Principal: p, scope: p.Scope, manager: slices.Contains(p.Roles, haft.RoleAdmin)}
}

// May reports why the credential is not for the action, with [haft.CodeDenied].
func (id Identity) May(a Action) error {
	if err := id.Principal.Check(); err != nil {
		return err
	}
	switch {
	case !slices.Contains(Actions(), a):
		return &haft.Error{Code: haft.CodeDenied, Message: "there is no such action"}
	case a.Managed() && !id.manager:
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("%s is for administrators", a)}
	case id.scope != nil && !covers(id.scope, string(a)):
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("the credential is not for %s", a)}
	}
	return nil
}

// MayIssue reports why k would be more than the credential itself is: a key of
// another organisation, with a role that the principal does not have and is no
// administrator to give, with a wider scope, or one that outlives the key that it
// was made with.
func (id Identity) MayIssue(k Key) error {
	if err := id.May(KeysWrite); err != nil {
		return err
	}
	denied := func(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }
	if k.Org != id.Principal.Org {
		return denied("a key is made for one's own organisation")
	}
	for _, r := range k.Roles {
		if !slices.Contains(id.Principal.Roles, r) && !slices.Contains(id.Principal.Roles, haft.RoleAdmin) {
			return denied("a key has no role that its maker does not have")
		}
	}
	if id.scope != nil && (k.Scope == nil || slices.ContainsFunc(k.Scope, func(s string) bool { return !covers(id.scope, s) })) {
		return denied("a key has no wider scope than the one it is made with")
	}
	if id.Key != "" && !id.Expires.IsZero() && (k.Expires.IsZero() || k.Expires.After(id.Expires)) {
		return denied("a key does not outlive the one it is made with")
	}
	return nil
}
