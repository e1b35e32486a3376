package haft_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// The rules of the codebase. Changing the architecture means changing this file, which a
// reviewer sees.
const (
	maxFile      = 600  // lines
	maxFunc      = 80   // lines
	maxTest      = 120  // lines of a function of tests, which is mostly a table
	maxColumn    = 120  // with tabs of four; raw strings, and lines that hold one, may be wider
	maxInterface = 6    // methods, those of embedded interfaces too
	maxMethods   = 40   // methods of a type
	maxPackage   = 5500 // lines of code: neither blank nor comment, without tests
	maxApp       = 1500 // lines of code of package app, which only puts the others together
	maxRoot      = 16   // directories beside this file
)

// imports says which of our packages each package may import besides the root.
// A package that is not listed here has to be added.
var imports = map[string][]string{
	"":                         {},
	"internal/bounds":          {},
	"internal/jsontree":        {},
	"internal/goldentest":      {},
	"schema":                   {"internal/jsontree"},
	"schema/pyschema":          {"schema"},
	"schema/tsschema":          {"internal/javascript", "schema"},
	"schema/bashschema":        {"internal/shell", "schema"},
	"internal/schemacase":      {"internal/jsontree", "schema"},
	"internal/value":           {"internal/jsontree", "schema"},
	"policy":                   {"internal/jsontree"},
	"internal/event":           {},
	"internal/event/eventtest": {"internal/event"},
	"sandbox":                  {},
	"sandbox/hostpath":         {"sandbox/internal/..."},
	"sandbox/internal/collect": {},
	"sandbox/process":          {"sandbox/internal/...", "sandbox"},
	"sandbox/internal/rented":  {"sandbox/internal/collect", "sandbox"},
	"sandbox/e2b":              {"internal/connectframe", "sandbox/internal/rented"},
	"sandbox/modal":            {"sandbox/internal/rented"},
	"internal/connectframe":    {},
	"internal/place": {"executor", "executor/script", "internal/orgconfig", "sandbox", "sandbox/cell", "sandbox/e2b",
		"sandbox/gvisor", "sandbox/local", "sandbox/modal"},
	"sandbox/local":       {"sandbox/local/...", "sandbox/internal/...", "sandbox"},
	"sandbox/gvisor":      {"sandbox/local", "sandbox"},
	"sandbox/sandboxtest": {"internal/skiptest", "sandbox"},
	"sandbox/cell":        {"sandbox"},
	"executor":            {"internal/secret", "sandbox"},
	"executor/script": {"executor/script/...", "executor", "internal/javascript", "internal/jsontree",
		"internal/observe", "internal/secret", "internal/value", "sandbox", "sandbox/cell", "schema/tsschema"},
	"executor/upstream":          {"executor", "internal/secret", "sandbox"},
	"executor/builtin":           {"executor", "internal/secret", "internal/session", "sandbox", "schema"},
	"internal/session":           {"executor", "internal/secret", "sandbox", "sandbox/cell"},
	"sandbox/internal/mountinfo": {},
	"internal/secret":            {},
	"internal/secret/keeper":     {"internal/secret"},
	"internal/credential":        {"internal/jsontree", "internal/secret"},
	"internal/oauth":             {"internal/secret"},
	"internal/authority":         {},
	"internal/auth":              {"internal/authority", "internal/jsontree"},
	"internal/auth/authtest":     {"internal/auth"},
	"internal/egress":            {"internal/secret"},
	"internal/limit":             {},
	"internal/audit":             {},
	"internal/toolrule":          {},
	"internal/chain":             {"internal/bounds", "internal/jsontree"},
	"internal/javascript":        {},
	"internal/shell":             {},
	"internal/review":            {"internal/javascript", "internal/shell"},
	"internal/store": {"internal/audit", "internal/auth", "internal/event", "internal/limit", "internal/pause",
		"internal/secret/keeper", "internal/store/migrations", "internal/store/redo", "internal/store/rowset",
		"internal/store/stored", "internal/store/words"},
	"internal/store/redo":     {},
	"internal/store/rowset":   {"internal/store/redo"},
	"internal/store/sqlite":   {"internal/store", "internal/store/migrations", "internal/store/redo"},
	"internal/store/postgres": {"internal/store", "internal/store/migrations"},
	"internal/store/storetest": {"internal/audit", "internal/auth", "internal/auth/authtest", "internal/event",
		"internal/event/eventtest", "internal/limit", "internal/secret/keeper", "internal/skiptest",
		"internal/store"},
	"internal/store/migrations": {},
	"internal/store/stored":     {},
	"internal/store/words":      {},
	"internal/requirement":      {},
	"internal/layer":            {"internal/requirement", "sandbox"},
	"internal/advisory":         {"internal/requirement"},
	"internal/layer/layertest":  {},
	"internal/supply": {"executor", "executor/script", "internal/advisory", "internal/egress", "internal/layer",
		"internal/requirement", "sandbox"},
	"internal/modelapi":    {"internal/jsontree", "schema"},
	"internal/model":       {"internal/bounds", "internal/modelapi", "schema"},
	"internal/daemon":      {},
	"internal/localsocket": {},
	"internal/agentstate":  {"executor", "internal/lettaid"},
	"internal/embedding":   {"internal/memorystore", "internal/model", "internal/pause"},
	"internal/agents": {"executor/builtin", "internal/agenttool", "internal/authority", "internal/callenv",
		"internal/conversation", "internal/embedding", "internal/filetool", "internal/memory",
		"internal/memorystore", "internal/modelfile",
		"internal/secret", "internal/store", "internal/workspace"},
	"internal/modelfile":   {"internal/conversation", "internal/model", "internal/secret", "schema"},
	"internal/modeltest":   {},
	"internal/webhook":     {"internal/event", "internal/store"},
	"internal/connlimit":   {},
	"internal/eventstream": {},
	"server": {"internal/auth", "internal/authority", "internal/bounds", "internal/connlimit", "internal/eventstream",
		"internal/modelapi", "internal/portproxy", "internal/secret", "policy", "sandbox"},
	"internal/pause":       {},
	"internal/followup":    {"internal/egress/route", "internal/value", "policy", "schema"},
	"internal/observe":     {"sandbox"},
	"internal/portproxy":   {},
	"client":               {"internal/auth", "internal/pause", "internal/secret"},
	"internal/binarytest":  {},
	"internal/skiptest":    {},
	"internal/servicetest": {"executor"},
	"internal/servertest": {"executor", "internal/authority", "internal/engine", "internal/registry",
		"internal/service", "internal/store", "internal/store/sqlite", "internal/workspace", "policy", "server"},
	"compat/e2b":          {"internal/bounds", "internal/connectframe", "internal/portproxy", "server"},
	"compat/letta":        {"internal/bounds", "internal/lettaid", "internal/lettavalue", "server"},
	"internal/lettaid":    {},
	"internal/lettavalue": {"internal/jsontree", "schema"},
	"server/agentapi":     {"server"},
	"server/mcpserver":    {"internal/bounds", "internal/fileparam", "internal/jsontree", "internal/modelapi"},
	"internal/registry": {"internal/egress", "internal/fileparam", "internal/jsontree", "internal/requirement",
		"internal/shell", "internal/store", "internal/value", "schema"},
	"internal/checkpoint": {"internal/audit", "internal/authority", "internal/store"},
	"internal/datadir":    {"internal/audit", "internal/checkpoint", "internal/store", "internal/store/sqlite"},
	"internal/backlog":    {"internal/store"},
	"internal/callenv":    {"internal/secret"},
	"internal/chains": {"internal/authority", "internal/chain", "internal/pause", "internal/secret",
		"internal/store"},
	"internal/circuit":     {},
	"internal/filestore":   {"executor", "internal/authority", "internal/fileparam", "internal/store", "sandbox"},
	"internal/fileparam":   {"executor", "internal/jsontree"},
	"internal/workspace":   {"executor", "internal/authority", "internal/store", "sandbox"},
	"internal/memorystore": {"internal/store", "internal/store/words"},
	"internal/memory":      {"internal/authority", "internal/jsontree", "internal/memorystore"},
	"internal/journal":     {"internal/audit", "internal/event", "internal/store"},
	"internal/membership":  {"internal/store", "sandbox"},
	"internal/orgconfig":   {"policy"},
	"internal/engine": {"executor", "internal/audit", "internal/authority", "internal/backlog", "internal/callenv",
		"internal/chains", "internal/circuit", "internal/egress/route", "internal/event", "internal/filestore",
		"internal/followup",
		"internal/journal", "internal/jsontree", "internal/lettaid", "internal/limit", "internal/membership",
		"internal/orgconfig",
		"internal/observe", "internal/outgoing", "internal/pause", "internal/registry", "internal/requirement",
		"internal/secret",
		"internal/store", "internal/toolrule", "internal/value", "internal/workspace", "policy", "sandbox",
		"schema"},
	"internal/service": {"internal/audit", "internal/authority", "internal/callenv", "internal/egress/route",
		"internal/engine",
		"internal/event", "internal/filestore", "internal/jsontree", "internal/lettaid", "internal/memory",
		"internal/memorystore", "internal/pause",
		"internal/registry", "internal/secret", "internal/session", "internal/store", "internal/toolrule",
		"internal/workspace", "policy"},
	"internal/outgoing":  {"internal/secret", "policy"},
	"internal/telemetry": {"internal/engine", "internal/model"},
	"internal/conversation": {"internal/authority", "internal/model", "internal/modelapi", "internal/pause",
		"internal/toolrule"},
	"internal/chat":      {"internal/pause", "internal/terminal"},
	"internal/flagvalue": {},
	"internal/exit":      {"client", "internal/backend", "internal/toolfile", "schema"},
	"internal/agenttool": {"executor", "executor/builtin"},
	"internal/filetool":  {"executor/builtin", "internal/store/words", "internal/workspace"},
	"internal/terminal":  {},
	"internal/toolfile": {"app", "internal/jsontree", "internal/registry", "internal/requirement", "sandbox",
		"schema"},
	"internal/doctor":     {"app", "internal/localsocket", "internal/terminal", "sandbox/gvisor"},
	"internal/mcpfile":    {},
	"internal/mcpinstall": {"internal/terminal"},
	"internal/mcpcatalog": {"internal/bounds"},
	"internal/cataloguecmd": {"internal/cli", "internal/daemon", "internal/exit", "internal/mcpcatalog",
		"internal/secret", "internal/terminal", "internal/toolfile"},
	"internal/sandboxcmd": {"app", "internal/backend", "internal/cli", "internal/exit", "internal/place",
		"sandbox/e2b"},
	"internal/project":  {},
	"internal/yamltree": {"internal/flagvalue"},
	"internal/apimock":  {"internal/egress", "internal/secret", "internal/yamltree"},
	"internal/tooltest": {"app", "internal/agents", "internal/apimock", "internal/circuit", "internal/cli",
		"internal/egress", "internal/engine", "internal/exit", "internal/limit", "internal/modelfile",
		"internal/modeltest", "internal/observe", "internal/pause",
		"internal/registry", "internal/schemacase", "internal/secret", "internal/supply", "internal/terminal",
		"internal/toolfile", "internal/value", "internal/yamltree", "schema"},
	"internal/devloop": {"internal/backend", "internal/registry", "internal/terminal",
		"internal/toolfile", "schema"},
	"internal/backend": {"app", "client", "internal/audit", "internal/auth", "internal/chat",
		"internal/localsocket", "internal/modelfile", "internal/pause", "internal/secret", "internal/terminal",
		"internal/toolfile", "policy", "sandbox", "server"},
	"app": {"..."},
	"internal/bench": {"app", "executor", "executor/builtin", "internal/agents", "internal/audit",
		"internal/modelfile",
		"internal/requirement", "internal/secret", "internal/store",
		"internal/supply", "sandbox/cell", "sandbox/gvisor", "schema"},
	"internal/cli": {"app", "client", "internal/backend", "internal/checkpoint", "internal/doctor", "internal/exit",
		"internal/localsocket", "internal/modelfile", "internal/supply", "internal/terminal", "internal/toolfile",
		"internal/userconfig"},
	"internal/follow":     {"internal/terminal"},
	"internal/userconfig": {"internal/toolfile"},
	"cmd/haft":            {"...", "internal/pause"},
	"internal/soak":       {}, // a harness and a checker that know nothing but the API
	"deploy":              {}, // files for operators, and their tests
	"internal/access": {"internal/auth", "internal/authority", "internal/datadir", "internal/localsocket", "server",
		"server/mcpserver"},
	"internal/pdftext":        {},
	"internal/egress/route":   {"internal/callenv", "internal/secret", "policy"},
	"internal/egress/session": {"internal/callenv", "internal/egress", "internal/egress/route", "internal/secret"},
	"internal/mcp/command": {"executor", "executor/script", "executor/upstream", "internal/requirement",
		"policy", "sandbox", "sandbox/hostpath"},
	"internal/mcp/servers": {"executor/upstream", "internal/egress", "internal/egress/route",
		"internal/egress/session", "internal/mcp/command", "internal/secret", "internal/secret/keeper",
		"internal/secret/vault", "internal/service", "internal/store"},
	"internal/secret/vault": {"internal/callenv", "internal/datadir", "internal/egress", "internal/oauth",
		"internal/secret", "internal/secret/keeper", "internal/store", "internal/webhook", "sandbox",
		"sandbox/process"},
	"internal/toolsource": {"executor", "executor/builtin", "executor/script", "internal/egress",
		"internal/egress/route", "internal/egress/session", "internal/engine", "internal/fileparam",
		"internal/registry", "internal/requirement", "internal/review", "internal/secret", "sandbox", "schema",
		"schema/bashschema", "schema/pyschema", "schema/tsschema"},
	"scripts/mutate":  {},
	"scripts/release": {},
}

