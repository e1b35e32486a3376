package script

import (
	"os"
	"path/filepath"

	"haft/sandbox"
)

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
