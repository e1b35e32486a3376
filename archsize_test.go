package haft_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"haft/internal/goldentest"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exceptionsFile lists what does not keep the rules yet. Its numbers can only shrink:
// go test . -run 'TestArchitecture|TestWords' -update lowers them and removes those that are met.
const exceptionsFile = "testdata/exceptions.txt"

// place names a declaration for the list of exceptions.
func place(s source, name string) string { return cmp.Or(s.dir, "haft") + "." + name }

// readExceptions returns the numbers of one rule by what they are for.
func readExceptions(t *testing.T, rule string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(exceptionsFile)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == rule {
			if known[f[1]], err = strconv.Atoi(f[2]); err != nil {
				t.Fatalf("%s: %s: %v", exceptionsFile, lines.Text(), err)
			}
		}
	}
	return known
}

// holdExceptions compares what breaks a rule with the list of exceptions. A number may be lower
// than the list says by slack before somebody has to lower it there.
func holdExceptions(t *testing.T, rule string, most int, found map[string]int, slack int) {
	t.Helper()
	known := readExceptions(t, rule)
	stale := false
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if n := found[name]; n < known[name]-slack || n == 0 {
			was := known[name]
			stale = true
			if known[name] = n; n == 0 {
				delete(known, name)
			}
			if !goldentest.Updating() {
				t.Errorf("%s %s: %d, and %s says %d: run go test . -run %s -update", rule, name, n, exceptionsFile,
					was, t.Name())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if n := found[name]; n > known[name] {
			t.Errorf("%s %s: %d, and %d is the most (see %s)", rule, name, n, max(most, known[name]), exceptionsFile)
		}
	}
	if stale && goldentest.Updating() {
		writeExceptions(t, rule, known)
	}
}

// writeExceptions replaces the numbers of one rule.
func writeExceptions(t *testing.T, rule string, known map[string]int) {
	t.Helper()
	text, err := os.ReadFile(exceptionsFile)
	if err != nil {
		t.Fatal(err)
	}
	var keep []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == rule {
			if n, ok := known[f[1]]; !ok {
				continue
			} else if f[2] != strconv.Itoa(n) {
				line = fmt.Sprintf("%s %s %d\n", rule, f[1], n)
			}
		}
		keep = append(keep, line)
	}
	if err := os.WriteFile(exceptionsFile, []byte(strings.Join(keep, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Interfaces are small, and those that they embed count.
func TestArchitecture_interfaces(t *testing.T) {
	all := interfaces(sources(t))
	found := map[string]int{}
	for name, it := range all {
		if n := it.methods(all, 0); n > maxInterface {
			found[name] = n
		}
	}
	holdExceptions(t, "interface", maxInterface, found, 0)
}

// iface is an interface of the module.
type iface struct {
	own      int
	embedded []string // as package.Name; those of other modules are not in the map and count as one
}

// methods counts the methods of an interface, those of embedded ones too.
func (i iface) methods(all map[string]iface, depth int) int {
	n := i.own
	for _, e := range i.embedded {
		if inner, ok := all[e]; ok && depth < 10 {
			n += inner.methods(all, depth+1)
		} else {
			n++
		}
	}
	return n
}

// interfaces finds the interfaces of all packages, as package.Name.
func interfaces(files []source) map[string]iface {
	all := map[string]iface{}
	for _, s := range files {
		if s.test {
			continue
		}
		imports := importNames(s.file)
		ast.Inspect(s.file, func(n ast.Node) bool {
			ts, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			it, ok := ts.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			var i iface
			for _, m := range it.Methods.List {
				switch t := m.Type.(type) {
				case *ast.FuncType:
					i.own += max(len(m.Names), 1)
				case *ast.Ident:
					i.embedded = append(i.embedded, place(s, t.Name))
				case *ast.SelectorExpr:
					pkg, _ := t.X.(*ast.Ident)
					i.embedded = append(i.embedded, imports[pkg.Name]+"."+t.Sel.Name)
				}
			}
			all[place(s, ts.Name.Name)] = i
			return true
		})
	}
	return all
}

// importNames returns the directories of our packages by the names that a file gives them.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, imp := range f.Imports {
		dep := strings.Trim(imp.Path.Value, `"`)
		name := path.Base(dep)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if dep == "haft" || strings.HasPrefix(dep, "haft/") {
			names[name] = strings.TrimPrefix(dep, "haft/")
		} else {
			names[name] = dep
		}
	}
	return names
}

// A type with many methods has several reasons to change.
func TestArchitecture_methods(t *testing.T) {
	found := map[string]int{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || s.test {
				continue
			}
			typ := f.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if index, ok := typ.(*ast.IndexExpr); ok {
				typ = index.X
			}
			if id, ok := typ.(*ast.Ident); ok {
				found[place(s, id.Name)]++
			}
		}
	}
	maps.DeleteFunc(found, func(_ string, n int) bool { return n <= maxMethods })
	holdExceptions(t, "methods", maxMethods, found, 0)
}

// forTests reports whether a package is for tests only. haft test is a command for users.
func forTests(dir string) bool { return strings.HasSuffix(dir, "test") && dir != "internal/tooltest" }

// A package is small enough to be read.
func TestArchitecture_packages(t *testing.T) {
	found := map[string]int{}
	for _, s := range sources(t) {
		if s.test || forTests(s.dir) {
			continue
		}
		found[cmp.Or(s.dir, "haft")] += codeLines(t, s)
	}
	maps.DeleteFunc(found, func(pkg string, n int) bool {
		return pkg != "app" && n <= maxPackage || pkg == "app" && n <= maxApp
	})
	holdExceptions(t, "lines", maxPackage, found, 500)
}

// codeLines counts the lines of a file that have code, as make size does.
func codeLines(t *testing.T, s source) int {
	t.Helper()
	text, err := os.ReadFile(s.name)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// The root shows the project at a glance.
func TestArchitecture_root(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" {
			dirs = append(dirs, e.Name())
		}
	}
	if len(dirs) > maxRoot {
		t.Errorf("there are %d directories at the root, %d is the most: %v", len(dirs), maxRoot, dirs)
	}
}

