package server

import (
	"net/http"

	"haft"
)

// Identify says who sent a request to one of [Config.Mounts]: whose credential it is,
// and who acts, which is another one if as in the query or agent names an agent.
func (s *Server) Identify(w http.ResponseWriter, r *http.Request, agent string) (credential, actor Identity, err error) {
	if credential, err = s.auth.Authenticate(r, s.source(r)); err != nil {
		s.refused(r, WhyCredential, haft.Principal{}, err)
		return credential, credential, err
	}
	if name := takeAgent(r); name != "" {
		agent = name
	}
	if actor, err = s.become(r.Context(), credential, agent); err != nil {
		return credential, actor, err
	}
	for at := w; at != nil; {
		if rec, ok := at.(*writer); ok {
			rec.who = actor.Principal // for the log
			break
		}
		inner, ok := at.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		at = inner.Unwrap()
	}
	return credential, actor, nil
}
