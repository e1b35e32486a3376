package haft

import (
	"encoding/json"
	"time"
)

// CallID identifies one call.
type CallID string

// A Call asks for one run of one tool. It carries its Principal as a value, not
// in a context, because calls outlive requests: they wait for approval in the
// store and cross the cluster.
type Call struct {
	ID CallID `json:"id,omitempty"`
	// Tool is a name or a [ToolID].
	Tool string `json:"tool"`
	// Digest pins the version; empty means the current one.
	Digest    string          `json:"digest,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Principal Principal       `json:"principal"`
	// IdempotencyKey makes a second call with the same key and arguments give
	// the first one's result.
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Deadline       time.Time         `json:"deadline,omitzero"`
	Env            map[string]string `json:"env,omitempty"`
	// Sandbox names a provider; empty leaves the choice to tool and engine.
	Sandbox string `json:"sandbox,omitempty"`
	Limits  Limits `json:"limits,omitzero"`
	// Parent is the call on whose behalf this one was made.
	Parent CallID `json:"parent,omitempty"`
	// Turn groups the calls of one loop of an agent: its tool rules look at what
	// was called before in the same turn.
	Turn string `json:"turn,omitempty"`
	// Chain is the chain of which the call is a step.
	Chain ChainID `json:"chain,omitempty"`
	// Trace is a W3C traceparent, which spans of the call continue.
	Trace string `json:"trace,omitempty"`
}

// The roles that mean something before any policy says so.
const (
	RoleAdmin    = "admin"    // may change tools, agents and policies, and stop everything
	RoleApprover = "approver" // answers requests for approval
)

// A Principal is on whose behalf something is done. Org is never empty.
type Principal struct {
	Org   string   `json:"org"`
	User  string   `json:"user,omitempty"`
	Agent string   `json:"agent,omitempty"`
	Roles []string `json:"roles,omitempty"`
	// Scope are the permissions that the credential is confined to. Nil means
	// that it is not, and an empty list that it may call nothing.
	Scope []string `json:"scope,omitzero"`
}

// Check reports why p cannot be a principal.
func (p Principal) Check() error {
	if p.Org == "" {
		return &Error{Code: CodeUnauthenticated, Message: "a principal belongs to an organisation"}
	}
	return nil
}
