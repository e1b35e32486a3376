package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"haft/app"
	"haft/sandbox/sandboxtest"
)

// shades are the colours of the verdicts.
var shades = map[sandboxtest.Verdict]colour{
	sandboxtest.Held: green, sandboxtest.Stated: cyan, sandboxtest.Broken: red, sandboxtest.Skipped: yellow,
}

// runAttacks runs the law of sandboxes on this machine and prints the grade. A
// broken promise is exit code 1.
func runAttacks(ctx context.Context, a *app.App, std streams, asJSON bool) error {
	provider, name := a.Provider()
	total := len(sandboxtest.Cases())
	done := 0
	rep, err := sandboxtest.Grade(ctx, provider, func(r sandboxtest.Row) {
		done++
		if asJSON {
			return
		}
		line := fmt.Sprintf("%3d/%d %-8s %-12s %s", done, total, r.Verdict, r.Group,
			strings.ReplaceAll(r.Name, "_", " "))
		fmt.Fprintln(std.out, paint(std.out, shades[r.Verdict], line))
		if r.Detail != "" && r.Verdict != sandboxtest.Held {
			fmt.Fprintln(std.out, "          "+safe(std.out, r.Detail))
		}
	})
	if err != nil {
		return fmt.Errorf("attack: %w", err)
	}
	if asJSON {
		if err := printJSON(std.out, rep); err != nil {
			return err
		}
	} else {
		printGrade(std.out, name, rep)
	}
	if count(rep)[sandboxtest.Broken] > 0 {
		return &exit{code: exitTool}
	}
	return nil
}

// count counts the verdicts of a report.
func count(rep sandboxtest.Report) map[sandboxtest.Verdict]int {
	n := map[sandboxtest.Verdict]int{}
	for _, r := range rep.Rows {
		n[r.Verdict]++
	}
	return n
}

// printGrade writes the summary of a report.
func printGrade(w io.Writer, name string, rep sandboxtest.Report) {
	n := count(rep)
	parts := make([]string, 0, len(n))
	for _, v := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
	}
	fmt.Fprintf(w, "\nsandbox %s, isolation %s: %s\ngrade %s\n", name, rep.Isolation.Level, strings.Join(parts, ", "),
		paint(w, bold, rep.Grade))
}

// printJSON writes v as one JSON object on one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}
