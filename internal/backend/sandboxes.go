package backend

import "haft"

// SandboxesOf returns the sandbox configurations of a system.
func SandboxesOf(s System) haft.Sandboxes {
	if r, ok := s.(*Remote); ok {
		return r.Client.Sandboxes
	}
	return s.(*Local).API.Sandboxes
}
