package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// WriteChart writes the times as a picture to a file.
func (r *Report) WriteChart(file string) error {
	var b bytes.Buffer
	if err := Chart(&b, "One call of a Python tool — "+r.Machine, r.Samples); err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// Print writes the report as two tables in Markdown, which is readable as it is.
func (r *Report) Print(w io.Writer) {
	r.printHead(w)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| one call\t| p50\t| p95\t| p99\t| runs\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|")
	for _, s := range r.Samples {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %d\t|\n", s.Name, Round(s.Quantile(.5)), Round(s.Quantile(.95)),
			Round(s.Quantile(.99)), len(s.Times))
	}
	_ = t.Flush() // it fails only where w does, as the lines above
	fmt.Fprintln(w)
	fmt.Fprintln(t, "| promise\t| ours\t| beside\t| ratio\t| must\t| aim\t| reached\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, row := range r.Rows {
		sign := "≤"
		if row.AtLeast {
			sign = "≥"
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %.3g\t| %s %.3g\t| %s %.3g\t| %s\t|\n", row.What, row.Ours, row.Theirs,
			row.Ratio, sign, row.Must, sign, row.Aim, row.Verdict())
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	r.printLoads(w)
	if len(r.Growth) > 0 {
		PrintGrowth(w, r.Growth)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "- "+n)
	}
}

// printHead says where this was measured, and whether the machine was quiet.
func (r *Report) printHead(w io.Writer) {
	fmt.Fprintf(w, "Haft %s, measured on %s; before that, other programs used %.2f processors",
		cmp.Or(r.Version, "devel"),
		r.Machine, r.Others)
	if r.Others > quiet {
		fmt.Fprint(w, ". **The machine was not quiet: these figures say little**")
	}
	fmt.Fprint(w, ".\n\n")
}

// quiet is how many processors others may use.
const quiet = .1

// printLoads writes what callers without pauses got.
func (r *Report) printLoads(w io.Writer) {
	if len(r.Loads) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t,
		"| callers without pauses\t| version\t| callers\t| calls/s\t| p50\t| p95\t| p99\t| processor per call\t"+
			"| memory\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, l := range r.Loads {
		p50, p95, p99, processor, memory := "", "", "", "", ""
		if l.Calls > 0 {
			p50, p95, p99, processor = Round(l.P50), Round(l.P95), Round(l.P99), Round(l.Processor)
		}
		if l.Memory > 0 {
			memory = fmt.Sprintf("%.0f MB", float64(l.Memory)/(1<<20))
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %d\t| %.4g\t| %s\t| %s\t| %s\t| %s\t| %s\t|\n", l.Way, l.Version,
			l.Callers, l.Rate, p50,
			p95, p99, processor, memory)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
}

// Round writes a time with the digits that matter.
func Round(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
