package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteManuals writes a manual page for a command and for each below it into a directory, and returns
// how many there are.
func WriteManuals(root *cobra.Command, version, dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // manuals are for everybody
		return 0, fmt.Errorf("write manuals: %w", err)
	}
	pages := 0
	var write func(c *cobra.Command) error
	write = func(c *cobra.Command) error {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return nil
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		//nolint:gosec // manuals are for everybody
		if err := os.WriteFile(filepath.Join(dir, name), []byte(manual(c, version)), 0o644); err != nil {
			return fmt.Errorf("write manuals: %w", err)
		}
		pages++
		for _, sub := range c.Commands() {
			if err := write(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, write(root)
}

// manual is the page of one command, in roff.
func manual(c *cobra.Command, version string) string {
	var b strings.Builder
	title := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(title), "haft "+version, roff(title),
		roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", paragraphs(c.Long))
	}
	var commands strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&commands, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	section(&b, "COMMANDS", commands.String())
	section(&b, "OPTIONS", options(c.NonInheritedFlags()))
	section(&b, "OPTIONS OF ALL COMMANDS", options(c.InheritedFlags()))
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	return b.String()
}

// section writes a section unless it is empty.
func section(b *strings.Builder, name, text string) {
	if text != "" {
		fmt.Fprintf(b, ".SH %s\n%s", name, text)
	}
}

// options lists flags.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+kind)), roff(usage))
	})
	return b.String()
}

// paragraphs makes paragraphs of a text with empty lines.
func paragraphs(text string) string {
	return strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n")
}

// roff escapes what means something in roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\\`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
