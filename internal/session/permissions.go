package session

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"haft"
)

// Permissions are asked whether sessions are still allowed. Its functions return [haft.CodeUnauthenticated] or
// [haft.CodeDenied] if what allowed a session was withdrawn. After any other error they are asked again.
type Permissions struct {
	// Credential is asked about the owner of every session.
	Credential func(context.Context, haft.Principal) error
	// Call is asked about the call that made a session with a workspace: what runs in it between calls would go
	// on to write to the workspace, and keep it from others.
	Call func(context.Context, haft.Call) error
	// Logger is warned when they fail. Nil discards.
	Logger *slog.Logger
}

const (
	// askTime bounds one question to [Permissions].
	askTime = 10 * time.Second
	// reviewAgain is when sessions are reviewed again about which a question failed.
	reviewAgain = 500 * time.Millisecond
)

// A subject is a session that lives or is being made, for the review of permissions.
type subject struct {
	owner haft.Principal
	made  haft.Call
	due   *bool  // whether it has to be reviewed; [Manager.mu] guards it
	end   func() // does not wait until nothing of the session runs
}

// SetPermissions says who is asked whether sessions are still allowed. Without it nobody is. Call it before there are
// sessions.
func (m *Manager) SetPermissions(p Permissions) {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.permissions = p
}

// PermissionsChanged ends the sessions of an organisation, or of all if it is empty, that are not allowed any more. It
// does so in the background.
func (m *Manager) PermissionsChanged(org string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subjects(org) {
		*s.due = true
		m.review(s.owner.Org)
	}
}

// subjects returns the sessions of an organisation, or of all if it is empty. The caller holds mu.
func (m *Manager) subjects(org string) []subject {
	var list []subject
	for _, s := range m.live {
		if s.ctx.Err() == nil && (org == "" || s.owner.Org == org) {
			list = append(list, subject{s.owner, s.made, &s.due, func() { s.end("what allowed it was withdrawn") }})
		}
	}
	for o := range m.opening {
		if !o.stopped && (org == "" || o.owner.Org == org) {
			list = append(list, subject{o.owner, o.made, &o.due, func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				o.stopped = true
			}})
		}
	}
	return list
}

// review starts to review the sessions of an organisation that are due, unless that is being done. The caller holds mu.
func (m *Manager) review(org string) {
	if m.closed || m.permissions.Credential == nil || m.reviews[org] {
		return
	}
	m.reviews[org] = true
	m.reviewing.Go(func() { m.reviewOrg(org) })
}

// reviewOrg reviews the sessions of an organisation until none is due.
func (m *Manager) reviewOrg(org string) {
	for warned := false; ; {
		m.mu.Lock()
		due := slices.DeleteFunc(m.subjects(org), func(s subject) bool { return !*s.due })
		if len(due) == 0 || m.closed {
			delete(m.reviews, org)
			m.mu.Unlock()
			return
		}
		for _, s := range due {
			*s.due = false // it is again if permissions change from now on
		}
		m.mu.Unlock()
		err := m.reviewDue(due)
		if err == nil {
			continue
		}
		if !warned && m.ctx.Err() == nil {
			m.permissions.Logger.Warn("permissions of sessions cannot be looked at; it is tried again until they can",
				"org", org, "error", err)
			warned = true
		}
		select {
		case <-time.After(reviewAgain):
		case <-m.ctx.Done():
		}
	}
}

// reviewDue ends the sessions that are not allowed any more. Those about which a question failed are due again, and it
// returns the first error. It asks about all credentials first, which is faster than about calls.
func (m *Manager) reviewDue(due []subject) (failed error) {
	review := func(s subject, ask func(context.Context) error) (withdrawn bool) {
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		err := ask(ctx)
		if c := haft.CodeOf(err); c == haft.CodeUnauthenticated || c == haft.CodeDenied {
			s.end()
			return true
		}
		if err != nil {
			m.mu.Lock()
			*s.due = true
			m.mu.Unlock()
			if failed == nil {
				failed = err
			}
		}
		return false
	}
	due = slices.DeleteFunc(due, func(s subject) bool {
		return review(s, func(ctx context.Context) error { return m.permissions.Credential(ctx, s.owner) })
	})
	for _, s := range due {
		if s.made.Workspace != nil {
			review(s, func(ctx context.Context) error { return m.permissions.Call(ctx, s.made) })
		}
	}
	return failed
}