// below says which packages may import a subtree of internal packages that is
// not listed one by one. They follow the rules of their owner.
var below = []string{"sandbox/local/internal/", "executor/script/internal/"}

// only says which packages may import a dependency, and why no other.
var only = []struct {
	dep, reason string
	pkgs        []string
}{
	{"golang.org/x/sys/unix", "system calls live in few packages, where each error is looked at",
		[]string{"sandbox/hostpath", "sandbox/internal/collect", "sandbox/local", "sandbox/process",
			"sandbox/sandboxtest", "internal/workspace", "internal/localsocket"}},
	{"os/exec", "processes are started by sandboxes and by nobody else",
		[]string{"sandbox/local", "sandbox/gvisor", "sandbox/process", "internal/bench", "internal/binarytest",
			"internal/store/storetest",
			"scripts/mutate"}},
	{"github.com/santhosh-tekuri/jsonschema", "one compiler of schemas", []string{"schema"}},
	{"cel.dev/cel-go", "expressions are bounded where they are compiled",
		[]string{"internal/value", "policy", "internal/chain"}},
	{"modernc.org/sqlite", "a driver belongs to its opener", []string{"internal/store/sqlite"}},
	{"github.com/jackc/pgx", "a driver belongs to its opener", []string{"internal/store/postgres"}},
	{"github.com/pressly/goose", "one runner of migrations", []string{"internal/store/migrations"}},
	{"github.com/tink-crypto/tink-go", "one package of cryptography", []string{"internal/secret/keeper"}},
	{"github.com/failsafe-go", "circuits live in one package", []string{"internal/circuit"}},
	{"go.opentelemetry.io", "spans are made from what the engine reports", []string{"internal/telemetry"}},
	{"github.com/danielgtaylor/huma", "one API writes its own document", []string{"server"}},
	{"github.com/coder/websocket", "sockets belong to the API", []string{"server"}},
	{"github.com/coreos/go-oidc", "tokens are judged in one package", []string{"internal/auth"}},
	{"github.com/go-jose/go-jose", "tokens are judged in one package", []string{"internal/auth"}},
	{"github.com/BurntSushi/toml", "readers of files that people write",
		[]string{"internal/requirement", "internal/modelfile", "scripts/release"}},
	{"github.com/prometheus", "counts are made from what the engine reports", []string{"internal/telemetry"}},
	{"github.com/goccy/go-yaml", "one reader of documents that people write",
		[]string{"policy", "internal/cli", "internal/userconfig", "internal/yamltree"}},
	{"mvdan.cc/sh", "readers of shell", []string{"internal/shell", "internal/review"}},
	{"github.com/evanw/esbuild", "readers of TypeScript",
		[]string{"internal/javascript", "schema/tsschema", "executor/script", "internal/review"}},
	{"github.com/grafana/sobek", "one reader of JavaScript as a tree", []string{"internal/review"}},
	{"github.com/spf13/cobra", "flags are the command's", []string{"cmd/haft", "internal/cli"}},
	{"github.com/modelcontextprotocol/go-sdk", "the protocol is spoken at two ends and nowhere between",
		[]string{"executor/upstream", "server/mcpserver"}},
	{"unsafe", "only system calls need it", []string{"sandbox/local"}},
}

