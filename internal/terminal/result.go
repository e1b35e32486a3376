package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"haft"
)

// PrintResult writes a result for a person: the value to out, the rest to w.
func PrintResult(out, w io.Writer, res *haft.Result) {
	if res.Error != nil {
		message, trace := failureLines(res.Error)
		fmt.Fprintf(w, "%s %s\n", Paint(w, Red, string(res.Status)+":"), Safe(w, message))
		if trace != "" {
			fmt.Fprintln(w, Safe(w, trace))
		}
		if next := nextStep(res.Error); next != "" {
			fmt.Fprintln(w, Paint(w, Dim, "  next: "+next))
		}
	} else {
		fmt.Fprintln(out, Value(out, res.Value))
	}
	for _, art := range res.Artifacts {
		fmt.Fprintf(w, "artifact %s (%s, %d bytes)\n", Safe(w, art.Name), Safe(w, art.ContentType), art.Size)
		if Is(out) && Is(w) {
			fmt.Fprint(w, Image(os.Getenv, art.Data))
		}
	}
	for i, n := range []int64{res.Truncated.Stdout, res.Truncated.Stderr} {
		if n > 0 {
			fmt.Fprintf(w, "%s %d bytes of %s were left out\n", Paint(w, Yellow, "cut:"), n,
				[]string{"stdout", "stderr"}[i])
		}
	}
	for _, n := range res.Notices {
		fmt.Fprintln(w, Paint(w, Yellow, "notice:"), Safe(w, n))
	}
	if res.Sandbox.Provider == "none" {
		return
	}
	line := fmt.Sprintf("%s in %s, isolation %s (%s)", res.Status, res.Usage.Wall.D().Round(10*time.Microsecond),
		res.Sandbox.Isolation.Level, res.Sandbox.Provider)
	word := ", without "
	for _, g := range res.Sandbox.Isolation.Missing {
		if g.Control != haft.ControlKernel { // that is another kind of sandbox
			line += word + string(g.Control)
			word = ", "
		}
	}
	fmt.Fprintln(w, Paint(w, Dim, line))
}

// nextStep says to the person what to do about a failure, after a traceback that may be long.
func nextStep(f *haft.Failure) string {
	switch {
	case f.Kind == haft.FailTimeout:
		return "give it more time with --timeout, such as --timeout 2m, also when it is added"
	case f.Kind == haft.FailMemory:
		return "give it more memory with --memory, such as --memory 1GiB, also when it is added"
	case strings.HasPrefix(f.Message, "this tool has no network"):
		return "let it reach its hosts with --network HOST, such as: haft tool add FILE --network HOST"
	}
	return ""
}

// failureLines returns the message of a failure, and the traceback without its last
// line if the message has that too.
func failureLines(f *haft.Failure) (message, trace string) {
	trace = strings.TrimRight(f.Traceback, "\n")
	whole := f.Type + ": " + f.Message
	if rest, ok := strings.CutSuffix(trace, whole); ok && f.Type != "" {
		return whole, strings.TrimRight(rest, "\n")
	}
	if i := strings.LastIndex(trace, "\n"+f.Type+": "); f.Type != "" && i >= 0 &&
		strings.Contains(f.Message, trace[i+len(f.Type)+3:]) {
		return f.Message, trace[:i] // the message says more
	}
	if trace == f.Message {
		trace = ""
	}
	return f.Message, trace
}

// Ago says how long before now a time is, for people.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d) + " ago"
}

// span is a length of time in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// A Colour is an ANSI colour code.
type Colour int

// The colours in use.
const (
	Bold   Colour = 1
	Dim    Colour = 2
	Red    Colour = 31
	Green  Colour = 32
	Yellow Colour = 33
	Cyan   Colour = 36
)

// Paint colours s where w is a terminal and NO_COLOR is not set.
func Paint(w io.Writer, c Colour, s string) string {
	if !Is(w) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return "\x1b[" + strconv.Itoa(int(c)) + "m" + s + "\x1b[0m"
}

// Safe makes text from a tool harmless on a terminal: control characters, which
// could move the cursor, set the title or reverse the reading order, become
// visible escapes. A file gets the text unchanged.
func Safe(w io.Writer, s string) string {
	if !Is(w) {
		return s
	}
	return Escape(s)
}
