package client

import (
	"context"
	"net/http"

	"haft"
)

// Sessions are the sessions of a server. It implements [haft.Sessions].
type Sessions struct{ api *transport }

var _ haft.Sessions = (*Sessions)(nil)

// Sessions implements [haft.Sessions].
func (s *Sessions) Sessions(ctx context.Context, p haft.Principal) ([]haft.Session, error) {
	out, err := get[struct {
		Sessions []haft.Session `json:"sessions"`
	}](ctx, s.api, query{method: http.MethodGet, path: "/v1/sessions", as: p})
	if err != nil {
		return nil, err
	}
	return out.Sessions, nil
}

// EndSession implements [haft.Sessions].
func (s *Sessions) EndSession(ctx context.Context, p haft.Principal, id string) error {
	return s.api.read(ctx, query{method: http.MethodDelete, path: "/v1/sessions",
		item: &item{kind: "session", id: id}, as: p, again: true}, nil)
}
