package server

import (
	"context"
	"net/http"

	"haft"
)

// API is another API of the same service, such as that of a system that people migrate
// from. It decides what it answers, but not who may call it: the server has authenticated
// the sender and read the body before.
type API interface {
	// Action is the action that the credential of r must allow; "" means none, where r has no
	// route.
	Action(r *http.Request) haft.Action
	// Serve answers r. Its body was read completely, is bounded and, if it was signed,
	// verified.
	Serve(w http.ResponseWriter, r *http.Request, who Identity)
}

// serveAPI authenticates requests of another API.
func (s *Server) serveAPI(d API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action := d.Action(r)
		if action == "" {
			action = anyAction
		}
		who, err := s.authenticate(w, r, action)
		if err == nil {
			who, _, err = s.actAsNamed(r, who)
		}
		if err != nil {
			s.errors.fault(r.Context(), err).write(w, requestID(r.Context()))
			return
		}
		d.Serve(w, r, who)
	})
}

// withAgentID returns a principal whose agent is named by its id, as in all that is
// stored. A token may have the name. A name of no agent stays, and may do nothing.
func (s *Server) withAgentID(ctx context.Context, p haft.Principal) haft.Principal {
	if p.Agent == "" || haft.IsAgentID(p.Agent) {
		return p
	}
	asker := p
	asker.Agent = ""
	if a, err := s.service.Agent(ctx, asker, p.Agent); err == nil {
		p.Agent = string(a.ID)
	}
	return p
}

// As returns the principal for a caller who names an agent. From here on the agent is
// named by its id, so that filters find its calls, and the request ends if the agent may
// no longer act. Only this method makes a request that of an agent.
func (id Identity) As(ctx context.Context, agents haft.Agents, agent string) (haft.Principal, error) {
	p := id.Principal
	if agent == "" || agent == p.Agent {
		return p, nil
	}
	denied := &haft.Error{Code: haft.CodeDenied, Message: "the credential is not for that agent"}
	if p.Agent == "" && id.ActAs == nil {
		return p, denied
	}
	a, err := agents.Agent(ctx, p, agent)
	if err != nil {
		return p, err
	}
	switch {
	case string(a.ID) == p.Agent || a.Name == p.Agent:
		return p, nil
	case p.Agent != "":
		return p, denied
	}
	if err := id.ActAs(string(a.ID)); err != nil {
		return p, err
	}
	p.Agent = string(a.ID)
	return p, actsAs(ctx, p.Agent)
}
