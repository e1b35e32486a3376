package server

import (
	"context"

	"haft"
)

// sessions has the operations on sessions.
type sessions struct {
	s        *Server
	sessions haft.Sessions
}

func (a *api) sessions() {
	h := sessions{a.s, a.s.cfg.Sessions}
	g := a.group("sessions", haft.CallsRead, haft.CallsWrite).needs(h.sessions != nil, "sessions")
	register(g.op("GET /v1/sessions", "list-sessions", "List sessions, the oldest first").
		about("A call of `run_code` with `session` makes one. It ends when it was not used for a while, and with the "+
			"server."), h.list)
	register(g.op("DELETE /v1/sessions/{id}", "end-session", "End a session").
		about("The id may be the name that its owner gave it. Everything in the session ends before the answer comes."),
		h.end)
}

type sessionList struct {
	Body struct {
		Sessions []haft.Session `json:"sessions"`
	}
}

func (h sessions) list(ctx context.Context, who Identity, _ *struct{}) (*sessionList, error) {
	list, err := h.sessions.Sessions(ctx, who.Principal)
	if err != nil {
		return nil, err
	}
	out := &sessionList{}
	out.Body.Sessions = list
	return out, nil
}

type sessionID struct {
	ID string `path:"id" maxLength:"200"`
}

func (h sessions) end(ctx context.Context, who Identity, in *sessionID) (*struct{}, error) {
	return nil, h.sessions.EndSession(ctx, who.Principal, in.ID)
}