// emptyNames say nothing about what is inside.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "core", "lib",
	"types", "models", "manager"}

// source is one parsed Go file.
type source struct {
	name string // relative to the module
	dir  string // "" for the root
	file *ast.File
	fset *token.FileSet
	test bool
}

// sources returns every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parseAll parses every Go file of the module, once for all tests.
var parseAll = sync.OnceValues(func() (all []source, err error) {
	fset := token.NewFileSet()
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples" || d.Name() == "node_modules" ||
			d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && name != ".") {
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
	return all, err
})

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

// undocumented complains about exported declarations without a comment, and about
// init functions.
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
			most := maxFunc
			if s.test || forTests(s.dir) {
				most = maxTest
			}
			from, to := s.fset.Position(f.Pos()).Line, s.fset.Position(f.End()).Line
			if n := to - from + 1; n > most {
				t.Errorf("%s:%d: %s has %d lines, %d is the most", s.name, from, f.Name.Name, n, most)
			}
		}
	}
}

// Every start of the command would pay for work that a package does before main.
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

// Two files fit beside each other on a screen. Lines that cannot be broken may be wider: raw strings,
// preformatted comments, directives, and single words.
func TestArchitecture_columns(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.name)
		if err != nil {
			t.Fatal(err)
		}
		raw := rawLines(s, text)
		for i, line := range strings.Split(string(text), "\n") {
			bare := strings.TrimSpace(line)
			switch {
			case utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) <= maxColumn, raw[i+1]:
			case strings.HasPrefix(bare, "//\t"), strings.Contains(bare, "//nolint"), strings.HasPrefix(bare, "//go:"):
			case len(strings.Fields(bare)) <= 3:
			default:
				t.Errorf("%s:%d has more than %d columns", s.name, i+1, maxColumn)
			}
		}
	}
}

// rawLines says on which lines of a file there is a raw string.
func rawLines(s source, text []byte) map[int]bool {
	lines := map[int]bool{}
	var sc scanner.Scanner
	file := token.NewFileSet().AddFile(s.name, -1, len(text))
	sc.Init(file, text, nil, 0)
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && lit[0] == '`' {
			for n := range strings.Count(lit, "\n") + 1 {
				lines[file.Line(pos)+n] = true
			}
		}
	}
}
