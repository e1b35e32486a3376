package server

import (
	"net/http"
	"net/netip"
	"time"

	"haft"
	"haft/internal/authority"
)

// anyAction is the action of operations that every credential may use. It is not the zero
// value, so that an operation without an action is refused.
const anyAction haft.Action = "any"

// Authenticator authenticates requests. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate checks the headers of r. It may replace r.Body by a reader that fails at its
	// end if the body is not the signed one; the server reads bodies to their end before it
	// acts. Source is the address that r came from.
	//
	// The error is [haft.CodeUnauthenticated] if the sender is not known,
	// [haft.CodeRateLimited] or [haft.CodeUnavailable].
	Authenticate(r *http.Request, source netip.Addr) (Identity, error)
}

// Identity is the sender of a request, and what the credential allows. The zero Identity may do
// nothing.
type Identity struct {
	Principal haft.Principal
	// Expires is when the credential does: streams end then. Zero means never.
	Expires time.Time
	// Rules name the roles of managers and operators. With them and the principal, package
	// authority decides what the identity may do.
	Rules authority.Rules
	// ActAs reports why the principal may not act as another agent than its own.
	// Nil means that it may act as none.
	ActAs func(agent string) error
	// Credential is data of the authenticator. [Config.Keys] gets it back: a key never may do
	// more than the credential that it is made with.
	Credential any
}

// Permit reports why the identity may not do an action at all. The service decides by the
// same function which resources it may use.
func (id Identity) Permit(a haft.Action) error {
	if a == anyAction {
		return id.Principal.Check()
	}
	return id.Rules.Authorize(id.Principal, a, authority.Resource{})
}

// operator reports why the identity may not do an action that concerns all
// organisations.
func (id Identity) operator(a haft.Action) error {
	return id.Rules.Authorize(id.Principal, a, authority.Resource{Server: true})
}

// operates reports whether the identity is that of an operator of the server.
func (id Identity) operates() bool { return id.operator(haft.Operate) == nil }
