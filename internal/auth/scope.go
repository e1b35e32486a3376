package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/authority"
)

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
// called, and so is [haft.CallsWrite] for these. CallsWrite without a permission would
// let none be called and is refused: "tool:*" names them all.
func CheckScope(scope []string) error {
	if len(scope) > maxScope {
		return invalid(fmt.Sprintf("a scope has at most %d entries", maxScope))
	}
	for _, s := range scope {
		if !isPermission(s) && !haft.Action(s).Known() || !cleanText(s) {
			return invalid("a scope has actions, such as calls:read, and permissions, such as tool:NAME")
		}
	}
	if permissions, actions := splitScope(scope); len(permissions) == 0 && slices.Contains(actions, haft.CallsWrite) {
		return invalid("calls:write needs a permission for the tools to call, such as tool:*")
	}
	return nil
}

// splitScope splits a scope into permissions, for package policy, and actions, for package
// authority. Both are nil if scope is, and otherwise not nil. Other entries are dropped: they
// allow nothing.
func splitScope(scope []string) (permissions []string, actions []haft.Action) {
	if scope == nil {
		return nil, nil
	}
	permissions, actions = []string{}, []haft.Action{}
	for _, s := range scope {
		switch {
		case isPermission(s):
			permissions = append(permissions, s)
		case haft.Action(s).Known():
			actions = append(actions, haft.Action(s))
		}
	}
	if len(permissions) > 0 && !slices.Contains(actions, haft.CallsWrite) {
		actions = append(actions, haft.CallsWrite)
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
	return slices.Contains(actions, haft.AllActions) || slices.Contains(actions, haft.Action(entry))
}

// An Identity is the sender of a request, and what the credential allows. The zero Identity may
// do nothing.
type Identity struct {
	Principal haft.Principal
	// Key is the id of the API key, if it was one.
	Key string
	// KeyAgent is the agent that the API key names. Only [Authenticator.Recheck] sets it.
	KeyAgent string
	// AgentToken says that the credential is a token whose issuer can bind it to an agent: nobody knows any more
	// whether it did. Only [Authenticator.Recheck] sets it.
	AgentToken bool
	// Issuer is whose token it was, if it was one.
	Issuer string
	// Signed says that the request was signed. Its body must be read through
	// [CheckBody] with Digest.
	Signed bool
	Digest string
	// Terminal says that the caller is the operator at a terminal, who needs no credential and acts as every agent.
	Terminal bool
	// Expires is when the credential does, or zero. What goes on for longer than
	// a request ends then.
	Expires time.Time
	// Ends is when what this credential opened or began ends if nothing is changed
	// before: with Expires, with the overlap of a rotated key, or with a token and
	// the difference of clocks that it was accepted with. Zero means never.
	Ends time.Time

	scope []string
	rules authority.Rules
}

// Trusted returns the identity of a principal that needs no credential, because the caller is
// the operator. It has the permissions of the principal only.
func Trusted(p haft.Principal) Identity {
	id := Identity{Principal: p, Terminal: true}
	if p.Scope != nil || p.Actions != nil {
		id.scope = append([]string{}, p.Scope...)
		for _, a := range p.Actions {
			id.scope = append(id.scope, string(a))
		}
	}
	return id
}

// May reports why the credential is not for the action: it asks package authority,
// with the principal that has the scope of the credential.
func (id Identity) May(a haft.Action) error {
	return id.rules.Authorize(id.Principal, a, authority.Resource{})
}

// MayIssue reports why k would allow more than the credential itself: a key of another
// organisation, with a role that the principal neither has nor may give as an administrator,
// with a wider scope, or with a later expiry.
func (id Identity) MayIssue(k Key) error {
	if err := id.May(haft.KeysWrite); err != nil {
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
	if id.scope != nil &&
		(k.Scope == nil || slices.ContainsFunc(k.Scope, func(s string) bool { return !covers(id.scope, s) })) {
		return denied("a key has no wider scope than the one it is made with")
	}
	if id.Key != "" && !id.Expires.IsZero() && (k.Expires.IsZero() || k.Expires.After(id.Expires)) {
		return denied("a key does not outlive the one it is made with")
	}
	return nil
}
