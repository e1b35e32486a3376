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

// madeBy is the call that makes a session. Its arguments are kept only if it has a workspace: see [Manager.Mounted].
func madeBy(req executor.Request) haft.Call {
	c := haft.Call{ID: req.Call, Principal: req.Principal}
	if req.Workspace != nil {
		w := *req.Workspace.Call
		c.Tool, c.Args, c.Turn, c.Workspace, c.Requirements = req.Tool, req.Args, req.Turn, &w, req.Requirements
	}
	return c
}

// Mounted returns the calls that made the sessions with a workspace of an organisation, or of all if it is empty. Those
// that are making one now are among them.
func (m *Manager) Mounted(org string) []haft.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []haft.Call
	add := func(c haft.Call) {
		if c.Workspace != nil && (org == "" || c.Principal.Org == org) {
			list = append(list, c)
		}
	}
	for _, s := range m.live {
		add(s.made)
	}
	for o := range m.opening {
		add(o.made)
	}
	return list
}

// EndMadeBy ends the session that a call has made or is making, if there is one. It waits until nothing of a session
// runs that was made.
func (m *Manager) EndMadeBy(call haft.CallID, why string) {
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

// Recheck ends the sessions with a workspace that could not be made any more: what runs in them between calls would go
// on to write to the workspace, and keep it from others. Allowed returns [haft.CodeDenied] for their calls.
func (m *Manager) Recheck(ctx context.Context, org string, allowed func(context.Context, haft.Call) error) {
	for _, c := range m.Mounted(org) {
		if haft.CodeOf(allowed(ctx, c)) == haft.CodeDenied {
			m.EndMadeBy(c.ID, "what allowed it was withdrawn")
		}
	}
}
