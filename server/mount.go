package server

import (
	"cmp"
	"net/http"

	"haft"
)

// Identify authenticates a request to one of [Config.Mounts]. It returns the owner of the
// credential, and the actor, which differs if the query or agent names an agent.
func (s *Server) Identify(w http.ResponseWriter, r *http.Request,
	agent string) (credential, actor Identity, err error) {
	if credential, err = s.requests.identify(r, s.proxies.sourceAddr(r)); err != nil {
		s.reportRefusal(r, whyOf(err), haft.Principal{}, err)
		return credential, credential, err
	}
	name, err := namedAgent(r)
	if err != nil {
		return credential, credential, err
	}
	if name != "" && agent != "" && name != agent {
		return credential, credential, &haft.Error{Code: haft.CodeInvalid, Message: "the request names two agents"}
	}
	agent = cmp.Or(name, agent)
	if actor, err = s.actAs(r.Context(), credential, agent); err != nil {
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

// Refuse reports a refused request to one of [Config.Mounts] that has another right than a credential.
func (s *Server) Refuse(r *http.Request, err error) {
	s.reportRefusal(r, whyOf(err), haft.Principal{}, err)
}

// Busy returns why a request to one of [Config.Mounts] is not served that has another right than a
// credential: it came on the reserve, which is for operators.
func Busy(r *http.Request) error {
	if l := openRequestOf(r.Context()); l != nil && l.reserved {
		return errBusy
	}
	return nil
}
