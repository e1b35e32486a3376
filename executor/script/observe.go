package script

import (
	"path"
	"strings"

	"haft"
	"haft/sandbox"
)

// ownPaths are the paths inside of the sandbox whose reading is no doing of the tool: those of the interpreter, of its
// packages, and of files that Haft puts there.
func (r *run) ownPaths() []string {
	paths := []string{"/work/" + ownDir}
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

// ownDir is where files are that Haft itself puts into the work directory.
const ownDir = ".haft"

// madePaths are the paths of ownDir that Haft makes when the call begins: certificates, files that are arguments, and
// their directories.
func (r *run) madePaths() []string {
	var names, paths []string
	for _, f := range allFiles(r.req) {
		names = append(names, f.Name)
	}
	if len(r.req.CA) > 0 {
		names = append(names, caFile)
	}
	for _, name := range names {
		for name = path.Clean(name); name == ownDir || strings.HasPrefix(name, ownDir+"/"); name = path.Dir(name) {
			paths = append(paths, "/work/"+name)
		}
	}
	return paths
}
