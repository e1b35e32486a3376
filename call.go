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
}

// A Principal is on whose behalf something is done. Org is never empty.
type Principal struct {
	Org   string   `json:"org"`
	User  string   `json:"user,omitempty"`
	Agent string   `json:"agent,omitempty"`
	Roles []string `json:"roles,omitempty"`
}

// Check reports why p cannot be a principal.
func (p Principal) Check() error {
	if p.Org == "" {
		return &Error{Code: CodeUnauthenticated, Message: "a principal belongs to an organisation"}
	}
	return nil
}
