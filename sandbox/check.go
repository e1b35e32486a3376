package sandbox

import (
	"path"
	"strconv"
	"strings"

	"haft"
)

// What a Spec may hold at most. The kernel's own bounds (MAX_ARG_STRLEN, 128 KiB
// for one string, and a quarter of the stack for all) would otherwise show up as
// E2BIG after the sandbox has been made.
const (
	maxStrings     = 4096
	maxString      = 128<<10 - 1
	maxStringBytes = 1 << 20
	maxMounts      = 256
	maxFiles       = 4096
	maxName        = 1024
	maxNamePart    = 255 // NAME_MAX
	maxNameDepth   = 32
)

// Check reports, as an error with [haft.CodeInvalid], what is wrong with s. A
// provider calls it before it does anything else.
func (s Spec) Check() error {
	if len(s.Argv) == 0 || !path.IsAbs(s.Argv[0]) {
		return invalid("the command is not an absolute path")
	}
	if err := checkStrings(s.Argv, s.Env); err != nil {
		return err
	}
	for _, kv := range s.Env {
		if strings.Index(kv, "=") <= 0 {
			return invalid("an environment entry is not NAME=VALUE")
		}
	}
	if len(s.Mounts) > maxMounts {
		return invalid("there are too many mounts")
	}
	seen := map[string]bool{}
	for _, m := range s.Mounts {
		if m.File != nil && seen[m.Inside] {
			return invalid("two mounts are at the same path inside")
		}
		seen[m.Inside] = true
		if !cleanAbs(m.Host) || !cleanAbs(m.Inside) || m.Inside == "/" {
			return invalid("a mount is not between clean absolute paths")
		}
	}
	if s.Network != NetworkNone && s.Network != NetworkEgress && s.Network != NetworkFull {
		return invalid("the kind of network is not known")
	}
	if (s.ServeEgress != nil) != (s.Network == NetworkEgress) {
		return invalid("egress and the kind of network do not go together")
	}
	if s.Loopback && s.Network == NetworkFull {
		return invalid("a loopback of its own and the network of the host do not go together")
	}
	return checkFiles(s.Files)
}

// checkStrings bounds what execve gets.
func checkStrings(lists ...[]string) error {
	total := 0
	for _, list := range lists {
		if len(list) > maxStrings {
			return invalid("there are too many arguments or environment entries")
		}
		for _, s := range list {
			if len(s) > maxString {
				return invalid("an argument or environment entry is too long")
			}
			if strings.IndexByte(s, 0) >= 0 {
				return invalid("an argument or environment entry holds a NUL")
			}
			total += len(s) + 1
		}
	}
	if total > maxStringBytes {
		return invalid("arguments and environment are too large together")
	}
	return nil
}

// checkFiles checks that every file lies below /work and that none is a directory of
// another.
func checkFiles(files []File) error {
	if len(files) > maxFiles {
		return invalid("there are too many files")
	}
	seen, dirs := map[string]bool{}, map[string]bool{"out": true}
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if seen[f.Name] {
			return invalid("the file " + strconv.Quote(f.Name) + " is given twice: the tool may have it already")
		}
		seen[f.Name] = true
		for d := path.Dir(f.Name); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for name := range seen {
		if dirs[name] {
			return invalid("a file is where a directory has to be")
		}
	}
	return nil
}

// checkName accepts clean relative paths only.
func checkName(name string) error {
	if name == "" || name == "." || path.IsAbs(name) || path.Clean(name) != name ||
		name == ".." || strings.HasPrefix(name, "../") || strings.IndexByte(name, 0) >= 0 {
		return invalid("the name of a file is not a clean relative path")
	}
	parts := strings.Split(name, "/")
	if len(name) > maxName || len(parts) > maxNameDepth {
		return invalid("the name of a file is too long or too deep")
	}
	for _, p := range parts {
		if len(p) > maxNamePart {
			return invalid("a part of the name of a file is too long")
		}
	}
	return nil
}

// cleanAbs reports whether p is an absolute path in its shortest form.
func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && strings.IndexByte(p, 0) < 0
}

// invalid returns an error with [haft.CodeInvalid].
func invalid(msg string) error { return &haft.Error{Code: haft.CodeInvalid, Message: msg} }
