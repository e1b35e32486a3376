package doctor

import (
	"fmt"
	"io"

	"haft"
	"haft/internal/terminal"
)

// Print writes what was found for a person.
func (c Checkup) Print(w io.Writer) {
	fmt.Fprintf(w, "sandbox %s: isolation %s\n\n", terminal.Paint(w, terminal.Bold, c.Provider),
		terminal.Paint(w, terminal.Bold, string(c.Isolation.Level)))
	c.Mode.Print(w)
	for _, ctl := range haft.Controls() {
		if c.Isolation.Has(ctl) {
			fmt.Fprintf(w, "  %s %s\n", terminal.Paint(w, terminal.Green, "yes"), ctl)
		}
	}
	for _, g := range c.Isolation.Missing {
		fmt.Fprintf(w, "  %s  %-14s %s\n", terminal.Paint(w, terminal.Yellow, "no"), g.Control, g.Reason)
		if c.Provider == "local" {
			fmt.Fprintf(w, "      %s\n", terminal.Paint(w, terminal.Dim, "how to get it: "+remedies[g.Control]))
		}
	}
	c.Kernel.Print(w)
	if c.Served != nil {
		fmt.Fprintf(w, "\n%s has the data directory %s: commands work on it\n", c.Served, c.Data)
	}
	fmt.Fprintln(w)
	for _, r := range c.Runtimes {
		if r.Missing != "" {
			fmt.Fprintf(w, "  %s  %-11s %s\n", terminal.Paint(w, terminal.Yellow, "no"), r.Kind, r.Missing)
			continue
		}
		fmt.Fprintf(w, "  %s %-11s %s  %s\n", terminal.Paint(w, terminal.Green, "yes"), r.Kind, r.Version,
			terminal.Paint(w, terminal.Dim, r.Path))
	}
}
