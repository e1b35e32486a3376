// Package authority decides who may do what with what: one function for every
// entry point. It looks at the organisation, at what the credential is confined
// to, at roles, at ownership, and at who operates the whole server.
//
// Whether a principal may call a certain tool is decided by package policy, in the
// authorize stage of the engine: calls:write is what this package knows of it.
// docs/authority.md lists every entry point and where it asks.
package authority

import (
	"fmt"
	"slices"

	"haft"
)

// EveryOrg as [Rules.Operators] makes the managers of each organisation operators.
// It is for an engine inside of one program, where nobody else has an organisation.
const EveryOrg = "*"

// Rules are what the configuration says about authority. The zero value has
// [haft.RoleAdmin] as the one role of managers, and no operators.
type Rules struct {
	// Managers are the roles that may do what [haft.Action.Managed] reports, and see
	// and cancel what belongs to others of their organisation; empty means
	// [haft.RoleAdmin].
	Managers []string
	// Operators is the organisation whose managers operate the whole server, or
	// [EveryOrg]. Empty means that nobody does.
	Operators string
}

// A Resource is what something is done to. The zero value is the organisation of
// the principal as a whole.
type Resource struct {
	// Kind names it in errors, such as "call".
	Kind string
	// Owner is on whose behalf it was made. Nil means that it belongs to the
	// organisation and to nobody in it.
	Owner *haft.Principal
	// Server says that it concerns all organisations.
	Server bool
	// Person says that an agent may not do it, since a person has to agree.
	Person bool
}

// Owned is the resource of a kind that was made on behalf of somebody.
func Owned(kind string, owner haft.Principal) Resource { return Resource{Kind: kind, Owner: &owner} }

// Authorize reports why p may not do a to res. The error is
// [haft.CodeUnauthenticated] for a principal without an organisation,
// [haft.CodeNotFound] for a resource whose existence p must not learn of, and
// [haft.CodeDenied] for the rest.
func (r Rules) Authorize(p haft.Principal, a haft.Action, res Resource) error {
	if err := p.Check(); err != nil {
		return err
	}
	if err := inScope(p, a); err != nil {
		return err
	}
	if res.Owner != nil && res.Owner.Org != p.Org {
		return missing(res)
	}
	if err := r.role(p, a, res); err != nil {
		return err
	}
	if res.Owner == nil || r.Manages(p) || p.Owns(*res.Owner) || reads(a) && approves(p) {
		return nil
	}
	return missing(res)
}

// May is Authorize for what belongs to the organisation as a whole.
func (r Rules) May(p haft.Principal, a haft.Action) error { return r.Authorize(p, a, Resource{}) }

// MayFind is May for tools, agents and MCP servers, which other actions look up by
// name: who may write a tool, or call one on behalf of an agent, finds it without
// the scope to read them all. The entry point has asked for the scope.
func (r Rules) MayFind(p haft.Principal, a haft.Action) error { return r.May(Unconfined(p), a) }

// Unconfined returns p without what its credential is confined to.
func Unconfined(p haft.Principal) haft.Principal {
	p.Actions = nil
	return p
}

// Any is Authorize for what any of several actions allows. It returns the error of
// the first one.
func (r Rules) Any(p haft.Principal, res Resource, actions ...haft.Action) error {
	var first error
	for _, a := range actions {
		err := r.Authorize(p, a, res)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Allowed lists the actions that p may do to its organisation, and Operate if it
// operates the server. With what is [haft.Action.Managed] left out, p does them
// with its own only.
func (r Rules) Allowed(p haft.Principal) []haft.Action {
	list := []haft.Action{}
	for _, a := range haft.Actions() {
		if r.Authorize(p, a, Resource{}) == nil {
			list = append(list, a)
		}
	}
	return list
}

// Manages reports whether p has a role of managers. An agent acts for somebody, and
// manages nothing. It says nothing about the scope of the credential: Authorize
// does.
func (r Rules) Manages(p haft.Principal) bool {
	if p.Agent != "" || p.Org == "" {
		return false
	}
	if len(r.Managers) == 0 {
		return slices.Contains(p.Roles, haft.RoleAdmin)
	}
	return slices.ContainsFunc(p.Roles, func(role string) bool { return slices.Contains(r.Managers, role) })
}

// Operates reports whether p manages the organisation that operates the server.
func (r Rules) Operates(p haft.Principal) bool {
	return r.Manages(p) && (r.Operators == EveryOrg || r.Operators != "" && r.Operators == p.Org)
}

// SeesAll reports whether p sees what a reads of everybody in its organisation.
// Others see what they own.
func (r Rules) SeesAll(p haft.Principal, a haft.Action) bool {
	return r.Authorize(p, a, Owned("", haft.Principal{Org: p.Org})) == nil
}

// inScope reports why the credential of p is not for an action.
func inScope(p haft.Principal, a haft.Action) error {
	switch {
	case a == haft.AllActions || !a.Known():
		return denied("there is no such action")
	case p.Actions != nil && !slices.Contains(p.Actions, a) && !slices.Contains(p.Actions, haft.AllActions):
		return denied(fmt.Sprintf("the credential is not for %s", a))
	}
	return nil
}

// role reports why the roles of p are not for an action.
func (r Rules) role(p haft.Principal, a haft.Action, res Resource) error {
	switch {
	case (res.Server || a == haft.Operate) && !r.Operates(p):
		return denied("this concerns all organisations and is for the operator of the server")
	case a == haft.UsageRead && res.Owner != nil:
		return nil // what somebody used is theirs to see
	case a.Managed() && !r.Manages(p):
		roles := r.Managers
		if len(roles) == 0 {
			roles = []string{haft.RoleAdmin}
		}
		return denied(fmt.Sprintf("%s is for callers with one of the roles %v", a, roles))
	case a == haft.ApprovalsWrite && p.Agent != "":
		return denied("an agent cannot approve: a person answers requests")
	case a == haft.ApprovalsWrite && p.User == "":
		return denied("an approver is a person: this credential has no user")
	case res.Person && p.Agent != "":
		return denied("an agent cannot agree for a person")
	}
	return nil
}

// reads reports whether an action shows what calls did: that is what those who
// answer requests for approval see of everybody.
func reads(a haft.Action) bool {
	switch a {
	case haft.CallsRead, haft.EventsRead, haft.ApprovalsRead, haft.UsageRead:
		return true
	}
	return false
}

// approves reports whether p has the role of those who answer requests.
func approves(p haft.Principal) bool {
	return p.Agent == "" && slices.Contains(p.Roles, haft.RoleApprover)
}

// missing is the error for what belongs to somebody else.
func missing(res Resource) error {
	if res.Kind == "" {
		return denied("it belongs to somebody else")
	}
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + res.Kind}
}

func denied(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }
