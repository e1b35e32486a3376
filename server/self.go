package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"haft"
)

// agentParam is the part of a query that names the agent on whose behalf a request
// is. It does for every request what agent does in some bodies, and needs the same
// leave. It is no header because those are not part of what is signed: who cuts one
// out on the way would make more of a request.
const agentParam = "as"

// maxAgent bounds the name of one.
const maxAgent = 200

// agentKey is where that agent is in the context of a request, for the address of
// the next page.
type agentKey struct{}

// takeAgent takes the agent out of the query of r, which operations do not know.
func takeAgent(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, agentParam+"=") {
		return ""
	}
	query := r.URL.Query()
	agent := strings.Join(query[agentParam], ",") // no agent has a name for two
	query.Del(agentParam)
	r.URL.RawQuery = query.Encode()
	return agent
}

// become returns the identity of somebody who acts as an agent: it may do nothing
// that the agent may not.
func (s *Server) become(ctx context.Context, who Identity, agent string) (Identity, error) {
	if len(agent) > maxAgent {
		return who, &haft.Error{Code: haft.CodeInvalid, Message: "the name of the agent is too long"}
	}
	p, err := s.as(ctx, who, agent)
	if err != nil {
		return who, err
	}
	if p.Agent != who.Principal.Agent {
		who.Operator, who.ActAs, who.Credential = false, nil, nil
	}
	who.Principal = p
	return who, nil
}

// Self is who the server takes somebody for.
type Self struct {
	Principal haft.Principal `json:"principal"`
	Operator  bool           `json:"operator,omitempty" doc:"The principal runs the whole server."`
	Actions   []Action       `json:"actions" nullable:"false" doc:"What the credential is for. What the principal may do with it is decided by the rules."`
	Expires   time.Time      `json:"expires_at,omitzero" doc:"When the credential expires; never if it is left out."`
	Version   string         `json:"version" doc:"That of the server."`
}

type oneSelf struct{ Body Self }

// self is about who asks.
func (a *api) self() {
	register(a, operation{method: http.MethodGet, path: "/v1/whoami", id: "whoami", action: anyAction, tag: "identity", summary: "Say who the credential is, and what it is for",
		about: "With `as`, which every request takes, it is the agent of that name, if the credential may act as it."}, a.s.whoami)
}

func (s *Server) whoami(_ context.Context, who Identity, _ *struct{}) (*oneSelf, error) {
	self := Self{Principal: who.Principal, Operator: who.Operator, Actions: []Action{}, Expires: who.Expires, Version: s.cfg.Version}
	for _, a := range Actions() {
		if who.Permit(a) == nil {
			self.Actions = append(self.Actions, a)
		}
	}
	return &oneSelf{self}, nil
}
