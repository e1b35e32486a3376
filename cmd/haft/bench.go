package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"haft/internal/bench"
	"haft/internal/supply"
)

// benchCommand measures ours beside others.
func benchCommand(std streams) *cobra.Command {
	var (
		cfg           bench.Config
		quick, asJSON bool
		chart         string
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure ours beside bare python3, bubblewrap and runsc, in one run",
		Args:  func(c *cobra.Command, args []string) error { return usageArgs(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			defer long()() // as the server
			if quick {
				cfg.Rounds, cfg.Slice, cfg.Sleepers = 40, time.Second, 100
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			cfg.Self, cfg.Packages, cfg.Numpy = self, supply.FromEnv(os.Getenv), true
			cfg.Server = []string{"npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"}
			cfg.Progress = func(what string) { fmt.Fprintln(std.err, paint(std.err, dim, "measuring: "+what)) }
			rep, err := bench.Measure(c.Context(), cfg)
			if err != nil {
				return fmt.Errorf("measure: %w", err)
			}
			if chart != "" {
				if err := writeChart(chart, rep); err != nil {
					return err
				}
			}
			if asJSON {
				return printJSON(std.out, rep)
			}
			return printReport(std.out, rep)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Rounds, "rounds", 0, "how often each way is timed (200)")
	f.DurationVar(&cfg.Slice, "slice", 0, "how long a slice of the throughput row lasts (3s)")
	f.IntVar(&cfg.Sleepers, "sleepers", 0, "how many calls sleep at once (1000); -1 for none")
	f.StringVar(&cfg.Python, "python", "", "the interpreter: a name or a path")
	allowReduced(f, &cfg.AllowReduced)
	f.BoolVar(&quick, "quick", false, "a short run: rougher figures")
	f.StringVar(&chart, "chart", "", "write the times as an SVG picture to this `FILE`")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
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
func printReport(w io.Writer, rep *bench.Report) error {
	fmt.Fprintf(w, "Measured on %s.\n\n", rep.Machine)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| one call\t| p50\t| p95\t| p99\t| runs\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|")
	for _, s := range rep.Samples {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %d\t|\n", s.Name, round(s.Quantile(.5)), round(s.Quantile(.95)),
			round(s.Quantile(.99)), len(s.Times))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
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
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	fmt.Fprintln(w)
	for _, n := range rep.Notes {
		fmt.Fprintln(w, "- "+n)
	}
	return nil
}

// round makes a time short.
func round(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
