package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// The measures of the chart, in pixels.
const (
	chartWidth = 940
	labelWidth = 370
	barHeight  = 18
	rowHeight  = 34
	topMargin  = 56
)

// Chart draws p50 as bars and p95 as marks, on a logarithmic scale, because the
// ways differ by powers of ten.
func Chart(w io.Writer, title string, samples []Sample) error {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		lo = min(lo, math.Log10(ms(s.Quantile(.5))))
		hi = max(hi, math.Log10(ms(s.Quantile(.95))))
	}
	lo, hi = math.Floor(lo), math.Ceil(hi)
	if hi <= lo {
		hi = lo + 1
	}
	x := func(d time.Duration) float64 {
		return labelWidth + (math.Log10(ms(d))-lo)/(hi-lo)*(chartWidth-labelWidth-110)
	}
	height := topMargin + rowHeight*len(samples) + 34
	p := &printer{w: w}
	p.f(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`, chartWidth, height)
	p.f(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	p.f(`<text x="16" y="26" font-size="16" font-weight="600" fill="#111">%s</text>`, html.EscapeString(title))
	p.f(
		`<text x="16" y="44" fill="#666">time of one call, p50 (bar) and p95 (line); logarithmic; shorter is better</text>`)
	for e := lo; e <= hi; e++ {
		at := labelWidth + (e-lo)/(hi-lo)*(chartWidth-labelWidth-110)
		p.f(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`, at, at, topMargin, height-26)
		p.f(`<text x="%.1f" y="%d" text-anchor="middle" fill="#666">%s</text>`, at, height-8, label(math.Pow(10, e)))
	}
	for i, s := range samples {
		y := topMargin + i*rowHeight + 8
		fill := "#9aa5b1"
		if strings.HasPrefix(s.Name, "haft") {
			fill = "#2f6f4f"
		}
		p50, p95 := x(s.Quantile(.5)), x(s.Quantile(.95))
		p.f(`<text x="%d" y="%d" text-anchor="end" fill="#111">%s</text>`, labelWidth-10, y+14,
			html.EscapeString(s.Name))
		p.f(`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y, max(p50-labelWidth, 2),
			barHeight, fill)
		p.f(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#111" stroke-width="2"/>`, p95, p95, y-2, y+barHeight+2)
		p.f(`<text x="%.1f" y="%d" fill="#111">%s</text>`, max(p50, p95)+8, y+14, label(ms(s.Quantile(.5))))
	}
	p.f(`</svg>`)
	return p.err
}

// ms returns d in milliseconds, never zero.
func ms(d time.Duration) float64 { return max(float64(d), 1) / 1e6 }

// label writes milliseconds for people.
func label(v float64) string {
	switch {
	case v < 0.1:
		return fmt.Sprintf("%.0f µs", v*1000)
	case v < 10:
		return fmt.Sprintf("%.2g ms", v)
	case v < 1000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.1f s", v/1000)
}

// printer keeps the first error of a row of writes.
type printer struct {
	w   io.Writer
	err error
}

// f writes one line.
func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
