package server

import (
	"net/http"
	"net/netip"
	"time"

	"haft"
)

// An Action is something that a credential may be confined to. The names are those
// of scopes.
type Action string

// The actions.
const (
	ToolsRead      Action = "tools:read"
	ToolsWrite     Action = "tools:write"
	CallsRead      Action = "calls:read"
	CallsWrite     Action = "calls:write"
	AgentsRead     Action = "agents:read"
	AgentsWrite    Action = "agents:write"
	ApprovalsRead  Action = "approvals:read"
	ApprovalsWrite Action = "approvals:write"
	EventsRead     Action = "events:read"
	PoliciesRead   Action = "policies:read"
	PoliciesWrite  Action = "policies:write"
	AuditRead      Action = "audit:read"
	SandboxesRead  Action = "sandboxes:read"
	SandboxesWrite Action = "sandboxes:write"
	SecretsRead    Action = "secrets:read"
	SecretsWrite   Action = "secrets:write"
	KeysRead       Action = "keys:read"
	KeysWrite      Action = "keys:write"
	WebhooksRead   Action = "webhooks:read"
	WebhooksWrite  Action = "webhooks:write"
	UsageRead      Action = "usage:read"
	Operate        Action = "operate"
)

// anyAction is what every credential is for: to hear who it is. An operation that
// forgot to say what it does is not this.
const anyAction Action = "any"

// Actions lists every action.
func Actions() []Action {
	return []Action{
		ToolsRead, ToolsWrite, CallsRead, CallsWrite, AgentsRead, AgentsWrite, ApprovalsRead, ApprovalsWrite,
		EventsRead, PoliciesRead, PoliciesWrite, AuditRead, SandboxesRead, SandboxesWrite, SecretsRead, SecretsWrite,
		KeysRead, KeysWrite, WebhooksRead, WebhooksWrite, UsageRead, Operate,
	}
}

// An Authenticator knows who sent a request. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate looks at the headers of r. It may replace r.Body by one that
	// fails at its end if it is not what was signed; the server reads bodies to
	// their end before it acts. Source is the address that r came from.
	//
	// The error is [haft.CodeUnauthenticated] if nobody is known,
	// [haft.CodeRateLimited] or [haft.CodeUnavailable].
	Authenticate(r *http.Request, source netip.Addr) (Identity, error)
}

// An Identity is who sent a request, and what the credential is for. The zero
// Identity may do nothing.
type Identity struct {
	Principal haft.Principal
	// Expires is when the credential does: streams end then. Zero means never.
	Expires time.Time
	// May reports why the credential is not for an action. Nil means that it is
	// for none. What the principal may do is decided by the service.
	May func(Action) error
	// ActAs reports why the principal may not act as another agent than its own.
	// Nil means that it may act as none.
	ActAs func(agent string) error
	// Operator says that the principal runs the whole server and not only an
	// organisation on it: only operators stop everything and change its policy.
	Operator bool
	// Credential is what the authenticator knows besides. [Config.Keys] gets it
	// back: a key is never more than the credential that it is made with.
	Credential any
}

// Permit reports why the identity is not for an action.
func (id Identity) Permit(a Action) error {
	if err := id.Principal.Check(); err != nil {
		return err
	}
	if a == anyAction {
		return nil
	}
	if id.May == nil {
		return &haft.Error{Code: haft.CodeDenied, Message: "the credential is for nothing"}
	}
	return id.May(a)
}

// operator reports why the identity may not do what concerns all organisations.
func (id Identity) operator() error {
	if id.Operator {
		return nil
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "this concerns all organisations and is for the operator of the server"}
}
