package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft/sandbox"
)

// An interpreter is a program of the host and what it needs of the host.
type interpreter struct {
	argv   []string // up to the source
	mounts []sandbox.Mount
}

// systemMounts are the system's programs and libraries. On most systems /bin and
// /lib are links into /usr, which a provider follows.
func systemMounts() []sandbox.Mount {
	var mounts []sandbox.Mount
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil { // not every system has all of them
			mounts = append(mounts, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
	return mounts
}

// findShell returns the POSIX shell.
func findShell() (interpreter, error) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		return interpreter{}, fmt.Errorf("find a shell: %w", err)
	}
	return interpreter{argv: []string{"/bin/sh", "-c"}, mounts: systemMounts()}, nil
}

// findPython returns a Python 3 with ctypes: the system's, or one of the path.
func findPython() (interpreter, error) {
	candidates := []string{"/usr/bin/python3"}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		candidates = append(candidates, filepath.Join(dir, "python3"))
	}
	for _, c := range candidates {
		real, err := filepath.EvalSymlinks(c)
		if err != nil || !binary(real) {
			continue // a shim of a version manager is a script
		}
		mounts := systemMounts()
		prefix := filepath.Dir(filepath.Dir(real))
		if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool {
			return strings.HasPrefix(real, m.Inside+"/")
		}) {
			mounts = append(mounts, sandbox.Mount{Host: prefix, Inside: prefix})
		}
		return interpreter{argv: []string{real, "-I", "-S", "-c"}, mounts: mounts}, nil
	}
	return interpreter{}, fmt.Errorf("no python3 in /usr/bin or on the path")
}

// binary reports whether path is a program and not a script.
func binary(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 2)
	_, err = f.Read(magic)
	return err == nil && string(magic) != "#!"
}
