package script

import (
	"haft"
	"haft/sandbox"
)

// ownPaths are the paths inside of the sandbox whose reading is no doing of the tool: those of the interpreter, of its
// packages, and of files that Haft puts there.
func (r *run) ownPaths() []string {
	paths := []string{"/work/.haft"}
	for _, m := range r.mounts() {
		if !m.Writable && m.Inside != sandbox.WorkspaceDir {
			paths = append(paths, m.Inside)
		}
	}
	if r.req.Kind == haft.KindBash {
		paths = append(paths, "/etc/passwd") // the shell looks for the name of its user, in the sandbox's own file
	}
	return paths
}
