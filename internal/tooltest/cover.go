package tooltest

import (
	"bytes"
	_ "embed" // what is added to sources
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"haft"
	"haft/internal/toolfile"
)

// What is added to the source of tools whose lines are counted. It writes the lines that can run, and those that ran,
// to a file that is an artifact of the call: in Python each line when it runs for the first time, in TypeScript and
// JavaScript all at the end of the call.
var (
	//go:embed cover.py
	coverPython string
	//go:embed cover.js
	coverScript string
)

// coverArtifact is that file. It is taken out of the result before anything is compared.
const coverArtifact = "haft-test-lines"

// Covered is which lines of a source ran.
type Covered struct {
	// Test is the test file, and Source that of its tool.
	Test   string `json:"test"`
	Source string `json:"source"`
	// Lines are those in functions that can run, Ran is how many of them did, and Missed are the others.
	Lines  int   `json:"lines"`
	Ran    int   `json:"ran"`
	Missed []int `json:"missed,omitempty"`
}

// Percent is how many of the lines ran, of 100.
func (c Covered) Percent() float64 {
	if c.Lines == 0 {
		return 100
	}
	return 100 * float64(c.Ran) / float64(c.Lines)
}

// lines are those of one source: whether each of them ran.
type lines struct {
	source []string
	ran    map[int]bool
	// called says that a call said which lines there are.
	called bool
}

// covering collects the lines of the sources of all test files.
type covering struct {
	coverMu sync.Mutex
	sources map[*File]map[string]*lines // by path
	of      map[*File]map[string]string // the source of a tool by its name
}

// cover has the lines of a tool counted, unless it is profiled.
func (p *place) cover(source string, d *haft.Draft) {
	if p.cfg.Profile || !p.cfg.Coverage && p.file.Gates.Coverage == nil || d.Settings.NoArtifacts {
		return
	}
	text := strings.Split(strings.TrimRight(d.Source, "\n"), "\n")
	switch d.Kind {
	case haft.KindPython:
		d.Source += strings.Replace(coverPython, "{{LAST}}", strconv.Itoa(len(text)), 1)
	case haft.KindTypeScript, haft.KindJavaScript:
		d.Source += coverScript
	default:
		return
	}
	source, _ = toolfile.SplitRef(source)
	p.coverMu.Lock()
	defer p.coverMu.Unlock()
	if p.sources == nil {
		p.sources, p.of = map[*File]map[string]*lines{}, map[*File]map[string]string{}
	}
	if p.sources[p.file] == nil {
		p.sources[p.file], p.of[p.file] = map[string]*lines{}, map[string]string{}
	}
	if p.sources[p.file][source] == nil {
		p.sources[p.file][source] = &lines{source: text, ran: map[int]bool{}}
	}
}

// keepSource notes of which source a tool is, whose lines are counted.
func (p *place) keepSource(tool, source string) {
	source, _ = toolfile.SplitRef(source)
	p.coverMu.Lock()
	defer p.coverMu.Unlock()
	if p.sources[p.file][source] != nil {
		p.of[p.file][tool] = source
	}
}

// takeCovered takes the lines that a call ran out of its result.
func (p *place) takeCovered(tool string, res *haft.Result) {
	p.coverMu.Lock()
	defer p.coverMu.Unlock()
	l := p.sources[p.file][p.of[p.file][tool]]
	if l == nil {
		return
	}
	if data, ok := takeArtifact(res, coverArtifact); ok {
		l.add(data)
	}
}

// withoutAdded leaves out of what a call touched the files that were added to its tool for the test.
func (p *place) withoutAdded(tool string, t *haft.Touched) *haft.Touched {
	if t == nil {
		return nil
	}
	p.coverMu.Lock()
	counted := p.sources[p.file][p.of[p.file][tool]] != nil
	p.coverMu.Unlock()
	_, timed := p.profiled[tool]
	t.Accesses = slices.DeleteFunc(slices.Clone(t.Accesses), func(a haft.Access) bool {
		return a.Kind == haft.AccessWrite && (counted && a.Name == "/work/out/"+coverArtifact ||
			timed && a.Name == "/work/out/"+profileArtifact)
	})
	return t
}

// add reads what the tool wrote. It is the word of the tool, which could write what it likes.
func (l *lines) add(data []byte) {
	for line := range bytes.Lines(data) {
		list, all := bytes.CutPrefix(bytes.TrimSpace(line), []byte("="))
		for text := range bytes.FieldsSeq(list) {
			n, err := strconv.Atoi(string(text))
			if err != nil || n < 1 || n > len(l.source) || !strings.ContainsFunc(l.source[n-1], isWord) {
				continue
			}
			if l.called = true; !all {
				if _, known := l.ran[n]; known {
					l.ran[n] = true
				}
			} else if !l.ran[n] {
				l.ran[n] = false
			}
		}
	}
}

// isWord reports whether a character is part of a word: lines of brackets alone do not count.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// covered returns the lines of the sources of a test file.
func (w *world) covered(f *File) (list []Covered) {
	w.coverMu.Lock()
	defer w.coverMu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(w.sources[f])) {
		l := w.sources[f][source]
		c := Covered{Test: f.Path, Source: filepath.ToSlash(source), Lines: len(l.ran)}
		if !l.called {
			c.Lines = len(l.source) // none of which ran
		}
		for _, n := range slices.Sorted(maps.Keys(l.ran)) {
			if l.ran[n] {
				c.Ran++
			} else {
				c.Missed = append(c.Missed, n)
			}
		}
		list = append(list, c)
	}
	return list
}

// coverGates compares the lines that ran with the gate of a file.
func (r *runner) coverGates(w *world, f *File, add func(name string, closed bool, format string, args ...any)) {
	list := w.covered(f)
	r.report.Coverage = append(r.report.Coverage, list...)
	if f.Gates.Coverage == nil || r.cfg.Profile || r.cfg.Run != nil || len(r.cfg.Tags) > 0 || r.focus {
		return
	}
	if len(list) == 0 {
		add("coverage", true, "the lines of no tool can be counted: coverage is for tools in Python, TypeScript and "+
			"JavaScript")
	}
	for _, c := range list {
		add("coverage", c.Percent() < *f.Gates.Coverage, "%s, %g %% is the least", c, *f.Gates.Coverage)
	}
}

// String says how many lines of a source ran, and which did not.
func (c Covered) String() string {
	text := fmt.Sprintf("%.0f %% of the lines of %s ran", c.Percent(), c.Source)
	if len(c.Missed) == 0 {
		return text
	}
	var parts []string
	for i := 0; i < len(c.Missed); {
		j := i
		for j+1 < len(c.Missed) && c.Missed[j+1] == c.Missed[j]+1 {
			j++
		}
		part := strconv.Itoa(c.Missed[i])
		if j > i {
			part += "-" + strconv.Itoa(c.Missed[j])
		}
		parts, i = append(parts, part), j+1
	}
	if len(parts) > maxMissed {
		parts = append(parts[:maxMissed], "…")
	}
	return text + ", not " + strings.Join(parts, ", ")
}

// maxMissed is how many parts of a source are named that did not run.
const maxMissed = 20
