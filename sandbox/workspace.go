package sandbox

import "strings"

// WorkspaceDir is where a workspace is mounted. A sandbox without a view of its own of the file
// system has it at its path on the host.
const WorkspaceDir = "/workspace"

// FirstOwner and Owners are the range of user ids of the host that own workspaces. It ends where
// that of the runs begins.
const (
	FirstOwner = 0x60000000
	Owners     = 0x10000000
)

// WorkspaceAtHost returns s for a sandbox without a view of its own of the file system: the
// mount at [WorkspaceDir] is at its path of the host, and so are the values of variables.
func (s Spec) WorkspaceAtHost() Spec {
	for i, m := range s.Mounts {
		if m.Inside != WorkspaceDir || m.File == nil {
			continue
		}
		s.Mounts = append([]Mount(nil), s.Mounts...)
		s.Mounts[i].Inside = m.Host
		s.Env = append([]string(nil), s.Env...)
		for j, kv := range s.Env {
			if name, value, _ := strings.Cut(kv, "="); value == WorkspaceDir {
				s.Env[j] = name + "=" + m.Host
			}
		}
	}
	return s
}
