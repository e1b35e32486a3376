package policy

import "haft"

// DefaultApprover is the role that approves where no document names one.
const DefaultApprover = "approver"

// An Ask says that a person must agree: a person with one of the roles, or one of the users.
// The requester may not be that person, unless Self.
type Ask struct {
	Rule   string   `json:"rule"`
	Reason string   `json:"reason,omitempty"`
	Roles  []string `json:"roles,omitempty"`
	Users  []string `json:"users,omitempty"`
	Self   bool     `json:"self,omitempty"`
	// Expires is how long the request waits; 0 means the engine's default.
	Expires haft.Millis `json:"expires_ms,omitempty"`
}

// MayApprove reports why approver may not answer for requester. The approver must be a person
// of the same organisation whom every ask accepts. A user that an agent acts for is refused:
// the agent would answer.
func (d Decision) MayApprove(approver, requester haft.Principal) error {
	no := func(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }
	switch {
	case d.Effect != NeedsApproval || len(d.Asks) == 0:
		return no("there is nothing to approve")
	case approver.Org == "" || approver.Org != requester.Org:
		return no("an approver belongs to the organisation of the call")
	case approver.User == "":
		return no("an approver is a person")
	case approver.Agent != "":
		return no("an agent cannot approve")
	}
	for _, a := range d.Asks {
		if !a.Self && approver.User == requester.User {
			return no("the one who asks cannot approve, unless the policy says self: true")
		}
		byRole := len(a.Roles) > 0 && names(a.Roles).match(approver.Roles...)
		byName := len(a.Users) > 0 && names(a.Users).match(approver.User)
		if !byRole && !byName {
			return no("the rule " + a.Rule + " names other approvers")
		}
	}
	return nil
}

// Expires returns how long the request for approval waits: the shortest of all
// asks, or 0 if none says.
func (d Decision) Expires() haft.Millis {
	var shortest haft.Millis
	for _, a := range d.Asks {
		if a.Expires > 0 && (shortest == 0 || a.Expires < shortest) {
			shortest = a.Expires
		}
	}
	return shortest
}
