package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"haft/internal/bench"
	"haft/internal/supply"
)

// benchCommand measures Haft beside other ways to run a tool.
func benchCommand(p *profile) command {
	var (
		cfg   bench.Config
		quick bool
		chart string
	)
	return command{
		alone: true,
		use:   "bench", short: "Measure ours beside bare python3, bubblewrap and runsc, in one run",
		flags: []flag{
			{&cfg.Rounds, "rounds", "how often each way is timed (200)"},
			{&cfg.Slice, "slice", "how long a slice of the throughput row lasts (3s)"},
			{&cfg.Sleepers, "sleepers", "how many calls sleep at once (1000); -1 for none"},
			{&cfg.Python, "python", "the interpreter: a name or a path"},
			reducedFlag(&cfg.AllowReduced),
			{&quick, "quick", "a short run: rougher figures"},
			{&chart, "chart", "write the times as an SVG picture to this `FILE`"},
			{&p.json, "json", "print one JSON object"},
		},
		plain: func(ctx context.Context, p *profile, _ []string) error {
			defer tuneForServer()()
			if quick {
				cfg.Rounds, cfg.Slice, cfg.Sleepers = 40, time.Second, 100
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			cfg.Self, cfg.Packages, cfg.Numpy = self, supply.FromEnv(os.Getenv), true
			cfg.Server = []string{"npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"}
			cfg.Progress = func(what string) { fmt.Fprintln(p.err, paint(p.err, dim, "measuring: "+what)) }
			rep, err := bench.Measure(ctx, cfg)
			if err != nil {
				return fmt.Errorf("measure: %w", err)
			}
			if chart != "" {
				if err := writeChart(chart, rep); err != nil {
					return err
				}
			}
			return p.print(rep, func() { printReport(p.out, rep) })
		},
	}
}

// writeChart writes the picture of a report.
func writeChart(name string, rep *bench.Report) error {
	var b bytes.Buffer
	if err := bench.Chart(&b, "One call of a Python tool — "+rep.Machine, rep.Samples); err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// printReport writes a report as two tables in Markdown, which is readable as it
// is.
func printReport(w io.Writer, rep *bench.Report) {
	fmt.Fprintf(w, "Measured on %s.\n\n", rep.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| one call\t| p50\t| p95\t| p99\t| runs\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|")
	for _, s := range rep.Samples {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %d\t|\n", s.Name, round(s.Quantile(.5)), round(s.Quantile(.95)),
			round(s.Quantile(.99)), len(s.Times))
	}
	_ = t.Flush() // it fails only where w does, as the lines above
	fmt.Fprintln(w)
	fmt.Fprintln(t, "| promise\t| ours\t| beside\t| ratio\t| must\t| aim\t| reached\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range rep.Rows {
		sign := "≤"
		if r.AtLeast {
			sign = "≥"
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %.3g\t| %s %.3g\t| %s %.3g\t| %s\t|\n", r.What, r.Ours, r.Theirs, r.Ratio,
			sign, r.Must, sign, r.Aim, r.Verdict())
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	for _, n := range rep.Notes {
		fmt.Fprintln(w, "- "+n)
	}
}
