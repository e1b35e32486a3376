// Package observe says what the accesses of a tool mean: which of them are the tool's own and not those of its
// interpreter, whether a declaration covers them, and which declaration would.
package observe

import (
	"path"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// Own returns what the tool itself touched. Paths below hidden, such as those of the interpreter and of packages, are
// left out where they are only read, and so is what every program of the system reads. Writes are left out of exactly
// the paths that Haft itself made when the call began.
func Own(t haft.Touched, hidden, made []string) haft.Touched {
	own := haft.Touched{Observed: true, Cut: t.Cut, IO: t.IO}
	for _, a := range t.Accesses {
		if !isNoise(a, hidden, made) {
			own.Accesses = append(own.Accesses, a)
		}
	}
	return own
}

// noise are files that libraries read by themselves. None says anything about the host or about other calls.
var noise = []string{"/", "/dev/null", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/tty", "/etc/localtime",
	"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/nsswitch.conf", "/etc/netsvc.conf", "/etc/svc.conf",
	"/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", "/etc/ssl/openssl.cnf", "/etc/mime.types", "/proc/self/fd",
	"/proc/self/maps", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/stat", "/proc/self/statm",
	"/proc/self/status", "/proc/self/task", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version_signature",
	"/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible"}

// noiseBelow are directories of such files.
var noiseBelow = []string{"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib32", "/lib64",
	"/usr/share/zoneinfo", "/usr/share/locale", "/etc/ssl/certs", "/etc/pki", "/etc/ca-certificates",
	"/usr/share/ca-certificates", "/sys/fs/cgroup", "/nix/store"}

// isNoise reports whether an access says nothing about the tool.
func isNoise(a haft.Access, hidden, made []string) bool {
	switch a.Kind {
	case haft.AccessConnect: // the egress route has its own record
		return a.Name == sandbox.EgressAddr || strings.HasSuffix(a.Name, "/nscd/socket")
	case haft.AccessRead:
		return slices.Contains(noise, a.Name) || below(a.Name, noiseBelow) || below(a.Name, hidden)
	case haft.AccessWrite:
		return a.Name == "/dev/null" || a.Name == "/dev/tty" || path.Base(path.Dir(a.Name)) == "__pycache__" ||
			path.Base(a.Name) == "__pycache__" || slices.Contains(made, a.Name)
	}
	return false
}

// below reports whether a path is one of dirs, or below one.
func below(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return name == d || strings.HasPrefix(name, d+"/") })
}
