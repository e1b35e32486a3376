package sandbox

import "strings"

// GivenFiles names the files below /work that the caller has put there.
func (s Spec) GivenFiles() []string {
	var names []string
	if s.Given != nil {
		names = s.Given()
	}
	for _, f := range s.Files {
		names = append(names, f.Name)
	}
	return names
}

// WorkAt returns the arguments and the environment of s for a sandbox without a
// view of its own of the file system, whose work directory is dir of the host:
// each argument, and each value of a variable, that is /work or begins with /work/
// is given as the path in dir. Neither list is nil, which some take for the
// environment of the host.
func (s Spec) WorkAt(dir string) (argv, env []string) {
	at := func(path string) string {
		if rest, ok := strings.CutPrefix(path, "/work"); ok && (rest == "" || rest[0] == '/') {
			return dir + rest
		}
		return path
	}
	argv, env = make([]string, 0, len(s.Argv)), make([]string, 0, len(s.Env))
	for _, a := range s.Argv {
		argv = append(argv, at(a))
	}
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		env = append(env, name+"="+at(value))
	}
	return argv, env
}
