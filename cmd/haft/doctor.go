package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"haft"
	"haft/app"
	"haft/sandbox/sandboxtest"
)

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
	haft.ControlKernel:  "the gvisor sandbox has one",
}

// doctorCommand says what this machine can promise.
func doctorCommand(p *profile) command {
	attack, name := false, "auto"
	return command{
		alone: true,
		use:   "doctor", short: "Tell what this machine can promise, found by trying",
		flags: []flag{
			{&attack, "attack", "run the hostile programs on this machine's kernel and grade it"},
			reducedFlag(&p.reduced), {&p.json, "json", "print one JSON object"},
			{&name, "sandbox", "the sandbox: auto, local or process"},
		},
		plain: func(ctx context.Context, p *profile, _ []string) error {
			// The attacks grade what there is, and are no tools.
			a, err := app.Open(ctx, app.Config{Sandbox: name, AllowReduced: p.reduced || attack})
			if err != nil {
				return err
			}
			defer a.Close()
			if attack {
				return runAttacks(ctx, a, p)
			}
			return examine(ctx, a, p)
		},
	}
}

// A checkup is what the doctor found.
type checkup struct {
	Provider  string         `json:"provider"`
	Isolation haft.Isolation `json:"isolation"`
	Mode      mode           `json:"mode"`
	Runtimes  []foundRuntime `json:"runtimes"`
}

// foundRuntime is an interpreter, or why there is none.
type foundRuntime struct {
	Kind    haft.Kind `json:"kind"`
	Version string    `json:"version,omitempty"`
	Path    string    `json:"path,omitempty"`
	Missing string    `json:"missing,omitempty"`
}

// examine tries every control and looks for the interpreters.
func examine(ctx context.Context, a *app.App, p *profile) error {
	provider, name := a.Provider()
	iso, err := provider.Isolation(ctx)
	if err != nil {
		return fmt.Errorf("try the sandbox: %w", err)
	}
	in := findHostKind("", os.Getenv("container"))
	found := checkup{Provider: name, Isolation: iso, Mode: modeOf(name, iso, in, p.reduced)}
	for _, kind := range []haft.Kind{haft.KindPython, haft.KindJavaScript, haft.KindBash} {
		r := foundRuntime{Kind: kind}
		if rt, err := a.Runtime(ctx, kind); err != nil {
			r.Missing = err.Error()
		} else {
			r.Version, r.Path = rt.Version, rt.Argv[0]
		}
		found.Runtimes = append(found.Runtimes, r)
	}
	return p.print(found, func() { printCheckup(p.out, found) })
}

// printCheckup writes what was found for a person.
func printCheckup(w io.Writer, c checkup) {
	fmt.Fprintf(w, "sandbox %s: isolation %s\n\n", paint(w, bold, c.Provider),
		paint(w, bold, string(c.Isolation.Level)))
	printMode(w, c.Mode)
	for _, ctl := range haft.Controls() {
		if c.Isolation.Has(ctl) {
			fmt.Fprintf(w, "  %s %s\n", paint(w, green, "yes"), ctl)
		}
	}
	for _, g := range c.Isolation.Missing {
		fmt.Fprintf(w, "  %s  %-14s %s\n", paint(w, yellow, "no"), g.Control, g.Reason)
		if c.Provider == "local" && g.Control != haft.ControlKernel {
			fmt.Fprintf(w, "      %s\n", paint(w, dim, "how to get it: "+remedies[g.Control]))
		}
	}
	fmt.Fprintln(w)
	for _, r := range c.Runtimes {
		if r.Missing != "" {
			fmt.Fprintf(w, "  %s  %-11s %s\n", paint(w, yellow, "no"), r.Kind, r.Missing)
			continue
		}
		fmt.Fprintf(w, "  %s %-11s %s  %s\n", paint(w, green, "yes"), r.Kind, r.Version, paint(w, dim, r.Path))
	}
}

// shades are the colours of the verdicts.
var shades = map[sandboxtest.Verdict]colour{
	sandboxtest.Held: green, sandboxtest.Stated: cyan, sandboxtest.Broken: red, sandboxtest.Skipped: yellow,
}

// runAttacks runs the conformance suite of sandboxes on this machine and prints the grade. A
// broken promise is exit code 1.
func runAttacks(ctx context.Context, a *app.App, p *profile) error {
	provider, name := a.Provider()
	total, done := len(sandboxtest.Cases()), 0
	count := map[sandboxtest.Verdict]int{}
	rep, err := sandboxtest.Grade(ctx, provider, func(r sandboxtest.Row) {
		done++
		count[r.Verdict]++
		if p.json {
			return
		}
		line := fmt.Sprintf("%3d/%d %-8s %-12s %s", done, total, r.Verdict, r.Group,
			strings.ReplaceAll(r.Name, "_", " "))
		fmt.Fprintln(p.out, paint(p.out, shades[r.Verdict], line))
		if r.Detail != "" && r.Verdict != sandboxtest.Held {
			fmt.Fprintln(p.out, "          "+safe(p.out, r.Detail))
		}
	})
	if err != nil {
		return fmt.Errorf("attack: %w", err)
	}
	err = p.print(rep, func() {
		counts := joined(slices.Sorted(maps.Keys(count)), ", ", func(v sandboxtest.Verdict) string {
			return fmt.Sprintf("%d %s", count[v], v)
		})
		fmt.Fprintf(p.out, "\nsandbox %s, isolation %s: %s\ngrade %s\n", name, rep.Isolation.Level, counts,
			paint(p.out, bold, rep.Grade))
	})
	if err == nil && count[sandboxtest.Broken] > 0 {
		return exitWith(exitTool)
	}
	return err
}

// reducedVar allows the reduced mode for every command.
const reducedVar = "HAFT_ALLOW_REDUCED"

// reducedFlag is the flag by which an operator allows tools to run without
// namespaces. A variable that is not a boolean allows nothing.
func reducedFlag(to *bool) flag {
	allowed, err := strconv.ParseBool(os.Getenv(reducedVar))
	*to = err == nil && allowed
	return flag{to, "allow-reduced",
		"also run tools where there are no namespaces, with less isolation: haft doctor tells ($" + reducedVar + ")"}
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
