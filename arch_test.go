package haft_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The rules of the codebase. Changing the architecture means changing this file, which a
// reviewer sees.
const (
	maxFile      = 600 // lines
	maxFunc      = 80  // lines
	maxInterface = 6   // methods, embedded interfaces counted as one
)

// imports says which of our packages each package may import besides the root.
// A package that is not listed here has to be added.
var imports = map[string][]string{
	"":                    {},
	"bounds":              {},
	"internal/jsontree":   {},
	"schema":              {"internal/jsontree"},
	"schema/pyschema":     {"schema"},
	"schema/tsschema":     {"schema", "internal/javascript"},
	"schema/bashschema":   {"schema", "internal/shell"},
	"value":               {"internal/jsontree", "schema"},
	"policy":              {"internal/jsontree"},
	"event":               {},
	"event/eventtest":     {"event"},
	"sandbox":             {},
	"sandbox/hostpath":    {},
	"sandbox/process":     {"sandbox"},
	"sandbox/local":       {"sandbox", "sandbox/local/..."},
	"sandbox/sandboxtest": {"sandbox", "skiptest"},
	"sandbox/cell":        {"sandbox"},
	"executor":            {"sandbox", "secret"},
	"executor/script":     {"executor", "sandbox", "sandbox/cell", "secret", "internal/javascript", "schema/tsschema", "value", "executor/script/..."},
	"executor/upstream":   {"executor", "sandbox", "secret"},
	"executor/builtin":    {"executor", "sandbox", "schema", "secret", "egress"},
	"secret":              {},
	"secret/keeper":       {"secret"},
	"credential":          {"internal/jsontree", "secret"},
	"oauth":               {"secret"},
	"authority":           {},
	"auth":                {"authority"},
	"auth/authtest":       {"auth"},
	"egress":              {"secret"},
	"limit":               {},
	"audit":               {},
	"toolrule":            {},
	"chain":               {"bounds"},
	"internal/javascript": {},
	"internal/shell":      {},
	"review":              {"internal/javascript", "internal/shell"},
	"store":               {"event", "audit", "auth", "store/redo"},
	"store/redo":          {},
	"store/sqlite":        {"store"},
	"store/postgres":      {"store"},
	"store/storetest":     {"store", "event", "audit", "event/eventtest", "auth", "auth/authtest", "skiptest"},
	"requirement":         {},
	"layer":               {"requirement", "sandbox"},
	"layer/layertest":     {},
	"supply":              {"egress", "executor", "executor/script", "layer", "requirement", "sandbox"},
	"modelapi":            {"internal/jsontree", "schema"},
	"webhook":             {"event", "store"},
	"server":              {"auth", "authority", "bounds", "secret"},
	"client":              {"auth", "secret"},
	"skiptest":            {},
	"servicetest":         {"executor", "sandbox"},
	"server/letta":        {"bounds", "server"},
	"server/mcpserver":    {"bounds", "modelapi"},
	"registry":            {"requirement", "schema", "value", "store"},
	"checkpoint":          {"audit", "store"},
	"engine":              {"audit", "authority", "chain", "event", "executor", "limit", "policy", "registry", "requirement", "sandbox", "schema", "secret", "store", "toolrule", "value"},
	"telemetry":           {"engine"},
	"app":                 {"..."},
	"bench":               {"app", "supply", "executor", "requirement", "executor/builtin", "sandbox/cell", "schema", "secret"},
	"cmd/haft":            {"..."},
	"soak":                {}, // a harness and a checker, which know the API and nothing of what is behind it
	"deploy":              {}, // files for operators, and the tests that hold them to their word
}

// below says which packages may import a subtree of internal packages that is
// not listed one by one. They follow the rules of their owner.
var below = []string{"sandbox/local/internal/", "executor/script/internal/"}

// only says which packages may import a dependency, and why no other.
var only = []struct {
	dep, reason string
	pkgs        []string
}{
	{"golang.org/x/sys/unix", "system calls live in few packages, where each error is looked at", []string{"sandbox/hostpath", "sandbox/local", "sandbox/process", "sandbox/sandboxtest"}},
	{"os/exec", "processes are started by sandboxes and by nobody else", []string{"sandbox/local", "sandbox/process", "bench", "store/storetest"}},
	{"github.com/santhosh-tekuri/jsonschema", "one compiler of schemas", []string{"schema"}},
	{"cel.dev/cel-go", "expressions are bounded where they are compiled", []string{"value", "policy", "chain"}},
	{"modernc.org/sqlite", "a driver belongs to its opener", []string{"store/sqlite"}},
	{"github.com/jackc/pgx", "a driver belongs to its opener", []string{"store/postgres"}},
	{"github.com/pressly/goose", "one runner of migrations", []string{"store"}},
	{"github.com/tink-crypto/tink-go", "one package of cryptography", []string{"secret/keeper"}},
	{"github.com/failsafe-go", "circuits are the engine's", []string{"engine"}},
	{"go.opentelemetry.io", "spans are made from what the engine tells", []string{"telemetry"}},
	{"github.com/danielgtaylor/huma", "one door that writes its own document", []string{"server"}},
	{"github.com/coder/websocket", "sockets are the door's", []string{"server"}},
	{"github.com/coreos/go-oidc", "tokens are judged in one package", []string{"auth"}},
	{"github.com/go-jose/go-jose", "tokens are judged in one package", []string{"auth"}},
	{"github.com/BurntSushi/toml", "one reader of pyproject.toml", []string{"requirement"}},
	{"github.com/prometheus", "counts are made from what the engine tells", []string{"telemetry"}},
	{"github.com/goccy/go-yaml", "one reader of documents that people write", []string{"policy"}},
	{"mvdan.cc/sh", "readers of shell", []string{"internal/shell", "review"}},
	{"github.com/evanw/esbuild", "readers of TypeScript", []string{"internal/javascript", "schema/tsschema", "executor/script", "review"}},
	{"github.com/grafana/sobek", "one reader of JavaScript as a tree", []string{"review"}},
	{"github.com/spf13/cobra", "flags are the command's", []string{"cmd/haft"}},
	{"github.com/modelcontextprotocol/go-sdk", "the protocol is spoken at two ends and nowhere between", []string{"executor/upstream", "server/mcpserver"}},
	{"unsafe", "only system calls need it", []string{"sandbox/local"}},
}

