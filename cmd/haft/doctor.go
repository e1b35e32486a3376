package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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
			return p.Print(found, func() { found.Print(p.Out) })
		},
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
