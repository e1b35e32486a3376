package haft_test

import (
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goTest is one go test command of the Makefile: the packages that it tests, and which of their tests it runs.
type goTest struct {
	packages  []string
	run, skip *regexp.Regexp // nil: all, none
	race      bool
}

// goTests returns the go test commands that make would run for its targets.
func goTests(t *testing.T, targets ...string) (all []goTest) {
	t.Helper()
	if _, err := os.Stat("Makefile"); err != nil { // which also has the go command see when it changes
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--silent"}, targets...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { // of the make that runs this test
		return strings.HasPrefix(kv, "MAKE") || strings.HasPrefix(kv, "MFLAGS")
	}), "GO=go")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make --dry-run: %v", err)
	}
	words := regexp.MustCompile(`'[^']*'|"[^"]*"|[;&|\n]+|[^\s;&|'"]+`)
	var command []string
	for _, word := range append(words.FindAllString(strings.ReplaceAll(string(out), "\\\n", " "), -1), "\n") {
		if !strings.ContainsAny(word[:1], ";&|\n") {
			command = append(command, strings.Trim(word, `'"`))
			continue
		}
		if i := slices.Index(command, "test"); i > 0 && command[i-1] == "go" {
			all = append(all, readGoTest(t, command[i+1:]))
		}
		command = nil
	}
	return all
}

// readGoTest reads the arguments of go test.
func readGoTest(t *testing.T, args []string) (g goTest) {
	t.Helper()
	for i, arg := range args {
		switch {
		case arg == "-race":
			g.race = true
		case arg == "-run":
			g.run = regexp.MustCompile(args[i+1])
		case arg == "-skip":
			g.skip = regexp.MustCompile(args[i+1])
		case arg == ".":
			g.packages = append(g.packages, "")
		case strings.HasPrefix(arg, "./"):
			g.packages = append(g.packages, strings.TrimPrefix(arg, "./"))
		}
	}
	if len(g.packages) == 0 {
		t.Fatalf("go test %v names no package", args)
	}
	return g
}

// runs reports whether the command runs a test of a package.
func (g goTest) runs(dir, test string) bool {
	return slices.Contains(g.packages, dir) && (g.run == nil || g.run.MatchString(test)) &&
		(g.skip == nil || !g.skip.MatchString(test))
}

// Every test runs in make test or in make test-more. One that make test skips, as its pattern REAL says, and whose
// package make test-more does not list, would be run by nobody.
func TestTiers_run_every_test(t *testing.T) {
	commands := goTests(t, "suites", "suites-more")
	functions := regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !functions.MatchString(f.Name.Name) || f.Name.Name == "TestMain" {
				continue
			}
			if !slices.ContainsFunc(commands, func(g goTest) bool { return g.runs(s.dir, f.Name.Name) }) {
				t.Errorf("%s: neither make test nor make test-more runs %s: see REAL and test-more in the Makefile",
					s.name, f.Name.Name)
			}
		}
	}
}

// A test that leaves something out with the race detector, which takes too long there, needs a run without.
func TestTiers_run_without_race_detector(t *testing.T) {
	commands := goTests(t, "suites", "suites-more")
	for _, s := range sources(t) {
		if !s.test || s.dir == "internal/skiptest" {
			continue
		}
		asks := false
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Race" {
				pkg, ok := sel.X.(*ast.Ident)
				asks = asks || ok && pkg.Name == "skiptest"
			}
			return true
		})
		if asks && !slices.ContainsFunc(commands, func(g goTest) bool {
			return !g.race && slices.Contains(g.packages, s.dir)
		}) {
			t.Errorf("%s asks for skiptest.Race, and its package runs with the race detector only: see RACED in "+
				"the Makefile", s.name)
		}
	}
}