// emptyNames say nothing about what is inside.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "core", "lib", "types", "models", "manager"}

// source is one parsed Go file.
type source struct {
	name string // relative to the module
	dir  string // "" for the root
	file *ast.File
	fset *token.FileSet
	test bool
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples" || d.Name() == "node_modules" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		if dir == "." {
			dir = ""
		}
		all = append(all, source{name, dir, f, fset, strings.HasSuffix(name, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// owner returns the package that answers for dir.
func owner(dir string) string {
	for _, b := range below {
		if strings.HasPrefix(dir, b) {
			return strings.TrimSuffix(b, "/internal/")
		}
	}
	return dir
}

// allowed reports whether a package may import one of our packages.
func allowed(pkg, dep string) bool {
	if dep == "" || owner(dep) == pkg {
		return true
	}
	return slices.ContainsFunc(imports[pkg], func(p string) bool {
		if rest, ok := strings.CutSuffix(p, "..."); ok {
			return strings.HasPrefix(dep, rest)
		}
		return p == dep
	})
}

func TestArchitecture_imports(t *testing.T) {
	for _, s := range sources(t) {
		pkg := owner(s.dir)
		if _, ok := imports[pkg]; !ok {
			t.Errorf("%s: package %q is not listed in imports (arch_test.go)", s.name, s.dir)
			continue
		}
		if s.test {
			continue
		}
		for _, imp := range s.file.Imports {
			dep := strings.Trim(imp.Path.Value, `"`)
			if dep == "haft" || strings.HasPrefix(dep, "haft/") {
				if d := strings.TrimPrefix(strings.TrimPrefix(dep, "haft"), "/"); !allowed(pkg, d) {
					t.Errorf("%s imports %s, which %q may not", s.name, dep, pkg)
				}
				continue
			}
			if pkg == "" && strings.Contains(strings.SplitN(dep, "/", 2)[0], ".") {
				t.Errorf("%s imports %s: the root speaks the standard library only", s.name, dep)
			}
			for _, o := range only {
				if (dep == o.dep || strings.HasPrefix(dep, o.dep+"/")) && !slices.Contains(o.pkgs, pkg) {
					t.Errorf("%s imports %s: %s", s.name, dep, o.reason)
				}
			}
		}
	}
}

func TestArchitecture_names_and_comments(t *testing.T) {
	documented := map[string]int{}
	for _, s := range sources(t) {
		if slices.Contains(emptyNames, path.Base(s.dir)) || strings.Contains(s.file.Name.Name, "_") && !s.test {
			t.Errorf("%s: the package name %q says nothing", s.name, s.file.Name.Name)
		}
		if s.test {
			continue
		}
		if _, ok := documented[s.dir]; !ok {
			documented[s.dir] = 0
		}
		if s.file.Doc != nil {
			documented[s.dir]++
		}
		for _, d := range s.file.Decls {
			undocumented(t, s, d)
		}
	}
	for dir, n := range documented {
		if n == 0 {
			t.Errorf("package %q has no comment", dir)
		}
	}
}

// undocumented complains about exported declarations without a comment, about
// init functions and about interfaces that are too large.
func undocumented(t *testing.T, s source, d ast.Decl) {
	t.Helper()
	at := func(n ast.Node) token.Position { return s.fset.Position(n.Pos()) }
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.Name == "init" && d.Recv == nil {
			t.Errorf("%s: init runs before anyone asked for it", at(d))
		}
		if d.Name.IsExported() && d.Doc == nil {
			t.Errorf("%s: %s has no comment", at(d), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
				t.Errorf("%s: %s has no comment", at(ts), ts.Name.Name)
			}
			if it, ok := ts.Type.(*ast.InterfaceType); ok && it.Methods.NumFields() > maxInterface {
				t.Errorf("%s: interface %s has %d methods, %d is the most", at(ts), ts.Name.Name, it.Methods.NumFields(), maxInterface)
			}
		}
	}
}

func TestArchitecture_sizes(t *testing.T) {
	for _, s := range sources(t) {
		lines := s.fset.File(s.file.Pos()).LineCount()
		if lines > maxFile {
			t.Errorf("%s has %d lines, %d is the most", s.name, lines, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := s.fset.Position(f.Pos()).Line, s.fset.Position(f.End()).Line
			if n := to - from + 1; n > maxFunc {
				t.Errorf("%s:%d: %s has %d lines, %d is the most", s.name, from, f.Name.Name, n, maxFunc)
			}
		}
	}
}

// TestArchitecture_nothing_is_compiled_before_main: what a package does before
// main, every start of the command pays for.
func TestArchitecture_nothing_is_compiled_before_main(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "MustCompile") {
					t.Errorf("%s compiles before main: use sync.OnceValue", s.fset.Position(sel.Pos()))
				}
				return true
			})
		}
	}
}
