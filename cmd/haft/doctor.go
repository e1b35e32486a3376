package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
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

// doctorCommand tells what this machine can promise.
func doctorCommand(std streams) *cobra.Command {
	var (
		attack, asJSON bool
		name           string
		reduced        bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine can promise, found by trying",
		Args:  func(c *cobra.Command, args []string) error { return usageArgs(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			// The attacks grade what there is, and are no tools.
			a, err := app.Open(c.Context(), app.Config{Sandbox: name, AllowReduced: reduced || attack})
			if err != nil {
				return err
			}
			defer a.Close()
			if attack {
				return runAttacks(c.Context(), a, std, asJSON)
			}
			return examine(c.Context(), a, std, asJSON, reduced)
		},
	}
	cmd.Flags().BoolVar(&attack, "attack", false, "run the hostile programs on this machine's kernel and grade it")
	allowReduced(cmd.Flags(), &reduced)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&name, "sandbox", "auto", "the sandbox: auto, local or process")
	return cmd
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
func examine(ctx context.Context, a *app.App, std streams, asJSON, reduced bool) error {
	provider, name := a.Provider()
	iso, err := provider.Isolation(ctx)
	if err != nil {
		return fmt.Errorf("try the sandbox: %w", err)
	}
	in := findHostKind("", os.Getenv("container"))
	found := checkup{Provider: name, Isolation: iso, Mode: modeOf(name, iso, in, reduced)}
	for _, kind := range []haft.Kind{haft.KindPython, haft.KindJavaScript, haft.KindBash} {
		r := foundRuntime{Kind: kind}
		if rt, err := a.Runtime(ctx, kind); err != nil {
			r.Missing = err.Error()
		} else {
			r.Version, r.Path = rt.Version, rt.Argv[0]
		}
		found.Runtimes = append(found.Runtimes, r)
	}
	if asJSON {
		return printJSON(std.out, found)
	}
	printCheckup(std.out, found)
	return nil
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
