package observe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"haft"
)

// Declared is what a tool is declared to touch.
type Declared struct {
	// Files are paths inside of the sandbox, in which * stands for a part of a name, and /** at the end for everything
	// below. With :rw at the end they may be changed, too.
	Files []string `json:"files"`
	// Programs are paths or names of programs that it starts.
	Programs []string `json:"programs"`
	// Hosts are those that it reaches, *.example.com included, and addresses that it connects to by itself. socket:udp
	// and socket:raw are sockets that it tries to open.
	Hosts []string `json:"hosts"`
}

// maxEntry bounds an entry of a declaration.
const maxEntry = 4096

// Check reports an entry that cannot be one.
func (d Declared) Check() error {
	for what, list := range map[string][]string{"files": d.Files, "programs": d.Programs, "hosts": d.Hosts} {
		for i, entry := range list {
			_, err := path.Match(strings.TrimSuffix(entry, "/**"), "")
			if entry == "" || len(entry) > maxEntry || err != nil || what == "files" && entry[0] != '/' {
				form := map[string]string{"files": "absolute path or pattern, such as /work/** or /etc/hosts:rw",
					"programs": "name or path of a program", "hosts": "name of a host"}[what]
				return &haft.Error{Code: haft.CodeInvalid,
					Message: fmt.Sprintf("touches: %s: entry %d is no %s", what, i+1, form)}
			}
		}
	}
	return nil
}

// With returns d with what the settings of a tool declare.
func (d Declared) With(s haft.Settings) Declared {
	d.Programs, d.Hosts = slices.Concat(d.Programs, s.Programs), slices.Concat(d.Hosts, s.Network)
	return d
}

// covering returns the entries of d that cover a.
func (d Declared) covering(a haft.Access) []string {
	list, fits := d.Hosts, fitsHost
	switch a.Kind {
	case haft.AccessSocket:
		fits = func(entry, name string) bool { return entry == name || entry == "full" }
	case haft.AccessRead, haft.AccessWrite:
		list, fits = d.Files, func(entry, name string) bool {
			entry, writable := strings.CutSuffix(entry, ":rw")
			return fitsPath(entry, name) && (writable || a.Kind == haft.AccessRead)
		}
	case haft.AccessProgram:
		list, fits = d.Programs, func(entry, name string) bool {
			return fitsPath(entry, name) || !strings.Contains(entry, "/") && fitsPath(entry, path.Base(name))
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return !fits(entry, a.Name) })
}

// fitsPath reports whether a path fits a pattern.
func fitsPath(pattern, name string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/**"); ok {
		return name == dir || strings.HasPrefix(name, dir+"/")
	}
	fits, err := path.Match(pattern, name)
	return fits && err == nil
}

// fitsHost reports whether a host, perhaps with its port, fits an entry, which may leave the port out. An entry that is
// more than a name was judged by the egress route, which let the host pass.
func fitsHost(entry, name string) bool {
	if entry == "full" || isRule(entry) {
		return !strings.HasPrefix(name, "unix:")
	}
	fits := func(name string) bool {
		suffix, wild := strings.CutPrefix(strings.ToLower(entry), "*.")
		return strings.EqualFold(entry, name) || wild && strings.HasSuffix(strings.ToLower(name), "."+suffix)
	}
	host, _, hasPort := strings.Cut(name, ":")
	return fits(name) || hasPort && fits(host)
}

// isRule reports whether an entry of a network is a rule for requests, and not a name or the path of a socket.
func isRule(entry string) bool {
	return strings.ContainsAny(entry, " /") && !strings.HasPrefix(entry, "unix:")
}

// Undeclared returns a sentence for each access of a tool that d does not cover, and for a list that is not complete.
func (d Declared) Undeclared(tool string, t haft.Touched) []string {
	var all []string
	switch {
	case !t.Observed:
		all = append(all, tool+" was not observed: only scripts in the sandbox local are, so that what it touches "+
			"cannot be compared with what its test declares")
	case t.Cut:
		all = append(all, tool+" touched more than is recorded, so that it may have touched what its test does not "+
			"declare")
	}
	for _, a := range t.Accesses {
		switch {
		case a.Denied:
			all = append(all, fmt.Sprintf("%s tried to reach %s, which the network of the tool does not allow", tool,
				a.Name))
		case len(d.covering(a)) > 0:
		default:
			name := a.Name
			if name == hostsFile {
				name += ", as a lookup of a name does"
			}
			all = append(all, fmt.Sprintf("%s %s %s, which its test does not declare", tool, verb(a.Kind), name))
		}
	}
	return all
}

// socketPrefix begins the names of sockets that a tool may not have.
const socketPrefix = "socket:"

// hostsFile is read by the libraries of the system when a program looks up a name. With an egress route they ask no
// server.
const hostsFile = "/etc/hosts"

// verb says what a tool did.
func verb(k haft.AccessKind) string {
	return map[haft.AccessKind]string{haft.AccessRead: "read", haft.AccessWrite: "wrote", haft.AccessProgram: "ran",
		haft.AccessConnect: "connected to", haft.AccessSocket: "tried to open", haft.AccessHost: "reached"}[k]
}

// Unused returns a sentence for each entry of d that no access needed.
func (d Declared) Unused(all haft.Touched) []string {
	used := map[string]bool{}
	for _, a := range all.Accesses {
		for _, entry := range d.covering(a) {
			used[group(a.Kind)+entry] = true
		}
	}
	var unused []string
	for _, g := range []struct {
		name string
		list []string
	}{{"files", d.Files}, {"programs", d.Programs}, {"hosts", d.Hosts}} {
		for _, entry := range g.list {
			// A rule for requests says more than a host, and is not compared.
			if !used[g.name+entry] && !(g.name == "hosts" && isRule(entry)) {
				unused = append(unused, fmt.Sprintf("the %s %s is declared, and no case touched it: remove it, or "+
					"add a case", strings.TrimSuffix(g.name, "s"), entry))
			}
		}
	}
	return unused
}

// group is the list of a declaration that a kind is declared in.
func group(k haft.AccessKind) string {
	switch k {
	case haft.AccessRead, haft.AccessWrite:
		return "files"
	case haft.AccessProgram:
		return "programs"
	}
	return "hosts"
}
