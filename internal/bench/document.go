package bench

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// Marks around what [Report.WriteDocument] writes. What stands between them is replaced.
const beginMark, endMark = "<!-- measured: begin -->", "<!-- measured: end -->"

// WriteDocument puts the tables into a page between its marks, and the charts beside it, as bench.svg,
// bench-load.svg and bench-growth.svg.
func (r *Report) WriteDocument(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, ok := strings.Cut(string(page), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q", file, beginMark, endMark)
	}
	var text bytes.Buffer
	r.Print(&text)
	dir := filepath.Dir(file)
	if err := r.WriteChart(filepath.Join(dir, "bench.svg")); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "bench-load.svg"), func(w io.Writer) error {
		return LoadChart(w,
			r.Loads)
	}); err != nil {
		return err
	}
	if len(r.Growth) > 0 {
		if err := writeFile(filepath.Join(dir, "bench-growth.svg"),
			func(w io.Writer) error { return GrowthChart(w, r.Growth) }); err != nil {
			return err
		}
	}
	page = []byte(before + beginMark + "\n\n" + text.String() + "\n" + endMark + after)
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// writeFile writes what draw draws.
func writeFile(name string, draw func(io.Writer) error) error {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// PrintGrowth writes series as a table.
func PrintGrowth(w io.Writer, all []Series) {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| what grows\t| what is timed, p50\t| sizes\t| grows as\t| each one more\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|")
	for _, s := range all {
		var points []string
		for _, p := range s.Points {
			points = append(points, fmt.Sprintf("%s: %s", count(p.N), Round(p.Took)))
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| n^%.2f, %s\t| %s\t|\n", s.Grows, s.What, strings.Join(points, ", "),
			s.Slope(),
			s.verdict(), s.Each())
	}
	_ = t.Flush() // it fails only where w does
	fmt.Fprintln(w)
}

// verdict names a slope.
func (s Series) verdict() string {
	switch slope := s.Slope(); {
	case slope <= .1:
		return "flat"
	case slope <= .9:
		return "less than linear"
	case slope <= 1.1:
		return "linear"
	}
	return "MORE THAN LINEAR"
}

// count writes a number for people.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

// A line of a chart.
type line struct {
	name   string
	points [][2]float64
	ours   bool
}

// LoadChart draws calls per second by the number of callers.
func LoadChart(w io.Writer, loads []Load) error {
	var lines []line
	at := map[string]int{}
	for _, l := range loads {
		if l.Calls == 0 {
			continue // it has no callers
		}
		i, ok := at[l.Way]
		if !ok {
			i = len(lines)
			at[l.Way], lines = i, append(lines, line{name: l.Way, ours: strings.HasPrefix(l.Way, "haft")})
		}
		lines[i].points = append(lines[i].points, [2]float64{float64(l.Callers), l.Rate})
	}
	return plot(w, "Calls per second by callers without pauses, both logarithmic; higher is better", lines,
		func(v float64) string { return fmt.Sprintf("%.4g/s", v) })
}

// GrowthChart draws times by sizes.
func GrowthChart(w io.Writer, all []Series) error {
	var lines []line
	for _, s := range all {
		l := line{name: s.Grows + ": " + s.What, ours: true}
		for _, p := range s.Points {
			l.points = append(l.points, [2]float64{float64(max(p.N, 1)), ms(p.Took)})
		}
		lines = append(lines, l)
	}
	return plot(w, "p50 by size, both logarithmic; flat is better", lines, label)
}

// plot draws lines on two logarithmic scales. Their names stand at the right, in the order of their ends.
func plot(w io.Writer, title string, lines []line, unit func(float64) string) error {
	const left, right, top, bottom, width, height = 80, 380, 44, 30, chartWidth + 200, 460
	lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, l := range lines {
		for _, p := range l.points {
			for i := range p {
				lo[i], hi[i] = min(lo[i], math.Floor(math.Log10(p[i]))), max(hi[i], math.Ceil(math.Log10(p[i])))
			}
		}
	}
	for i := range lo {
		if !(hi[i] > lo[i]) {
			hi[i] = lo[i] + 1
		}
	}
	place := func(i int, v, from, to float64) float64 { return from + (math.Log10(v)-lo[i])/(hi[i]-lo[i])*(to-from) }
	x := func(v float64) float64 { return place(0, v, left, width-right) }
	y := func(v float64) float64 { return place(1, v, height-bottom, top) }
	p := &printer{w: w}
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`, width, height)
	p.f(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	p.f(`<text x="16" y="24" font-size="15" font-weight="600" fill="#111">%s</text>`, html.EscapeString(title))
	for e := lo[0]; len(lines) > 0 && e <= hi[0]; e++ {
		p.f(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`, x(math.Pow(10, e)), x(math.Pow(10, e)),
			top, height-bottom)
		p.f(`<text x="%.1f" y="%d" text-anchor="middle" fill="#666">%s</text>`, x(math.Pow(10, e)), height-10,
			count(int(math.Pow(10, e))))
	}
	for e := lo[1]; len(lines) > 0 && e <= hi[1]; e++ {
		p.f(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#eee"/>`, left, width-right, y(math.Pow(10, e)),
			y(math.Pow(10, e)))
		p.f(`<text x="%d" y="%.1f" text-anchor="end" fill="#666">%s</text>`, left-8, y(math.Pow(10, e))+4,
			unit(math.Pow(10, e)))
	}
	for i, l := range lines {
		colour := fmt.Sprintf("hsl(%d,45%%,%d%%)", 360*i/len(lines), map[bool]int{true: 32, false: 62}[l.ours])
		var at []string
		for _, v := range l.points {
			at = append(at, fmt.Sprintf("%.1f,%.1f", x(v[0]), y(v[1])))
			p.f(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(v[0]), y(v[1]), colour)
		}
		p.f(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(at, " "), colour)
		p.f(`<rect x="%d" y="%d" width="14" height="4" fill="%s"/>`, width-right+16, top+24*i+6, colour)
		p.f(`<text x="%d" y="%d" fill="#111">%s</text>`, width-right+38, top+24*i+12, html.EscapeString(l.name))
	}
	p.f(`</svg>`)
	return p.err
}
