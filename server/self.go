package server

import (
	"context"
	"net/http"
	"time"

	"haft"
)

// agentParam is the query parameter that names the agent that a request acts as. It does for
// every request what agent does in some bodies, and needs the same permission. It is not a
// header because headers are not signed: removing one on the way would give the request more
// rights.
const agentParam = "as"

// maxAgent bounds the name of an agent.
const maxAgent = 200

// agentKey is the context key of that agent, for the address of the next page.
type agentKey struct{}

// actAs returns the identity of a caller who acts as an agent: it may do nothing that the
// agent may not.
func (s *Server) actAs(ctx context.Context, who Identity, agent string) (Identity, error) {
	if len(agent) > maxAgent {
		return who, &haft.Error{Code: haft.CodeInvalid, Message: "the name of the agent is too long"}
	}
	p, err := who.As(ctx, s.service, agent)
	if err != nil {
		return who, err
	}
	if p.Agent != who.Principal.Agent {
		who.ActAs, who.Credential = nil, nil
	}
	who.Principal = p
	return who, nil
}

// actAsNamed returns the identity of a caller who acts as the agent that the query names,
// if it names one.
func (s *Server) actAsNamed(r *http.Request, who Identity) (_ Identity, agent string, err error) {
	if agent, err = namedAgent(r); err == nil && agent != "" {
		who, err = s.actAs(r.Context(), who, agent)
	}
	return who, agent, err
}

// Self describes the caller as the server knows it.
type Self struct {
	Principal haft.Principal `json:"principal"`
	Operator  bool           `json:"operator,omitempty" doc:"The principal runs the whole server."`
	Actions   []haft.Action  `json:"actions" nullable:"false" doc:"What the principal may do with this credential: its scope and its roles allow it. Rules and ownership decide what with."`
	Expires   time.Time      `json:"expires_at,omitzero" doc:"When the credential expires; never if it is left out."`
	Version   string         `json:"version" doc:"That of the server."`
}

// self registers the operation on the caller.
func (a *api) self() {
	register(a.group("identity", anyAction, anyAction).
		op("GET /v1/whoami", "whoami", "Say who the credential is, and what it is for").
		about("With `as`, which every request takes, it is the agent of that name, if the credential may act as it."),
		func(_ context.Context, who Identity, _ *struct{}) (*shown[Self], error) {
			return &shown[Self]{Self{
				Principal: who.Principal, Operator: who.Rules.Operates(who.Principal),
				Actions: who.Rules.Allowed(who.Principal),
				Expires: who.Expires, Version: a.s.cfg.Version,
			}}, nil
		})
}
