package tooltest

import (
	"fmt"
	"io"
	"strings"

	"haft/internal/terminal"
)

// A Printer shows cases as they end, and the summary.
type Printer struct {
	Out io.Writer
	// Verbose shows cases that passed, each on a line.
	Verbose bool
	// Total is how many cases there are.
	Total int
	done  int
	dots  int
}

// marks are how states are shown.
var marks = map[State]struct {
	dot, word string
	colour    terminal.Colour
}{
	Passed: {".", "passed", terminal.Green}, Failed: {"F", "FAILED", terminal.Red},
	Skipped: {"s", "skipped", terminal.Yellow}, Flaky: {"~", "FLAKY", terminal.Red},
}

// dotsPerLine is how many cases a line of progress shows.
const dotsPerLine = 60

// Show shows a case that has ended.
func (p *Printer) Show(o Outcome) {
	p.done++
	mark := marks[o.State]
	if bad := o.State == Failed || o.State == Flaky; p.Verbose || bad {
		p.endLine()
		p.showCase(o)
		return
	}
	fmt.Fprint(p.Out, terminal.Paint(p.Out, mark.colour, mark.dot))
	if p.dots++; p.dots == dotsPerLine {
		fmt.Fprintf(p.Out, " %d\n", p.done)
		p.dots = 0
	}
}

// endLine ends a line of progress.
func (p *Printer) endLine() {
	if p.dots > 0 {
		fmt.Fprintln(p.Out)
	}
	p.dots = 0
}

// showCase shows a case on a line, and below it what is wrong.
func (p *Printer) showCase(o Outcome) {
	mark := marks[o.State]
	line := fmt.Sprintf("%s %s", terminal.Paint(p.Out, mark.colour, fmt.Sprintf("%-7s", mark.word)), title(o))
	if o.Why != "" {
		line += ": " + oneLine(o.Why)
	} else {
		line += fmt.Sprintf(" (%s)", shortTime(o.Took))
	}
	fmt.Fprintln(p.Out, line)
	for _, f := range o.Faults {
		for text := range strings.Lines(f.Text + "\n") {
			p.showLine(strings.TrimRight(text, "\n"))
		}
	}
}

// showLine shows a line of a fault: what was expected in red, and what came in green.
func (p *Printer) showLine(text string) {
	text = noCommand(terminal.Escape(text))
	switch trimmed := strings.TrimLeft(text, " "); {
	case strings.HasPrefix(trimmed, "- "):
		text = terminal.Paint(p.Out, terminal.Red, text)
	case strings.HasPrefix(trimmed, "+ "):
		text = terminal.Paint(p.Out, terminal.Green, text)
	}
	fmt.Fprintln(p.Out, "    "+text)
}

// noCommand changes a line that GitHub's runners would take for a command: what a tool prints is none. They look for ::
// after the blanks at the beginning, and for ##[ anywhere.
func noCommand(line string) string {
	if strings.HasPrefix(strings.TrimSpace(line), "::") {
		line = "= " + line
	}
	return strings.ReplaceAll(line, "##[", `##\[`)
}

// oneLine shows text that is not ours behind other text on its line.
func oneLine(text string) string {
	return strings.ReplaceAll(noCommand(terminal.Escape(text)), "\n", " ")
}

// title names a case, with the place that editors open.
func title(o Outcome) string {
	text := fmt.Sprintf("%s:%d: %s", o.File, o.At.Line, o.Name)
	if o.Sandbox != "" {
		text += " [" + o.Sandbox + "]"
	}
	return noCommand(terminal.Escape(text))
}

// Summary shows what became of all.
func (p *Printer) Summary(r *Report) {
	p.endLine()
	for _, g := range r.Gates {
		word, colour := "gate   ", terminal.Green
		if g.Closed {
			word, colour = "GATE   ", terminal.Red
		}
		fmt.Fprintf(p.Out, "%s %s: %s: %s\n", terminal.Paint(p.Out, colour, word), terminal.Escape(g.File), g.Name,
			oneLine(g.Text))
	}
	p.profiles(r)
	for _, c := range r.Coverage {
		fmt.Fprintf(p.Out, "coverage %s: %s\n", oneLine(c.Test), oneLine(c.String()))
	}
	for _, l := range r.Learned {
		fmt.Fprintf(p.Out, "# what the calls of %s needed:\n%s", oneLine(l.File), strings.ReplaceAll(l.YAML, "##[", `##\[`))
	}
	fmt.Fprintln(p.Out, summaryText(r))
}

// summaryText counts the cases.
func summaryText(r *Report) string {
	parts := []string{fmt.Sprintf("%d passed", r.Count[Passed])}
	for _, s := range []State{Failed, Flaky, Skipped} {
		if n := r.Count[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	seconds := r.Took.D().Seconds()
	noun := "cases"
	if len(r.Outcomes) == 1 {
		noun = "case"
	}
	text := fmt.Sprintf("%d %s: %s in %.2f s", len(r.Outcomes), noun, strings.Join(parts, ", "), seconds)
	if n := len(r.Outcomes); n >= dotsPerLine && seconds > 0 {
		text += fmt.Sprintf(" (%.0f cases/s)", float64(n)/seconds)
	}
	return text
}
