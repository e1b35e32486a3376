package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"haft"
)

// reducedVar allows the reduced mode for every command.
const reducedVar = "HAFT_ALLOW_REDUCED"

// allowReduced adds the flag by which an operator allows tools to run without
// namespaces. A variable that is not a boolean allows nothing.
func allowReduced(f *pflag.FlagSet, to *bool) {
	allowed, err := strconv.ParseBool(os.Getenv(reducedVar))
	f.BoolVar(to, "allow-reduced", err == nil && allowed,
		"also run tools where there are no namespaces, with less isolation: haft doctor tells ($"+reducedVar+")")
}

// A hostKind is what Haft runs in.
type hostKind string

const (
	onMachine   hostKind = "machine"
	inPodman    hostKind = "podman"
	inDocker    hostKind = "docker"
	inContainer hostKind = "container"
)

// findHostKind returns what Haft runs in, by the files that runtimes leave below root
// and the variable that they set.
func findHostKind(root, variable string) hostKind {
	exists := func(name string) bool {
		_, err := os.Stat(root + name)
		return err == nil
	}
	switch {
	case exists("/run/.containerenv") || variable == "podman":
		return inPodman
	case exists("/.dockerenv") || variable == "docker":
		return inDocker
	case variable != "":
		return inContainer
	}
	return onMachine
}

// containerFlags are the flags of container runtimes with which Haft has namespaces, as in
// docs/deploy.md.
func containerFlags(p hostKind) string {
	if p == inPodman {
		return "podman run --security-opt unmask=ALL --security-opt seccomp=deploy/seccomp.json …"
	}
	return "docker run --security-opt seccomp=deploy/seccomp.json --security-opt apparmor=unconfined " +
		"--security-opt systempaths=unconfined …"
}

// A mode says how tools are confined here, why, and what to change.
type mode struct {
	Name    string   `json:"name"`
	In      hostKind `json:"in"`
	Allowed bool     `json:"allowed"`
	Why     string   `json:"why,omitempty"`
	Change  []string `json:"change,omitempty"`
}

// modeOf describes the isolation that a provider gives on a host. allowed says that
// the operator allows the reduced mode.
func modeOf(provider string, iso haft.Isolation, in hostKind, allowed bool) mode {
	m := mode{Name: string(iso.Level), In: in, Allowed: true}
	if provider != "local" || iso.Level != haft.LevelReduced {
		return m
	}
	m.Allowed = allowed
	for _, c := range []haft.Control{haft.ControlUserNS, haft.ControlRoot, haft.ControlSeccomp, haft.ControlNoNewPriv} {
		if i := slices.IndexFunc(iso.Missing, func(g haft.Gap) bool { return g.Control == c }); i >= 0 {
			m.Why = fmt.Sprintf("no %s: %s", c, iso.Missing[i].Reason)
			break
		}
	}
	if in == onMachine {
		m.Change = append(m.Change, "give Haft namespaces: "+remedies[haft.ControlUserNS])
	} else {
		m.Change = append(m.Change, "give the container namespaces: "+containerFlags(in)+
			"  (docs/deploy.md says why that is safe)")
	}
	if !allowed {
		m.Change = append(m.Change, "or allow less isolation: haft … --allow-reduced, or "+reducedVar+"=1")
	}
	m.Change = append(m.Change, "or use another sandbox: --sandbox; process runs tools without isolation")
	return m
}

// printMode writes a mode for a person.
func printMode(w io.Writer, m mode) {
	if m.Name != string(haft.LevelReduced) {
		return
	}
	where, state := "on this machine", "tools are refused until the operator allows it"
	if m.In != onMachine {
		where = "in this container"
	}
	if m.Allowed {
		state = "the operator allows it"
	}
	fmt.Fprintf(w, "mode reduced %s: %s\n  why: %s\n", where, state, m.Why)
	for _, c := range m.Change {
		fmt.Fprintf(w, "  change: %s\n", c)
	}
	fmt.Fprintln(w)
}
