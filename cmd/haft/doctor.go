package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/app"
	"haft/internal/cli"
	"haft/internal/doctor"
	"haft/internal/exit"
	"haft/sandbox/sandboxtest"
)

// doctorCommand says what this machine can promise.
func doctorCommand(p *cli.Profile) cli.Command {
	attack, fix, name := false, false, "auto"
	return cli.Command{
		Alone: true,
		Use:   "doctor", Short: "Tell what this machine can promise, found by trying",
		Flags: []cli.Flag{
			{&attack, "attack", "run the hostile programs on this machine's kernel and grade it"},
			{&fix, "fix", "install gVisor, if it is missing; this needs Go and takes some minutes"},
			cli.ReducedFlag(&p.Reduced), {&p.JSON, "json", "print one JSON object"},
			{&name, "sandbox", "the sandbox: auto, local, gvisor, process, e2b or modal"},
		},
		Plain: func(ctx context.Context, p *cli.Profile, _ []string) error {
			if err := checkSandbox(name); err != nil {
				return err
			}
			if fix {
				if err := doctor.Fix(ctx, p.Err); err != nil {
					return err
				}
			}
			// The attacks grade what there is, and are no tools.
			a, err := app.Open(ctx, app.Config{Sandbox: name, AllowReduced: p.Reduced || attack})
			if err != nil {
				return err
			}
			defer a.Close()
			if attack {
				return runAttacks(ctx, a, p)
			}
			found, err := doctor.Examine(ctx, a, p.Reduced)
			if err != nil {
				return err
			}
			return p.Print(found, func() { printCheckup(p.Out, found) })
		},
	}
}

// printCheckup writes what was found for a person.
func printCheckup(w io.Writer, c doctor.Checkup) {
	fmt.Fprintf(w, "sandbox %s: isolation %s\n\n", paint(w, bold, c.Provider),
		paint(w, bold, string(c.Isolation.Level)))
	c.Mode.Print(w)
	for _, ctl := range haft.Controls() {
		if c.Isolation.Has(ctl) {
			fmt.Fprintf(w, "  %s %s\n", paint(w, green, "yes"), ctl)
		}
	}
	for _, g := range c.Isolation.Missing {
		fmt.Fprintf(w, "  %s  %-14s %s\n", paint(w, yellow, "no"), g.Control, g.Reason)
		if c.Provider == "local" {
			fmt.Fprintf(w, "      %s\n", paint(w, dim, "how to get it: "+doctor.Remedy(g.Control)))
		}
	}
	c.Kernel.Print(w)
	if c.Served != nil {
		fmt.Fprintf(w, "\n%s has the data directory %s: commands work on it\n", c.Served, c.Data)
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
func runAttacks(ctx context.Context, a *app.App, p *cli.Profile) error {
	provider, name := a.Provider()
	total, done := len(sandboxtest.Cases()), 0
	count := map[sandboxtest.Verdict]int{}
	rep, err := sandboxtest.Grade(ctx, provider, func(r sandboxtest.Row) {
		done++
		count[r.Verdict]++
		if p.JSON {
			return
		}
		line := fmt.Sprintf("%3d/%d %-8s %-12s %s", done, total, r.Verdict, r.Group,
			strings.ReplaceAll(r.Name, "_", " "))
		fmt.Fprintln(p.Out, paint(p.Out, shades[r.Verdict], line))
		if r.Detail != "" && r.Verdict != sandboxtest.Held {
			fmt.Fprintln(p.Out, "          "+safe(p.Out, r.Detail))
		}
	})
	if err != nil {
		return fmt.Errorf("attack: %w", err)
	}
	err = p.Print(rep, func() {
		counts := joined(slices.Sorted(maps.Keys(count)), ", ", func(v sandboxtest.Verdict) string {
			return fmt.Sprintf("%d %s", count[v], v)
		})
		fmt.Fprintf(p.Out, "\nsandbox %s, isolation %s: %s\ngrade %s\n", name, rep.Isolation.Level, counts,
			paint(p.Out, bold, rep.Grade))
	})
	if err == nil && count[sandboxtest.Broken] > 0 {
		return exit.With(exit.Tool)
	}
	return err
}
