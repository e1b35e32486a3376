// Package doctor finds out what this machine can promise: how tools are confined, which
// interpreters there are, and how to get what is missing.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"haft"
	"haft/app"
	"haft/internal/localsocket"
)

// ReducedVar is the variable that allows the reduced mode for every command.
const ReducedVar = "HAFT_ALLOW_REDUCED"

// remedies say how to get a control that is missing.
var remedies = map[haft.Control]string{
	haft.ControlUserNS: "allow user namespaces: sysctl user.max_user_namespaces=15000; on Ubuntu also " +
		"kernel.apparmor_restrict_unprivileged_userns=0; in a container run with --security-opt " +
		"seccomp=deploy/seccomp.json",
	haft.ControlMountNS:   "comes with user namespaces",
	haft.ControlPIDNS:     "comes with user namespaces",
	haft.ControlNetNS:     "comes with user namespaces; the kernel needs CONFIG_NET_NS",
	haft.ControlIPCNS:     "comes with user namespaces; the kernel needs CONFIG_IPC_NS",
	haft.ControlUTSNS:     "comes with user namespaces",
	haft.ControlCgroupNS:  "needs Linux 4.6 and user namespaces",
	haft.ControlTimeNS:    "needs Linux 6.2 with CONFIG_TIME_NS",
	haft.ControlRoot:      "comes with mount namespaces",
	haft.ControlCaps:      "start haft with the capabilities it is to drop, or as an ordinary user",
	haft.ControlNoNewPriv: "needs Linux 3.5",
	haft.ControlSeccomp:   "the kernel needs CONFIG_SECCOMP_FILTER",
	haft.ControlLandlock: "needs Linux 5.13, without namespaces Linux 6.2 (ABI 3), with landlock in CONFIG_LSM or " +
		"on the command line: lsm=landlock,…",
	haft.ControlMemory:  "run as root, or give this user a cgroup: systemd-run --user --scope -p Delegate=yes haft …",
	haft.ControlPIDs:    "run as root, or give this user a cgroup: systemd-run --user --scope -p Delegate=yes haft …",
	haft.ControlCPU:     "run as root, or give this user a cgroup: systemd-run --user --scope -p Delegate=yes haft …",
	haft.ControlRlimits: "every Linux has them",
	haft.ControlDisk:    "comes with mount namespaces",
	haft.ControlKernel:  "--sandbox gvisor has one; haft doctor --fix installs it",
}

// A Checkup is what was found.
type Checkup struct {
	Provider  string         `json:"provider"`
	Isolation haft.Isolation `json:"isolation"`
	Mode      Mode           `json:"mode"`
	Kernel    GuestKernel    `json:"gvisor"`
	Runtimes  []Runtime      `json:"runtimes"`
	// Data is the data directory, and Served the process that serves it, if one does.
	Data   string               `json:"data,omitempty"`
	Served *localsocket.Welcome `json:"served,omitempty"`
}

// A Runtime is an interpreter, or why there is none.
type Runtime struct {
	Kind    haft.Kind `json:"kind"`
	Version string    `json:"version,omitempty"`
	Path    string    `json:"path,omitempty"`
	Missing string    `json:"missing,omitempty"`
}

// Examine tries every control and looks for the interpreters. Allowed says that the operator
// allows the reduced mode.
func Examine(ctx context.Context, a *app.App, allowed bool) (Checkup, error) {
	provider, name := a.Provider()
	iso, err := provider.Isolation(ctx)
	if err != nil {
		return Checkup{}, fmt.Errorf("try the sandbox: %w", err)
	}
	in := findHostKind("", os.Getenv("container"))
	found := Checkup{Provider: name, Isolation: iso, Mode: modeOf(name, iso, in, allowed), Kernel: findKernel(ctx)}
	for _, kind := range []haft.Kind{haft.KindPython, haft.KindJavaScript, haft.KindBash} {
		r := Runtime{Kind: kind}
		if rt, err := a.Runtime(ctx, kind); err != nil {
			r.Missing = err.Error()
		} else {
			r.Version, r.Path = rt.Version, rt.Argv[0]
		}
		found.Runtimes = append(found.Runtimes, r)
	}
	found.Data, found.Served = findServer(ctx)
	return found, nil
}

// findServer returns the data directory and the process that serves it, or nil if none does.
func findServer(ctx context.Context) (string, *localsocket.Welcome) {
	dir, err := app.DataDir()
	if err != nil {
		return "", nil
	}
	conn, w, err := localsocket.Dial(ctx, dir, localsocket.Hello{Principal: haft.Principal{Org: "local"}})
	if err == nil {
		_ = conn.Close() // nothing is asked
	}
	if w.PID == 0 {
		return dir, nil
	}
	return dir, &w // also one that refuses us
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

// A Mode says how tools are confined here, why, and what to change.
type Mode struct {
	Name    string   `json:"name"`
	In      hostKind `json:"in"`
	Allowed bool     `json:"allowed"`
	Why     string   `json:"why,omitempty"`
	Change  []string `json:"change,omitempty"`
}

// modeOf describes the isolation that a provider gives on a host. allowed says that
// the operator allows the reduced mode.
func modeOf(provider string, iso haft.Isolation, in hostKind, allowed bool) Mode {
	m := Mode{Name: string(iso.Level), In: in, Allowed: true}
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
		m.Change = append(m.Change, "or allow less isolation: haft … --allow-reduced, or "+ReducedVar+"=1")
	}
	m.Change = append(m.Change, "or use another sandbox: --sandbox; process runs tools without isolation")
	return m
}

// Print writes a reduced mode for a person, and nothing for others.
func (m Mode) Print(w io.Writer) {
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
