package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// load returns what one way got with so many callers.
func (r *Report) load(way string, callers int) (Load, bool) {
	i := slices.IndexFunc(r.Loads, func(l Load) bool { return l.Way == way && l.Callers == callers })
	if i < 0 {
		return Load{}, false
	}
	return r.Loads[i], true
}

// loadRows adds the rows on callers without pauses.
func (b *contest) loadRows(starts []*bareStart) {
	const few, many = 4, 64
	var beside []string
	for _, s := range starts {
		beside = append(beside, fmt.Sprintf("%.0f/s %s", s.rate, s.version))
		b.report.Loads = append(b.report.Loads, Load{Way: "python3 -I -S -c pass, loops of a shell",
			Version: s.version,
			Callers: loops(), Rate: s.rate})
	}
	b.note("bare starts, %d loops of a shell: %s; ratios are to the first, which tools get", loops(),
		strings.Join(beside, ", "))
	for _, way := range []struct {
		name      string
		must, aim float64
	}{{inEngine, 1.6, 2.4}, {overHTTP, 1.3, 2}} {
		for _, n := range b.cfg.Callers {
			l, ok := b.report.load(way.name, n)
			if !ok || starts[0].rate <= 0 {
				continue
			}
			if n != few {
				b.note("%s, %d callers: %.0f/s, %.2f × of bare starts", way.name, n, l.Rate, l.Rate/starts[0].rate)
				continue
			}
			row := Row{What: fmt.Sprintf("sustained confined calls per second, %d callers: %s", n, way.name),
				Ours: fmt.Sprintf("%.0f/s", l.Rate), Theirs: strings.Join(beside, ", "),
				Ratio: l.Rate / starts[0].rate,
				Must:  way.must, Aim: way.aim, AtLeast: true}
			b.add(row)
		}
		b.callersRows(way.name, few, many)
	}
	if l, ok := b.report.load(overHTTP, few); ok {
		b.add(Row{What: "processor time inside haft for one confined call over HTTP (ms)", Ours: label(ms(l.Inside)),
			Theirs: label(ms(l.Processor)) + " of the machine", Ratio: float64(l.Inside) / float64(time.Millisecond),
			Must: 1.5, Aim: 1})
	}
}

// callersRows adds the rows on one way with many callers against few, and with one against bare.
func (b *contest) callersRows(way string, few, many int) {
	four, ok4 := b.report.load(way, few)
	if l, ok := b.report.load(way, many); ok && ok4 {
		b.add(Row{What: fmt.Sprintf("the same with %d callers, against %d: %s", many, few, way),
			Ours: fmt.Sprintf("%.0f/s", l.Rate), Theirs: fmt.Sprintf("%.0f/s", four.Rate), Ratio: l.Rate / four.Rate,
			Must: .9, Aim: 1, AtLeast: true})
	}
	bare, ok := b.report.load(bareCall, 1)
	if l, ok1 := b.report.load(way, 1); ok && ok1 {
		b.ratio("one caller without pauses, p50: "+way, l.P50, bare.P50, .25, .15)
	}
}
