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

// Brings returns the workspace and the packages with which the session was made that the arguments of a call name, and
// the sandbox that was named for it.
func (m *Manager) Brings(p haft.Principal, args json.RawMessage) (*haft.CallWorkspace, haft.Requirements, string) {
	m.mu.Lock()
	none := len(m.live) == 0
	m.mu.Unlock()
	var in struct {
		Session string `json:"session"`
	}
	if none || json.Unmarshal(args, &in) != nil || in.Session == "" {
		return nil, haft.Requirements{}, "" // what is wrong with the arguments is said where they are validated
	}
	s, err := m.Get(p, in.Session)
	if err != nil {
		return nil, haft.Requirements{}, "" // it is made by the call
	}
	if s.made.Workspace == nil {
		return nil, s.info.Requirements, s.wanted
	}
	w := *s.made.Workspace
	return &w, s.info.Requirements, s.wanted
}

// madeBy is the call that makes a session. Its arguments are kept only if it has a workspace: see [Permissions].
func madeBy(req executor.Request) haft.Call {
	c := haft.Call{ID: req.Call, Principal: req.Principal}
	if req.Workspace != nil {
		w := *req.Workspace.Call
		c.Tool, c.Args, c.Turn, c.Workspace, c.Requirements = req.Tool, req.Args, req.Turn, &w, req.Requirements
		c.Sandbox = req.Sandbox
	}
	return c
}

// EndMadeBy ends the session that a call has made or is making, if there is one. It waits until nothing of a session
// runs that was made. An empty id is that of no call.
func (m *Manager) EndMadeBy(call haft.CallID, why string) {
	if call == "" {
		return
	}
	m.mu.Lock()
	for o := range m.opening {
		o.stopped = o.stopped || o.made.ID == call
	}
	var made *Session
	for _, s := range m.live {
		if s.made.ID == call {
			made = s
		}
	}
	m.mu.Unlock()
	if made != nil {
		made.Close(why)
	}
}