// Package-level variables are constants that Go cannot write as such: errors, tables, and functions that
// compile something once. Nothing changes them after they are made.
func TestArchitecture_no_package_state(t *testing.T) {
	files := sources(t)
	vars := map[string]map[string]bool{} // by package
	found := map[string]int{}
	for _, s := range files {
		if s.test || forTests(s.dir) {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for _, name := range v.Names {
					if name.Name == "_" {
						continue
					}
					if vars[s.dir] == nil {
						vars[s.dir] = map[string]bool{}
					}
					vars[s.dir][name.Name] = true
					if holdsState(v) {
						found[place(s, name.Name)]++
					}
				}
			}
		}
	}
	for _, s := range files {
		if s.test || forTests(s.dir) {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				for name := range assigned(f, vars[s.dir]) {
					found[place(s, name)]++
				}
			}
		}
	}
	for name := range found {
		found[name] = 1
	}
	holdExceptions(t, "state", 0, found, 0)
}

// holdsState reports whether a variable is of a type that is there to be changed.
func holdsState(v *ast.ValueSpec) bool {
	typ := v.Type
	if typ == nil && len(v.Values) > 0 {
		if lit, ok := v.Values[0].(*ast.CompositeLit); ok {
			typ = lit.Type
		}
	}
	sel, ok := typ.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, _ := sel.X.(*ast.Ident)
	return pkg != nil && (pkg.Name == "atomic" || pkg.Name == "sync")
}

// assigned returns the package-level variables that a function changes: the variable itself, or an
// element or a field of it. A name that the function declares itself is another variable.
func assigned(f *ast.FuncDecl, vars map[string]bool) map[string]bool {
	local, changed := map[string]bool{}, map[string]bool{}
	declare := func(fields *ast.FieldList) {
		if fields == nil {
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				local[name.Name] = true
			}
		}
	}
	declare(f.Recv)
	change := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				changed[x.Name] = vars[x.Name]
				return
			default:
				return
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			declare(n.Params)
			declare(n.Results)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					local[id.Name] = true
				}
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					local[id.Name] = true
				} else {
					change(e)
				}
			}
		case *ast.IncDecStmt:
			change(n.X)
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
				change(n.Args[0])
			}
		}
		return true
	})
	maps.DeleteFunc(changed, func(name string, ours bool) bool { return !ours || local[name] })
	return changed
}
