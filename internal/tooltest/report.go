package tooltest

import (
	_ "embed" // the page
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
)

// maxOutput bounds the output of a tool in a report, in bytes.
const maxOutput = 64 << 10

// The elements of JUnit's XML that programs read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
		Err     string        `xml:"system-err,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes a report as XML that CI systems read. Gates are cases of their own.
func WriteJUnit(w io.Writer, r *Report) error {
	out := junitSuites{Time: seconds(r.Took.D())}
	suites := map[string]int{}
	add := func(file string, c junitCase) {
		i, ok := suites[file]
		if !ok {
			i = len(out.Suites)
			suites[file] = i
			out.Suites = append(out.Suites, junitSuite{Name: file})
		}
		s := &out.Suites[i]
		s.Cases = append(s.Cases, c)
		s.Tests++
		out.Tests++
		if c.Failure != nil {
			s.Failures++
			out.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
			out.Skipped++
		}
	}
	for _, o := range r.Outcomes {
		c := junitCase{Name: o.Name, Class: className(o.File, o.Sandbox), File: o.File, Line: o.At.Line,
			Time: seconds(o.Took.D())}
		switch o.State {
		case Failed, Flaky:
			c.Failure = &junitMessage{firstLine(o), faultText(o)}
		case Skipped:
			c.Skipped = &junitMessage{Message: o.Why}
		}
		if o.Result != nil {
			c.Out, c.Err = cut(o.Result.Stdout), cut(o.Result.Stderr)
		}
		add(o.File, c)
	}
	for _, g := range r.Gates {
		c := junitCase{Name: "gate " + g.Name, Class: className(g.File, g.Sandbox), File: g.File, Time: seconds(0)}
		if g.Closed {
			c.Failure = &junitMessage{g.Text, g.Text}
		}
		add(g.File, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// className names a file as JUnit names classes.
func className(file, sandbox string) string {
	return strings.TrimSuffix(strings.ReplaceAll(file, "/", ".")+"."+sandbox, ".")
}

// seconds is a time as JUnit writes it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// firstLine is what is wrong with a case, in a line.
func firstLine(o Outcome) string {
	if len(o.Faults) == 0 {
		return string(o.State)
	}
	line, _, _ := strings.Cut(o.Faults[0].Text, "\n")
	return line
}

// faultText is everything that is wrong with a case.
func faultText(o Outcome) string {
	var parts []string
	for _, f := range o.Faults {
		parts = append(parts, f.Text)
	}
	return strings.Join(parts, "\n")
}

// cut bounds the output of a tool.
func cut(text string) string {
	if len(text) > maxOutput {
		return strings.ToValidUTF8(text[:maxOutput], "") + "…"
	}
	return text
}

// WriteAnnotations writes a command of GitHub's runners for each case that failed, so that it is shown in the diff.
func WriteAnnotations(w io.Writer, r *Report) {
	for _, o := range r.Outcomes {
		if o.State == Failed || o.State == Flaky {
			fmt.Fprintf(w, "::error file=%s,line=%d,title=%s::%s\n", escape(o.File, true), o.At.Line,
				escape(o.Name, true), escape(faultText(o), false))
		}
	}
	for _, g := range r.Gates {
		if g.Closed {
			fmt.Fprintf(w, "::error file=%s,title=%s::%s\n", escape(g.File, true), escape("gate "+g.Name, true),
				escape(g.Text, false))
		}
	}
}

// escape makes a text fit for a command, whose properties have more special characters. What a tool prints has no
// control over the terminal.
func escape(text string, property bool) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	text = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
	if property {
		text = strings.NewReplacer(":", "%3A", ",", "%2C").Replace(text)
	}
	return text
}

//go:embed report.html
var page string

// pageTemplate is the page of a report.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"lines": func(text string) []string { return strings.Split(text, "\n") },
		"kind": func(line string) string {
			switch trimmed := strings.TrimLeft(line, " "); {
			case strings.HasPrefix(trimmed, "- "):
				return "minus"
			case strings.HasPrefix(trimmed, "+ "):
				return "plus"
			}
			return ""
		},
		"summary": summaryText, "cut": cut,
	}).Parse(page))
})

// WriteHTML writes a report as one page that needs nothing else.
func WriteHTML(w io.Writer, r *Report) error {
	if err := pageTemplate().Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
