package script

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// programData is what programs of the system read besides their libraries.
var programData = []string{"/etc/alternatives", "/usr/share/awk", "/usr/share/perl", "/usr/share/misc",
	"/usr/share/git-core"}

// systemPrograms returns the paths of a program where tools of Bash see programs, and nowhere
// else: a link that leads to another place counts as none.
func systemPrograms(name string) []string {
	var list []string
	dirs := filepath.SplitList(DefaultPath)
	for _, dir := range dirs {
		file := (&Finder{cfg: FinderConfig{Path: dir}}).Program(name)
		real, err := filepath.EvalSymlinks(file)
		if file != "" && err == nil && (systemDir(real) != "" || slices.Contains(dirs, filepath.Dir(real))) {
			list = append(list, file)
		}
	}
	return list
}

// HasSystemProgram reports whether the host has a program that tools can name.
func HasSystemProgram(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/\x00") && len(systemPrograms(name)) > 0
}

// programFiles returns what programs need in a sandbox: themselves, under each path that the
// host has for them, and the libraries and data of the system.
func programFiles(names []string) []string {
	list := append(existing(systemDirs), existing(programData)...)
	for _, n := range names {
		list = append(list, systemPrograms(n)...)
	}
	return list
}

// missingProgram returns a program that a tool could not start and does not name, or "". The
// text is the last argument of the message of an exception of subprocess, in quotes, or the
// program that Node.js could not start. Whether the host has it does not count: the tool made
// the text, and would learn that.
func missingProgram(f *haft.Failure, declared []string) string {
	text := ""
	switch f.Type {
	case "FileNotFoundError", "PermissionError":
		if parts := strings.Split(f.Message, "'"); len(parts) == 3 && strings.HasPrefix(parts[0], "[Errno ") &&
			strings.Contains(f.Traceback, `subprocess.py", line `) {
			text = parts[1]
		}
	case "Error":
		if fields := strings.Fields(f.Message); len(fields) == 3 && strings.HasPrefix(fields[0], "spawn") &&
			(fields[2] == "ENOENT" || fields[2] == "EACCES") {
			text = fields[1]
		}
	}
	name := filepath.Base(text)
	if text != name && !slices.Contains(filepath.SplitList(DefaultPath), filepath.Dir(text)) ||
		slices.Contains(declared, name) || text == "" {
		return ""
	}
	return name
}

// A ProgramSpec is what a program of the host needs in a sandbox.
type ProgramSpec struct {
	Env    []string
	Mounts []sandbox.Mount
	Files  []sandbox.File
}

// NewProgramSpec returns what a program needs besides its arguments: itself and the
// system's libraries, what runtime brings (nil means none), and with egress the
// way to it and the certificates to trust.
func NewProgramSpec(program string, runtime []sandbox.Mount, kind sandbox.Network, ca []byte) (*ProgramSpec, error) {
	needs := append(existing(systemDirs), hosts(runtime)...)
	o := &ProgramSpec{Env: baseEnv(kind)}
	switch kind {
	case sandbox.NetworkFull:
		needs = append(needs, existing(network)...)
	case sandbox.NetworkEgress:
		needs = append(needs, existing(trust)...)
		if len(ca) == 0 {
			if roots := systemRoots(); roots != "" {
				o.Env = append(o.Env, "SSL_CERT_FILE="+roots)
			}
			break
		}
		roots, err := rootsWith(ca)
		if err != nil {
			return nil, err
		}
		for _, n := range caNames {
			o.Env = append(o.Env, n+"=/work/"+caFile)
		}
		o.Files = append(o.Files, sandbox.File{Name: caFile, Data: roots})
	}
	o.Mounts = mountsFor(program, "", needs)
	return o, nil
}

// Program finds a program by name where interpreters are looked for, or by its
// absolute path. It returns "" if there is none.
func (f *Finder) Program(name string) string {
	runs := func(file string) bool {
		st, err := os.Stat(file)
		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	}
	if filepath.IsAbs(name) {
		if name = filepath.Clean(name); runs(name) {
			return name
		}
		return ""
	}
	for _, dir := range filepath.SplitList(f.cfg.Path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && filepath.Base(name) == name && runs(file) {
			return file
		}
	}
	return ""
}
