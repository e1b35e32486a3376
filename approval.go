package haft

import (
	"encoding/json"
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
// these arguments, once.
type Approval struct {
	ID    ApprovalID    `json:"id"`
	Call  CallID        `json:"call_id"`
	Tool  string        `json:"tool"`
	State ApprovalState `json:"state"`
	// Binds is the digest of the version and the arguments that were shown.
	Binds string `json:"binds"`
	// Args are the arguments as the approver may see them.
	Args      json.RawMessage `json:"args,omitempty"`
	Requester Principal       `json:"requester"`
	Approver  *Principal      `json:"approver,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	// Rule is the rule, setting or tool rule that asks.
	Rule string `json:"rule,omitempty"`
	// Edited says that the approver changed the arguments: Binds is then of what
	// was agreed to.
	Edited  bool      `json:"edited,omitempty"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	Decided time.Time `json:"decided_at,omitzero"`
}

// An Answer is what a person says to a request.
type Answer struct {
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty"`
	// Args replace the arguments that were asked for; empty leaves them.
	Args json.RawMessage `json:"args,omitempty"`
}
