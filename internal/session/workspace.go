package session

import (
	"context"
	"encoding/json"

	"haft"
	"haft/executor"
)

// mount takes the workspace of a request for its session. It returns an empty one if there is none, or an error.
func mount(ctx context.Context, req *executor.Request) (*executor.Mounted, error) {
	none := &executor.Mounted{Release: func() {}}
	if req.Workspace == nil {
		return none, nil
	}
	mounted, err := req.Workspace.Mount(ctx)
	if err != nil {
		return none, err
	}
	req.Workspace = mounted.Workspace
	return mounted, nil
}

// Brings returns the workspace and the packages with which the session was made that the arguments of a call name.
func (m *Manager) Brings(p haft.Principal, args json.RawMessage) (*haft.CallWorkspace, haft.Requirements) {
	m.mu.Lock()
	none := len(m.live) == 0
	m.mu.Unlock()
	var in struct {
		Session string `json:"session"`
	}
	if none || json.Unmarshal(args, &in) != nil || in.Session == "" {
		return nil, haft.Requirements{} // what is wrong with the arguments is said where they are validated
	}
	s, err := m.Get(p, in.Session)
	if err != nil {
		return nil, haft.Requirements{} // it is made by the call
	}
	if s.workspace == nil {
		return nil, s.info.Requirements
	}
	w := *s.workspace
	return &w, s.info.Requirements
}
