package haft_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
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
	// A link to a page of the repository, to a heading, or to both.
	link    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	code    = regexp.MustCompile("`[^`\n]*`")
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
	}
}

// A test as pages name it: alone, or behind its package.
var namedTest = regexp.MustCompile(`(?:\b((?:[a-z0-9]+/)*[a-z0-9]+)\.)?\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)`)

// Every test that a page names exists, and in the package that the page says. Commands may have the beginning of one.
func TestDocuments_name_tests_that_exist(t *testing.T) {
	tests := map[string][]string{} // directories, by the names of tests
	for _, s := range sources(t) {
		for _, name := range declared(s.file) {
			if s.test && namedTest.MatchString(name) {
				tests[name] = append(tests[name], cmp.Or(s.dir, "haft"))
			}
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "SECURITY.md", "CONTRIBUTING.md", "AGENTS.md") {
		text, err := os.ReadFile(page) //nolint:gosec // pages of the repository
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
				found++
				dirs := tests[m[2]]
				for name := range tests {
					if strings.Contains(line, "-run ") && strings.HasPrefix(name, m[2]) {
						dirs = append(dirs, tests[name]...)
					}
				}
				if !slices.ContainsFunc(dirs, func(dir string) bool {
					return m[1] == "" || dir == m[1] || strings.HasSuffix(dir, "/"+m[1])
				}) {
					t.Errorf("%s names the test %s, which does not exist", page, m[0])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("%d names of tests were found", found)
	}
}

// Every link of every page leads to a file and a heading that exist, and the index of docs links every page of it.
func TestDocuments_links_lead_somewhere(t *testing.T) {
	pages := documents(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "clients/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name) //nolint:gosec // pages of the repository
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(text)
		}
	}
	linked := map[string]bool{}
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fenced.ReplaceAllString(text, ""), ""), -1) {
			to := page
			if m[1] != "" {
				to = path.Join(path.Dir(page), m[1])
			}
			if page == "docs/README.md" {
				linked[to] = true
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, to)
			} else if m[2] != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(pages[to]), m[2]) {
				t.Errorf("%s links to %s#%s, which is no heading there", page, to, m[2])
			}
		}
	}
	for page := range pages {
		if path.Dir(page) == "docs" && page != "docs/README.md" && !linked[page] {
			t.Errorf("docs/README.md does not link %s", page)
		}
	}
}

// anchors returns what links to the headings of a page end with.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// verb is a place in a format where a value comes, and in a page what stands for it.
var verb = regexp.MustCompile(`%[-+#0-9.]*[a-z]|…`)

// The messages in the headings of the page about troubles are in the sources, or printed by a command of that page.
func TestDocuments_messages_exist(t *testing.T) {
	page, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && constantText(e) != "" {
				texts.WriteString(verb.ReplaceAllString(constantText(e), "…") + "\n")
				return false
			}
			return true
		})
	}
	for _, block := range fenced.FindAllString(string(page), -1) {
		texts.WriteString(block)
	}
	messages := 0
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(page), ""), -1) {
		message, quoted := strings.CutPrefix(m[1], "`")
		if !quoted {
			continue
		}
		messages++
		for part := range strings.SplitSeq(strings.TrimSuffix(message, "`"), "…") {
			if part = strings.TrimSpace(part); len(part) > 3 && !strings.Contains(texts.String(), part) {
				t.Errorf("docs/troubleshooting.md has %q, which no source has", part)
			}
		}
	}
	if messages < 15 {
		t.Errorf("%d messages were found", messages)
	}
}

// constantText returns a text that is written in a source, also in several pieces; "" if it is none.
func constantText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) //nolint:errcheck // the file was parsed; numbers give nothing
		return text
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return ""
		}
		x, y := constantText(e.X), constantText(e.Y)
		if x == "" && y == "" {
			return ""
		}
		return cmp.Or(x, "…") + cmp.Or(y, "…")
	}
	return ""
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

// Every row of docs/seeds.md names tests that exist, and scripts that do.
func TestDocuments_seeds_name_tests_that_exist(t *testing.T) {
	page, err := os.ReadFile("docs/seeds.md")
	if err != nil {
		t.Fatal(err)
	}
	test := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`(?: \\((\\w+)\\))?")
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, ""), "|")
		if len(cells) < 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		named := test.FindAllStringSubmatch(cells[3], -1)
		if len(cells) != 5 || len(named) == 0 {
			t.Errorf("the row of%sis not three cells with a test in the last", cells[1])
		}
		for _, m := range named {
			checkTestExists(t, m[1], m[2])
			if script := "cmd/haft/testdata/script/" + m[3] + ".txtar"; m[2] == "TestScript" && !exists(script) {
				t.Errorf("there is no %s", script)
			}
		}
	}
	if rows < 50 {
		t.Errorf("the page has %d rows", rows)
	}
}

// checkTestExists fails the test if a package has no test of a name.
func checkTestExists(t *testing.T, dir, name string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // tests of the repository
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return
		}
	}
	t.Errorf("there is no test %s.%s", dir, name)
}
