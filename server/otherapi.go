package server

import (
	"context"
	"net/http"

	"haft"
)

// An API is another way to the same service, such as the API of a system that
// people come from. What it answers is its own business; who may enter is not: the
// server has found out who sends, and has read the body, before it is asked.
type API interface {
	// Action is what the credential of r has to be for; "" means nothing in
	// particular, where r asks for what is not there.
	Action(r *http.Request) haft.Action
	// Enter answers r. Its body is whole, bounded and, if it was signed, what was
	// signed.
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
			s.fault(r.Context(), err).write(w, requestID(r.Context()))
			return
		}
		d.Serve(w, r, who)
	})
}

// canonical returns a principal whose agent is named by its id, as in everything that
// is kept. A token may name it otherwise. An agent that is not there stays as it is
// called, and may do nothing.
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

// As returns on whose behalf somebody acts who names an agent. An agent is named
// by its id from here on, so that filters find what it did. It is the one place at
// which a request becomes that of an agent, and from here on it ends with the agent.
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
