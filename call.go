package haft

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"
)

// CallID identifies one call.
type CallID string

// NewCallID makes an id that nobody can guess. It begins with the time, so that calls of one moment are neighbours in
// every index: a commit then writes a few pages, and not one for each call.
func NewCallID() CallID {
	var now [8]byte
	binary.BigEndian.PutUint64(now[:], uint64(time.Now().UnixMilli())<<16)
	return CallID("c_" + base32.HexEncoding.EncodeToString(now[:6])[:10] + rand.Text()[:20])
}

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
	// Files are put into the working directory of the tool.
	Files []CallFile `json:"files,omitempty"`
	// Workspace is a directory that outlives the call.
	Workspace *CallWorkspace `json:"workspace,omitempty"`
	// Sandbox names a provider; empty leaves the choice to tool and engine.
	Sandbox string `json:"sandbox,omitempty"`
	// Template names packages of the sandbox configuration that the call gets besides; empty means none.
	Template string `json:"template,omitempty"`
	// Requirements are packages that code of the call gets besides. Only calls that make a session have some, and those
	// in such a session.
	Requirements Requirements `json:"requirements,omitzero"`
	Limits       Limits       `json:"limits,omitzero"`
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
	// Actions are what the credential is confined to besides. Nil means that it is
	// not, and an empty list that it is for nothing.
	Actions []Action `json:"actions,omitzero"`
	// Credential names the API key or token that the principal was known by, and
	// holds nothing of its secret. Whatever it opened or began ends when it is
	// withdrawn. Empty means that there was none, such as at a terminal.
	Credential string `json:"credential,omitempty"`
}

// Owner names who owns what p does: its user, or if it has none the credential
// that was used. It is empty if there is neither, and then p owns nothing. No user
// has the name of a credential: that begins with a control character, which
// authentication lets into no name of a user.
func (p Principal) Owner() string {
	if p.User != "" || p.Credential == "" {
		return p.User
	}
	// What stands behind the last dot tells the secrets of a rotated key apart: the key
	// stays the same owner.
	name := p.Credential
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[:i]
	}
	return OwnerMark + name
}

// OwnerMark stands before the credential in what [Principal.Owner] returns.
const OwnerMark = "\x1f"

// Owns reports whether what owner did is p's own: it was done in the same
// organisation by the same user, or if p has no user with the same credential; and
// by the same agent if p is one. An empty user is nobody's, so it never matches.
func (p Principal) Owns(owner Principal) bool {
	who := p.Owner()
	return who != "" && p.Org == owner.Org && who == owner.Owner() && (p.Agent == "" || p.Agent == owner.Agent)
}

// Check reports why p cannot be a principal.
func (p Principal) Check() error {
	if p.Org == "" {
		return &Error{Code: CodeUnauthenticated, Message: "a principal belongs to an organisation"}
	}
	return nil
}
