package haft

import (
	"encoding/json"
	"strings"
	"time"
)

// ApprovalID identifies one request for a person's agreement.
type ApprovalID string

// ApprovalState says where an approval stands.
type ApprovalState string

// The states of an approval. All but pending are final.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired"
	ApprovalUsed     ApprovalState = "used"
)

// ApprovalStates lists every state.
func ApprovalStates() []ApprovalState {
	return []ApprovalState{ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalUsed}
}

// An Approval is a person's answer to one call: to this version of the tool with
// these arguments on these terms, once.
type Approval struct {
	ID    ApprovalID    `json:"id"`
	Call  CallID        `json:"call_id"`
	Tool  string        `json:"tool"`
	State ApprovalState `json:"state"`
	// Binds is the digest of the version, the arguments and the terms that were shown,
	// and of the values of the variables that they name.
	Binds string `json:"binds"`
	// Args are the arguments as the approver may see them.
	Args json.RawMessage `json:"args,omitempty"`
	// Terms are what else changes the effect of the call. Nil means that the request
	// was made before there were any.
	Terms     *Terms     `json:"terms,omitempty"`
	Requester Principal  `json:"requester"`
	Approver  *Principal `json:"approver,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	// Rule is the rule, setting or tool rule that asks.
	Rule string `json:"rule,omitempty"`
	// Edited says that the approver changed the arguments: Binds is then of what
	// was agreed to.
	Edited  bool      `json:"edited,omitempty"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Decided time.Time `json:"decided_at,omitzero"`
}

// Terms are what changes the effect of a call besides its arguments. Values of
// variables are never in them, and bound all the same.
type Terms struct {
	// Digest is that of the version that runs.
	Digest string `json:"digest"`
	// Agent is the id of the agent that calls.
	Agent string `json:"agent,omitempty"`
	// Env are the variables of the run, those of the call first. MoreEnv counts those
	// that are not listed.
	Env     []Variable `json:"env,omitempty"`
	MoreEnv int        `json:"more_env,omitempty"`
	// Webhook says that the credentials webhook is asked for more when the call runs.
	Webhook bool `json:"credentials_webhook,omitempty"`
	// Requirements and Lock are the packages of the version, and OrgRequirements those
	// that the organisation adds.
	Requirements    Requirements `json:"requirements,omitzero"`
	Lock            Lock         `json:"lock,omitzero"`
	OrgRequirements Requirements `json:"organisation_requirements,omitzero"`
	// Programs are those of the host that the tool may run.
	Programs []string `json:"programs,omitempty"`
	// Network are the hosts that it wants to reach, and Within what rules of policy
	// bound them to.
	Network []string   `json:"network,omitempty"`
	Within  [][]string `json:"network_within,omitempty"`
	// Sandbox is the provider that is asked for, and MinIsolation what it must promise.
	Sandbox      string `json:"sandbox,omitempty"`
	MinIsolation Level  `json:"min_isolation,omitempty"`
	Limits       Limits `json:"limits,omitzero"`
	// Files are put into the working directory of the tool; their content is not shown.
	Files []CallFile `json:"files,omitempty"`
	// Workspace is the directory that the tool reads, and writes to unless it says otherwise.
	Workspace *CallWorkspace `json:"workspace,omitempty"`
	// Server is the MCP server whose tool it is.
	Server *TermsServer `json:"server,omitempty"`
	// Binds is the digest of the terms, with the values of Env.
	Binds string `json:"binds"`
}

// A Variable says where a variable of a run comes from.
type Variable struct {
	Name string `json:"name"`
	// Origin is call, agent or organisation. Replaces is the origin of the one that
	// has the name too and does not count.
	Origin   string `json:"origin"`
	Replaces string `json:"replaces,omitempty"`
	// Hosts are those that it goes to. The program never has it if there are any.
	Hosts []string `json:"hosts,omitempty"`
}

// String says what the variable is, for people.
func (v Variable) String() string {
	s := v.Name + " of the " + v.Origin
	if v.Replaces != "" {
		s += " instead of that of the " + v.Replaces
	}
	if len(v.Hosts) > 0 {
		s += " for " + strings.Join(v.Hosts, " ")
	}
	return s
}

// The origins of variables.
const (
	OriginCall         = "call"
	OriginAgent        = "agent"
	OriginOrganisation = "organisation"
)

// TermsServer is what an approver has to know of an MCP server.
type TermsServer struct {
	Name    string     `json:"name"`
	URL     string     `json:"url,omitempty"`
	Command []string   `json:"command,omitempty"`
	Mounts  []MCPMount `json:"mounts,omitempty"`
	Network []string   `json:"network,omitempty"`
	// Env and Headers are names.
	Env          []string     `json:"env,omitempty"`
	Headers      []string     `json:"headers,omitempty"`
	Requirements Requirements `json:"requirements,omitzero"`
}

// An Answer is what a person says to a request.
type Answer struct {
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty"`
	// Args replace the arguments that were asked for; empty leaves them.
	Args json.RawMessage `json:"args,omitempty"`
}
