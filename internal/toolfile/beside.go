package toolfile

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/internal/registry"
	"haft/internal/requirement"
	"haft/sandbox"
)

// AddFiles reads the files of PATH[:NAME] and adds them to the files of the draft of a FILE[:FUNCTION].
// It reports a module that lies beside the tool and that the draft does not include then.
func AddFiles(d *haft.Draft, ref string, names []string) error {
	files, err := ReadFiles(names)
	if err != nil {
		return err
	}
	for _, f := range files {
		if len(f.Data) > registry.MaxSource {
			return wrong(fmt.Errorf("the file %s of the tool has %d bytes, %d is the most", f.Name, len(f.Data),
				registry.MaxSource))
		}
		d.Files = append(d.Files, haft.ToolFile{Path: f.Name, Data: f.Data})
	}
	return checkBeside(ref, *d)
}

// PathsOf returns the paths of the files of a tool.
func PathsOf(files []haft.ToolFile) []string {
	var list []string
	for _, f := range files {
		list = append(list, f.Path)
	}
	return list
}

// Names returns the names of files.
func Names(files []sandbox.File) []string {
	var list []string
	for _, f := range files {
		list = append(list, f.Name)
	}
	return list
}

// The imports of a source that may be of files beside it. A text that only looks like an import
// does no harm unless a file of that name is there.
var (
	pythonImport = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+\.*([A-Za-z_]\w*)[\w.]*[ \t]+import\b|import[ \t]+([\w., \t]+))`)
	})
	nodeImport = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:from|import|require)[ \t]*\(?[ \t]*["'](\./[^"'\n]{1,200})["']`)
	})
	bashImport = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*(?:source|\.)[ \t]+["']?(\./[^\s"';|&]{1,200})`)
	})
)

// imports returns what a source imports that may be a file beside it, as the source names it.
func imports(kind haft.Kind, source string) []string {
	var list []string
	switch kind {
	case haft.KindPython:
		for _, m := range pythonImport().FindAllStringSubmatch(source, -1) {
			for _, name := range strings.Split(m[1]+m[2], ",") {
				name, _, _ = strings.Cut(strings.TrimSpace(name), " ") // import a as b
				name, _, _ = strings.Cut(name, ".")
				if name != "" && !requirement.IsStandard(name) {
					list = append(list, name)
				}
			}
		}
	case haft.KindTypeScript, haft.KindJavaScript:
		for _, m := range nodeImport().FindAllStringSubmatch(source, -1) {
			list = append(list, m[1])
		}
	case haft.KindBash:
		for _, m := range bashImport().FindAllStringSubmatch(source, -1) {
			list = append(list, m[1])
		}
	}
	return list
}

// candidates returns the files that an import can mean, and last the directory, with slashes.
func candidates(kind haft.Kind, name string) []string {
	switch kind {
	case haft.KindPython:
		return []string{name + ".py", name}
	case haft.KindBash:
		return []string{path.Clean(name)}
	}
	name = path.Clean(name)
	list := []string{name}
	for _, end := range []string{".ts", ".js", ".mts", ".mjs", ".cjs", ".json"} {
		list = append(list, name+end)
	}
	if stem, ok := strings.CutSuffix(name, "js"); ok {
		list = append(list, stem+"ts")
	}
	return list
}

// Beside returns, for every import of the tool of FILE[:FUNCTION] that is a file beside it and
// not among the included paths, what to do about it.
func Beside(ref string, kind haft.Kind, source string, included []string) map[string]string {
	file, _ := SplitRef(ref)
	dir, found := filepath.Dir(file), map[string]string{}
	for _, name := range imports(kind, source) {
		has := func(c string) bool {
			return slices.ContainsFunc(included, func(p string) bool { return p == c || strings.HasPrefix(p, c+"/") })
		}
		all := candidates(kind, name)
		if slices.ContainsFunc(all, has) {
			continue
		}
		for _, c := range all {
			at := filepath.Join(dir, filepath.FromSlash(c))
			if !isModule(at, kind) || filepath.Clean(file) == at {
				continue
			}
			top, _, _ := strings.Cut(c, "/")
			found[name] = fmt.Sprintf("%s lies beside the tool and is not part of it: add --file %s", name,
				filepath.Join(dir, top))
			break
		}
	}
	return found
}

// isModule reports whether a file can be imported, or a directory has a file that can.
func isModule(name string, kind haft.Kind) bool {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return err == nil && info.Mode().IsRegular()
	}
	pattern := "index.*"
	if kind == haft.KindPython {
		pattern = "*.py"
	}
	list, _ := filepath.Glob(filepath.Join(name, pattern)) // the pattern is ours, or matches nothing
	return len(list) > 0
}

// checkBeside reports a module that the tool of FILE[:FUNCTION] imports, that lies beside it and
// that the draft does not include. A package that the draft requires may have the same name.
func checkBeside(ref string, d haft.Draft) error {
	found := Beside(ref, d.Kind, d.Source, PathsOf(d.Files))
	own, _, _ := requirement.ReadScript("", d.Source) // the registry reports what is wrong with it
	pip, _ := own.Strings()
	pip = slices.Concat(pip, d.Needs.Pip)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.ContainsFunc(pip, func(r string) bool {
			p, err := requirement.ParsePip(r)
			return err == nil && strings.ReplaceAll(p.Name, "-", "_") == strings.ToLower(name)
		}) {
			return &haft.Error{Code: haft.CodeInvalid, Message: found[name] +
				", or make a directory with a haft.toml of both"}
		}
	}
	return nil
}
