package service

import (
	"context"

	"haft"
	"haft/internal/session"
)

// A SessionManager lists and ends sessions. Calls make them.
type SessionManager struct {
	*base
	sessions *session.Manager
}

var _ haft.Sessions = (*SessionManager)(nil)

// Sessions implements [haft.Sessions].
func (m *SessionManager) Sessions(_ context.Context, p haft.Principal) ([]haft.Session, error) {
	if err := m.authority.May(p, haft.CallsRead); err != nil {
		return nil, err
	}
	if m.sessions == nil {
		return []haft.Session{}, nil
	}
	return m.sessions.List(p, m.authority.SeesAll(p, haft.CallsRead)), nil
}

// EndSession implements [haft.Sessions].
func (m *SessionManager) EndSession(_ context.Context, p haft.Principal, id string) error {
	if err := m.authority.May(p, haft.CallsWrite); err != nil {
		return err
	}
	if m.sessions == nil {
		return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such session"}
	}
	return m.sessions.End(p, id, m.authority.SeesAll(p, haft.CallsWrite))
}
