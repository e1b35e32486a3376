package script

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// systemDirs are mounted whole where anything in them is needed: they hold what
// every machine of this distribution has, and one mount is cheaper than forty.
var systemDirs = []string{"/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32", "/lib", "/lib64", "/nix/store"}

// always is what a program of the system expects besides its libraries: the cache of the
// linker, and the time zones.
var always = []string{"/etc/ld.so.cache", "/usr/share/zoneinfo"}

// openssl is what a program with OpenSSL reads before anything else. Node.js does
// without one that is missing, but not without one that it may not read, as in a
// sandbox without a view of its own of the file system.
var openssl = []string{"/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/usr/local/ssl/openssl.cnf"}

// network is what a program needs to find hosts and to trust them.
var network = []string{"/etc/hosts", "/etc/nsswitch.conf", "/etc/ca-certificates", "/usr/share/ca-certificates",
	"/etc/pki"}

// trust is what a program needs to check the certificates of servers. With egress it does
// not resolve names.
var trust = []string{
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ca-certificates",
	"/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust/extracted",
}

// withWorkspace adds what a call with a workspace has besides the mount.
func (r *run) withWorkspace(spec sandbox.Spec) sandbox.Spec {
	if w := r.req.Workspace; w != nil {
		spec.Env = append(spec.Env, "HAFT_WORKSPACE="+sandbox.WorkspaceDir)
		spec.Owner = w.Owner
	}
	return spec
}

// holdWorkspace returns run such that the workspace is the call's own while anything of it runs.
func (r *run) holdWorkspace(run runFunc) runFunc {
	w := r.req.Workspace
	if w == nil {
		return run
	}
	return func(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
		release, ok := w.Hold()
		if !ok {
			if spec.Channel != nil {
				_ = spec.Channel.Close() // as the provider does
			}
			return sandbox.Exit{}, errors.New("the call has given its workspace back")
		}
		defer release()
		return run(ctx, spec)
	}
}

// workdir reports whether the workspace is the working directory.
func (r *run) workdir() bool { return r.req.Workspace != nil && r.req.Workspace.Workdir }

// mounts are those of the runtime, what the network of the call and its programs need, the
// workspace and the layers.
func (r *run) mounts() []sandbox.Mount {
	list := r.hostMounts()
	if len(r.req.Programs) > 0 && r.req.Kind != haft.KindBash { // which has all of them
		list = mountsFor(r.rt.Argv[0], "", append(programFiles(r.req.Programs), hosts(list)...))
	}
	if len(r.req.Layers) == 0 && r.req.Workspace == nil {
		return list
	}
	list = slices.Clone(list)
	if w := r.req.Workspace; w != nil {
		list = append(list, sandbox.Mount{Host: w.Host, Inside: sandbox.WorkspaceDir, Writable: !w.ReadOnly,
			File: w.Dir})
	}
	for _, l := range r.req.Layers {
		list = append(list, sandbox.Mount{Host: l.Dir, Inside: l.Inside})
	}
	return list
}

// hostMounts are those of the runtime, and what the network of the call needs.
func (r *run) hostMounts() []sandbox.Mount {
	switch r.req.Network {
	case sandbox.NetworkFull:
		return mountsFor(r.rt.Argv[0], "", append(existing(network), hosts(r.rt.Mounts)...))
	case sandbox.NetworkEgress:
		return mountsFor(r.rt.Argv[0], "", append(existing(trust), hosts(r.rt.Mounts)...))
	}
	return r.rt.Mounts
}

// hosts returns the host's side of mounts.
func hosts(mounts []sandbox.Mount) []string {
	var out []string
	for _, m := range mounts {
		out = append(out, m.Host)
	}
	return out
}

// mountsFor returns the mounts for an interpreter, each at its own path: the file
// itself, the library directory of its prefix, and whatever else it names. The
// home that a prefix may lie in stays out of sight.
func mountsFor(executable, prefix string, needs []string) []sandbox.Mount {
	want := append([]string{executable}, always...)
	if prefix != "" && prefix != "/usr" && prefix != "/" {
		want = append(want, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))
	}
	for _, n := range needs {
		if dir := systemDir(n); dir != "" {
			n = dir
			// A library that was found in /usr/lib may be loaded by way of /lib.
			want = append(want, "/lib", "/lib64", "/usr/lib", "/usr/lib64")
		}
		want = append(want, n)
	}
	want = existing(want)
	slices.Sort(want)
	want = slices.Compact(want)
	var out []sandbox.Mount
	for _, w := range want {
		covered := slices.ContainsFunc(out, func(m sandbox.Mount) bool { return within(w, m.Host) })
		if !covered && filepath.Clean(w) == w && w != "/" {
			out = append(out, sandbox.Mount{Host: w, Inside: w})
		}
	}
	return out
}

// systemDir returns the directory of the system that p is in, or "".
func systemDir(p string) string {
	for _, d := range systemDirs {
		if within(p, d) {
			return d
		}
	}
	return ""
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// hiddenDirs returns the directories to leave out of text, longest first.
func hiddenDirs(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		if d != "" && d != "/" && d != "/usr" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}
