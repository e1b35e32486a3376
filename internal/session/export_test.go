package session

import "haft"

// Stopping reports whether a session of p that is being made was stopped.
func (m *Manager) Stopping(p haft.Principal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for o := range m.opening {
		if o.stopped && o.owner.Org == p.Org {
			return true
		}
	}
	return false
}

// Ignore drops what the agent says about the command, as if it did nothing any more.
func (p *Process) Ignore() { p.r.ignore() }
