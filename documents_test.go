package haft_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are the pages for people who change Haft.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("docs/contributing/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, name := range append(names, "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

var (
	// A declaration as pages name it: package.Name, without the receiver of a method.
	namedDecl = regexp.MustCompile(`\b((?:[a-z0-9]+/)*[a-z0-9]+)\.([A-Za-z]\w*)\b`)
	namedPath = regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+|[A-Za-z0-9_-]+\\.(?:go|md|txt))`")
	link      = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// Every function, type, file and package that a page names exists.
func TestDocuments_name_what_exists(t *testing.T) {
	decls := map[string]map[string]bool{} // by directory
	for _, s := range sources(t) {
		dir := s.dir
		if dir == "" {
			dir = "haft"
		}
		if decls[dir] == nil {
			decls[dir] = map[string]bool{}
		}
		for _, name := range declared(s.file) {
			decls[dir][name] = true
		}
	}
	for page, text := range documents(t) {
		for _, m := range namedDecl.FindAllStringSubmatch(text, -1) {
			if names := decls[m[1]]; names != nil && !names[m[2]] && !slices.Contains([]string{"go", "md"}, m[2]) {
				t.Errorf("%s names %s, which package %s does not declare", page, m[0], m[1])
			}
		}
		for _, m := range namedPath.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(m[1], "/")
			if strings.HasPrefix(name, "bin/") || exists(name) {
				continue
			}
			if decls[path.Dir(name)+"/"+strings.Split(path.Base(name), ".")[0]] == nil { // not package.Name either
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if !exists(path.Join(path.Dir(page), m[1])) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	}
}

// exists reports whether a path of the repository does, or a package that pages name without internal.
func exists(name string) bool {
	for _, dir := range []string{"", "internal/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return true
		}
	}
	return false
}

// declared lists what a file declares, methods without their receivers.
func declared(f *ast.File) []string {
	var names []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// The picture of ARCHITECTURE.md has every package once, and imports lead to lower rows.
func TestDocuments_picture_of_packages(t *testing.T) {
	_, text, _ := strings.Cut(documents(t)["ARCHITECTURE.md"], "## Packages")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	rows, row := map[string]int{}, 0
	for line := range strings.Lines(text) {
		names := strings.Fields(line)
		if !strings.HasPrefix(line, " ") {
			row++
			names = names[1:]
		}
		for _, name := range names {
			if rows[name] != 0 {
				t.Errorf("ARCHITECTURE.md has %s twice", name)
			}
			rows[name] = row
		}
	}
	for pkg, deps := range imports {
		name := pkg
		if pkg == "" {
			name = "haft"
		}
		if strings.HasSuffix(pkg, "test") || pkg == "deploy" || pkg == "internal/soak" || strings.HasPrefix(pkg,
			"scripts/") {
			continue
		}
		if rows[name] == 0 {
			t.Errorf("ARCHITECTURE.md has no %s in its picture of the packages", name)
		}
		for _, dep := range deps {
			if !strings.HasSuffix(dep, "...") && !strings.HasSuffix(dep, "test") && rows[dep] <= rows[name] {
				t.Errorf("ARCHITECTURE.md: %s imports %s, which is not in a lower row", name, dep)
			}
		}
	}
	for name := range rows {
		if _, ok := imports[strings.TrimPrefix(name, "haft")]; !ok {
			t.Errorf("ARCHITECTURE.md has %s in its picture, which arch_test.go does not list", name)
		}
	}
}
