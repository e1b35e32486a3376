package access

import (
	"context"
	"net/http"
	"net/netip"
	"slices"

	"haft"
	"haft/internal/auth"
	"haft/internal/authority"
	"haft/internal/localsocket"
	"haft/server"
)

// An Authenticator finds the identity behind a request.
type Authenticator struct {
	Auth  *auth.Authenticator
	Rules authority.Rules
	// ActFor are roles that may call on behalf of every agent of their organisation;
	// managers may.
	ActFor []string
	Agents interface {
		Agent(ctx context.Context, org, ref string) (*haft.Agent, error)
	}
}

var _ server.Rechecker = Authenticator{}

// Authenticate implements [server.Authenticator].
func (d Authenticator) Authenticate(r *http.Request, source netip.Addr) (server.Identity, error) {
	// A client of the socket in the data directory could open the store itself. A key that it sends counts.
	if p, ok := localsocket.PeerOf(r.Context()); ok && len(r.Header.Values("Authorization")) == 0 {
		return d.identity(auth.Trusted(p)), nil
	}
	id, err := d.Auth.Admit(r, source)
	if err != nil {
		return server.Identity{}, err
	}
	return d.identity(id), nil
}

// identity returns the identity of the server for one of package auth.
func (d Authenticator) identity(id auth.Identity) server.Identity {
	p := id.Principal
	has := func(role string) bool { return slices.Contains(p.Roles, role) }
	known := server.Identity{Principal: p, Expires: id.Ends, Rules: d.Rules, Credential: id}
	if id.Terminal || d.Rules.Manages(p) || p.Agent == "" && slices.ContainsFunc(d.ActFor, has) {
		known.ActAs = func(string) error { return nil }
	}
	return known
}

// Recheck implements [server.Rechecker].
func (d Authenticator) Recheck(ctx context.Context, who server.Identity) (server.Identity, error) {
	id, ok := who.Credential.(auth.Identity)
	if !ok {
		return server.Identity{}, &haft.Error{Code: haft.CodeUnauthenticated,
			Message: "the credential is not known any more"}
	}
	now, err := d.Again(ctx, id)
	if err != nil {
		return server.Identity{}, err
	}
	return d.identity(now), nil
}

// Again is [auth.Authenticator.Recheck] with knowledge of agents: it also checks that a key
// may still act as the agent.
func (d Authenticator) Again(ctx context.Context, id auth.Identity) (auth.Identity, error) {
	now, err := d.Auth.Recheck(ctx, id)
	if err != nil || now.Key == "" || now.Principal.Agent == "" || now.KeyAgent == now.Principal.Agent {
		return now, err
	}
	if now.KeyAgent == "" { // somebody acts as the agent
		self := now
		self.Principal.Agent = ""
		if d.identity(self).ActAs == nil {
			return now, &haft.Error{Code: haft.CodeDenied, Message: "the API key may not act as the agent any more"}
		}
		return now, nil
	}
	// One may be the name of the agent and the other its id.
	a, err := d.Agents.Agent(ctx, now.Principal.Org, now.KeyAgent)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return now, err
	}
	if err != nil || string(a.ID) != now.Principal.Agent && a.Name != now.Principal.Agent {
		return now, &haft.Error{Code: haft.CodeUnauthenticated, Message: "the API key is for another agent now"}
	}
	return now, nil
}

// As returns p as an agent that it is not, if p may act as every agent, as [server.Identity.As] does for requests.
func (d Authenticator) As(ctx context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error) {
	p.Agent = ""
	if d.identity(auth.Identity{Principal: p}).ActAs == nil {
		return p, &haft.Error{Code: haft.CodeDenied, Message: "the credential is not for that agent"}
	}
	p.Agent = string(agent)
	now, err := d.Again(ctx, auth.Identity{Principal: p})
	if err == nil && now.AgentToken {
		err = &haft.Error{Code: haft.CodeDenied, Message: "tokens of the issuer can be for one agent only: " +
			"agents that " +
			"send messages to others need an API key"}
	}
	return now.Principal, err
}
