package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/app"
	"haft/internal/requirement"
)

// neededBy returns the packages that a source and files of requirements name.
func neededBy(src app.Source, files []string) (requirement.Set, error) {
	var sets []requirement.Set
	if src.Kind == haft.KindPython {
		s, _, err := requirement.ReadScript(src.Name+".py", string(src.Text))
		if err != nil {
			return requirement.Set{}, err
		}
		sets = append(sets, s)
	}
	for _, name := range files {
		s, err := readNeeds(name)
		if err != nil {
			return requirement.Set{}, err
		}
		sets = append(sets, s)
	}
	set, err := requirement.Merge(sets...)
	if err != nil {
		return set, err
	}
	node := src.Kind == haft.KindTypeScript || src.Kind == haft.KindJavaScript
	switch {
	case len(set.Pip) > 0 && src.Kind != haft.KindPython:
		return set, usage(fmt.Errorf("the requirements name Python packages, and the tool is no Python"))
	case len(set.NPM) > 0 && !node:
		return set, usage(fmt.Errorf("the requirements name npm packages, and the tool is no TypeScript or JavaScript"))
	}
	return set, nil
}

// readNeeds reads a file that names packages, by its name.
func readNeeds(name string) (requirement.Set, error) {
	text, err := readBounded(name, requirement.MaxFile)
	if err != nil {
		return requirement.Set{}, usage(fmt.Errorf("read the requirements: %w", err))
	}
	origin := filepath.Base(name)
	switch strings.ToLower(filepath.Ext(name)) {
	case ".toml":
		return requirement.ReadPyproject(origin, text)
	case ".json":
		return requirement.ReadPackageJSON(origin, text)
	}
	return requirement.ReadRequirements(origin, string(text))
}

// dirNeeds reads what the files of a directory name for all tools in it.
func dirNeeds(dir string) (haft.Requirements, error) {
	var sets []requirement.Set
	for _, name := range []string{"requirements.txt", "pyproject.toml", "package.json"} {
		name = filepath.Join(dir, name)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s, err := readNeeds(name)
		if err != nil {
			return haft.Requirements{}, err
		}
		sets = append(sets, s)
	}
	return together(sets)
}

// together makes one list of sets.
func together(sets []requirement.Set) (haft.Requirements, error) {
	var n haft.Requirements
	set, err := requirement.Merge(sets...)
	if err != nil {
		return n, err
	}
	n.Pip, n.NPM = set.Strings()
	return n, nil
}

// addNeeds gives a draft the packages that its directory names, as far as they are
// of its language.
func addNeeds(d *haft.Draft, more haft.Requirements) {
	switch d.Kind {
	case haft.KindPython:
		d.Needs.Pip = append(slices.Clone(d.Needs.Pip), more.Pip...)
	case haft.KindTypeScript, haft.KindJavaScript:
		d.Needs.NPM = append(slices.Clone(d.Needs.NPM), more.NPM...)
	}
}

// progress shows a person what an installer does: one line that changes. Where
// nobody looks it is silent.
type progress struct {
	w  io.Writer
	on bool

	mu    sync.Mutex
	shown bool
}

// newProgress returns one for w.
func newProgress(w io.Writer) *progress { return &progress{w: w, on: isTerminal(w)} }

// maxProgress is how much of a line is shown.
const maxProgress = 70

// line shows a line in the place of the one before; "" takes it away.
func (p *progress) line(text string) {
	if !p.on {
		return
	}
	if text == "" {
		p.clear()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text = strings.ReplaceAll(escape(text), "\n", " ")
	if r := []rune(text); len(r) > maxProgress {
		text = string(r[:maxProgress]) + "…"
	}
	fmt.Fprint(p.w, "\r\x1b[K"+paint(p.w, dim, text))
	p.shown = true
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
