package bench

import (
	"bytes"
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
	fmt.Fprintf(w, "Measured on %s.\n\n", r.Machine)
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
	for _, n := range r.Notes {
		fmt.Fprintln(w, "- "+n)
	}
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
