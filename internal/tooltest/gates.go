package tooltest

import (
	"fmt"
	"slices"

	"haft"
	"haft/schema"
)

// A Verdict is what became of one of the gates.
type Verdict struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Sandbox string `json:"sandbox,omitempty"`
	// Text says what was found, and Closed that it is not enough.
	Text   string `json:"text"`
	Closed bool   `json:"closed,omitempty"`
}

// gates compares what the cases of a file found with the gates of the file. Cases that were not chosen do not count.
func (r *runner) gates(w *world, f *File, sandbox string) {
	add := func(name string, closed bool, format string, args ...any) {
		r.report.Gates = append(r.report.Gates, Verdict{File: f.Path, Name: name, Sandbox: sandbox, Closed: closed,
			Text: fmt.Sprintf(format, args...)})
	}
	of := func(o Outcome) bool { return o.File == f.Path && o.Sandbox == sandbox }
	mine := slices.DeleteFunc(slices.Clone(r.report.Outcomes), func(o Outcome) bool { return !of(o) })
	if len(mine) == 0 {
		return
	}
	if most := f.Gates.P95Ratio; most > 0 {
		if ratio, ok := p95Ratio(mine); ok {
			add("p95_ratio", ratio > most,
				"the 95th percentile takes %.2f times as long as the baseline, %g is the most", ratio, most)
		}
	}
	if least := f.Gates.Health; least != nil {
		healthy, all, why := w.health(f)
		percent := 100 * float64(healthy) / float64(max(all, 1))
		add("health", percent < *least, "%.0f %% of the tools have a schema that models can use, %g %% is the least%s",
			percent, *least, why)
	}
	r.touchGates(w, f, add)
	r.coverGates(w, f, add)
	if most := f.Gates.Skipped; most != nil {
		n := 0
		for _, o := range mine {
			if o.State == Skipped {
				n++
			}
		}
		add("skipped", n > *most, "%d cases are skipped, %d is the most", n, *most)
	}
}

// p95Ratio compares the 95th percentile of the times with that of the baseline, or with the median if no case is it.
func p95Ratio(list []Outcome) (float64, bool) {
	var times []float64
	base := 0.0
	for _, o := range list {
		if o.time > 0 {
			times = append(times, o.time)
		}
		if o.baseline {
			base = o.time
		}
	}
	if len(times) == 0 {
		return 0, false
	}
	slices.Sort(times)
	if base == 0 {
		base = times[len(times)/2]
	}
	return times[min(len(times)*95/100, len(times)-1)] / base, true
}

// health counts the tools of a file whose schema vendors accept, and which are described with all of their parameters.
func (w *world) health(f *File) (healthy, all int, why string) {
	for _, p := range w.places {
		if p.file != f {
			continue
		}
		for _, t := range p.tools {
			all++
			if reason := unhealthy(t); reason == "" {
				healthy++
			} else {
				why += "; " + t.Name + ": " + reason
			}
		}
		break // the others have the same tools
	}
	return healthy, all, why
}

// unhealthy says what is wrong with the schema of a tool, or "".
func unhealthy(t haft.Tool) string {
	if t.Version.Health.Status == haft.HealthInvalid {
		return fmt.Sprintf("vendors refuse its schema: %v", t.Version.Health.Reasons)
	}
	if t.Version.Description == "" {
		return "it has no description"
	}
	tree, err := schema.Decode(t.Version.Parameters)
	root, ok := tree.(*schema.Object)
	if err != nil || !ok {
		return "its schema cannot be read"
	}
	properties := root.Object("properties")
	if properties == nil {
		return ""
	}
	for _, name := range properties.Keys() {
		if p := properties.Object(name); p != nil && p.String("description") == "" {
			return "its parameter " + name + " has no description"
		}
	}
	return ""
}

// ratios compares time and memory of a case with those of the baseline of its file.
func (j *job) ratios() (faults []Fault) {
	if j.base == nil {
		return nil
	}
	for _, x := range []struct {
		what            string
		most, own, base float64
	}{
		{"time", j.c.Expect.TimeRatio, j.out.time, j.base.out.time},
		{"memory", j.c.Expect.MemoryRatio, j.out.memory, j.base.out.memory},
	} {
		switch {
		case x.most == 0:
		case x.own == 0 || x.base == 0:
			faults = append(faults, Fault{x.what + "_ratio", "the " + x.what + " of the call or of the baseline (" +
				j.base.c.Name + ") is not known"})
		case x.own/x.base > x.most:
			faults = append(faults, Fault{x.what + "_ratio", fmt.Sprintf("the %s is %.2f times that of the baseline "+
				"(%s), %g is the most", x.what, x.own/x.base, j.base.c.Name, x.most)})
		}
	}
	return faults
}
