package tooltest

import (
	"bytes"
	"cmp"
	_ "embed" // what is added to sources
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// profiles are added to the source of tools that are profiled. They look from time to time where the tool is, and write
// how many milliseconds it was where, to a file that is an artifact of the call.
var (
	//go:embed profile.py
	profilePython string
	//go:embed profile.js
	profileScript string
)

// profileArtifact is that file. It is taken out of the result before anything is compared.
const profileArtifact = "haft-test-profile"

// The bounds of what is shown of profiles.
const (
	maxProfiles     = 5  // cases
	maxProfileLines = 10 // of each
	maxSourceLine   = 80 // characters
)

// The bounds of what a tool can say of itself: lines of one call, places of one run, and milliseconds at one place.
const (
	maxSamples = 10_000
	maxPlaces  = 10_000
	maxSpent   = 1e9
)

// A Spent is how long a tool was at one place.
type Spent struct {
	Time    haft.Millis `json:"time_ms"`
	Percent float64     `json:"percent"`
	// Where is FILE:LINE of the tool, a function of somebody else, waiting, or Haft itself.
	Where string `json:"where"`
	// Source is the line.
	Source string `json:"source,omitempty"`
}

// profiled has the lines of the sources of tools that are profiled.
type profiled struct {
	file  string
	lines []string
}

// profile has a tool profiled, if that is asked for. Otherwise it returns no lines.
func (p *place) profile(source string, d *haft.Draft) (kept profiled) {
	if !p.cfg.Profile || d.Settings.NoArtifacts {
		return kept
	}
	file, _ := toolfile.SplitRef(source)
	lines := strings.Split(d.Source, "\n")
	switch d.Kind {
	case haft.KindPython:
		d.Source += strings.Replace(profilePython, "{{LAST}}", strconv.Itoa(len(lines)), 1)
	case haft.KindTypeScript, haft.KindJavaScript:
		d.Source += profileScript
	default:
		return kept
	}
	return profiled{filepath.ToSlash(file), lines}
}

// takeArtifact takes a file that was added for the test out of a result, and returns what it has.
func takeArtifact(res *haft.Result, name string) ([]byte, bool) {
	if res == nil {
		return nil, false
	}
	i := slices.IndexFunc(res.Artifacts, func(a haft.Artifact) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	data := res.Artifacts[i].Data
	res.Artifacts = slices.Delete(slices.Clone(res.Artifacts), i, i+1)
	return data, true
}

// takeProfile adds up where a call of a profiled tool spent its time. It is the word of the tool, which could write
// what it likes.
func (r *run) takeProfile(tool string, res *haft.Result) {
	of, ok := r.profiled[tool]
	if !ok {
		return
	}
	data, ok := takeArtifact(res, profileArtifact)
	if !ok {
		return
	}
	r.addProfile(of, data)
}

// addProfile adds what a tool wrote about itself to the time that was spent.
func (r *run) addProfile(of profiled, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent == nil {
		r.spent = map[Spent]float64{}
	}
	samples := 0
	for line := range bytes.Lines(data) {
		if samples++; samples > maxSamples {
			return
		}
		time, where, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		ms, err := strconv.ParseFloat(time, 64)
		if err != nil || !(ms >= 0 && ms < maxSpent) { // which is false for what is no number
			continue
		}
		at := Spent{Where: terminal.OneLine(where, maxSourceLine)}
		if n, err := strconv.Atoi(where); err == nil {
			if n < 1 || n > len(of.lines) {
				continue
			}
			at.Where, at.Source = fmt.Sprintf("%s:%d", of.file, n), terminal.OneLine(of.lines[n-1], maxSourceLine)
		}
		if _, known := r.spent[at]; known || len(r.spent) < maxPlaces {
			r.spent[at] = min(r.spent[at]+ms, maxSpent)
		}
	}
}

// mostSpent returns the places with the most time.
func mostSpent(all map[Spent]float64) []Spent {
	total := 0.0
	for _, ms := range all {
		total += ms
	}
	list := slices.SortedFunc(maps.Keys(all), func(a, b Spent) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a.Where, b.Where))
	})
	list = list[:min(len(list), maxProfileLines)]
	for i := range list {
		ms := all[list[i]]
		list[i].Time, list[i].Percent = haft.Millis(ms*1e6), 100*ms/max(total, 1e-9)
	}
	return list
}

// profiles shows where the slowest cases spent their time.
func (p *Printer) profiles(r *Report) {
	list := slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return len(o.Profile) == 0 })
	slices.SortStableFunc(list, func(a, b Outcome) int { return cmp.Compare(b.time, a.time) })
	for _, o := range list[:min(len(list), maxProfiles)] {
		t := o.Result.Timeline
		fmt.Fprintf(p.Out, "profile %s: queue %s, set-up %s, run %s, all %s\n", title(o), shortTime(t.Queue),
			shortTime(t.Setup), shortTime(t.Execute), shortTime(t.Total))
		for _, s := range o.Profile {
			line := fmt.Sprintf("  %5.1f %% %8s  %s  %s", s.Percent, shortTime(s.Time), oneLine(s.Where),
				oneLine(s.Source))
			fmt.Fprintln(p.Out, strings.TrimRight(line, " "))
		}
	}
}

// shortTime rounds a time as reports show it.
func shortTime(m haft.Millis) time.Duration { return m.D().Round(100 * time.Microsecond) }
