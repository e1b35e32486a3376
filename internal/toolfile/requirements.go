package toolfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/app"
	"haft/internal/registry"
	"haft/internal/requirement"
)

// isNode reports whether tools of a kind use npm packages.
func isNode(kind haft.Kind) bool { return kind == haft.KindTypeScript || kind == haft.KindJavaScript }

// Requirements returns the packages that a source, files of requirements and a list name.
func Requirements(src app.Source, files, list []string) (set requirement.Set, err error) {
	named := haft.SplitRequirements(src.Kind, list)
	given, err := requirement.Parse("--requirement", named.Pip, named.NPM)
	if err != nil {
		return set, wrong(err)
	}
	var own requirement.Set
	if src.Kind == haft.KindPython {
		if own, _, err = requirement.ReadScript(src.Name+".py", string(src.Text)); err != nil {
			return set, err
		}
	}
	if set, err = ReadRequirements(files, own, given); err != nil {
		return set, err
	}
	switch {
	case len(set.Pip) > 0 && src.Kind != haft.KindPython:
		return set, wrong(errors.New("the requirements name Python packages, and the tool is no Python"))
	case len(set.NPM) > 0 && !isNode(src.Kind):
		return set, wrong(errors.New("the requirements name npm packages, and the tool is no TypeScript or JavaScript"))
	}
	return set, nil
}

// ReadRequirements reads files that name packages, and adds their packages to those of sets.
func ReadRequirements(files []string, sets ...requirement.Set) (all requirement.Set, err error) {
	for _, name := range files {
		text, err := ReadBounded(name, requirement.MaxFile)
		if err != nil {
			return all, wrong(fmt.Errorf("read the requirements: %w", err))
		}
		var set requirement.Set
		switch origin := filepath.Base(name); strings.ToLower(filepath.Ext(name)) {
		case ".toml":
			set, err = requirement.ReadPyproject(origin, text)
		case ".json":
			set, err = requirement.ReadPackageJSON(origin, text)
		default:
			set, err = requirement.ReadRequirements(origin, string(text))
		}
		if err != nil {
			return all, err
		}
		sets = append(sets, set)
	}
	return requirement.Merge(sets...)
}

// DirRequirements reads the files of a directory that name packages for all tools in it.
func DirRequirements(dir string) (requirement.Set, error) {
	files, err := requirementFiles(dir)
	if err != nil {
		return requirement.Set{}, err
	}
	return ReadRequirements(files)
}

// requirementFiles returns the files of a directory that name packages. A link is refused: the lines of the file that
// it leads to would be asked for at the package index.
func requirementFiles(dir string) ([]string, error) {
	var files []string
	for _, name := range []string{"requirements.txt", "pyproject.toml", "package.json"} {
		file := filepath.Join(dir, name)
		info, err := os.Lstat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			return nil, wrong(fmt.Errorf("%s is no regular file: copy what it leads to", file))
		}
		files = append(files, file)
	}
	return files, nil
}

// AddDirRequirements gives a tool of a directory the packages that files of the directory name. A
// tool that is a directory itself has files of its own for them.
func AddDirRequirements(f *registry.Found, file string, set requirement.Set) (err error) {
	if f.Whole {
		set, err = DirRequirements(filepath.Dir(file))
	}
	AddRequirements(&f.Draft, set)
	return err
}

// AddRequirements gives a draft the packages of a set that are of its language.
func AddRequirements(d *haft.Draft, set requirement.Set) {
	pip, npm := set.Strings()
	switch {
	case d.Kind == haft.KindPython:
		d.Needs.Pip = slices.Concat(d.Needs.Pip, pip)
	case isNode(d.Kind):
		d.Needs.NPM = slices.Concat(d.Needs.NPM, npm)
	}
}
