package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// switchVariable names the refusal that is turned off, and recordVariable the file that gets the number of each
	// refusal that is reached. Programs that a test starts have them too.
	switchVariable = "HAFT_MUTATE_OFF"
	recordVariable = "HAFT_MUTATE_RECORD"
)

// switches is the file that the mutated package gets besides. Its function stands around the condition of each refusal.
const switches = `package %s

import (
	mutateos "os"
	mutatesync "sync"
)

var mutateOff, mutateRecord, mutateReached = mutateos.Getenv("` + switchVariable + `"),
	mutateos.Getenv("` + recordVariable + `"), new(mutatesync.Map)

func mutateSwitch(number string, cond bool) bool {
	if cond && mutateRecord != "" {
		if _, before := mutateReached.LoadOrStore(number, true); !before {
			if f, err := mutateos.OpenFile(mutateRecord, mutateos.O_APPEND|mutateos.O_WRONLY, 0); err == nil {
				_, _ = f.WriteString(number + "\n")
				_ = f.Close()
			}
		}
	}
	return cond && number != mutateOff
}
`

// refusal is the condition of an if statement that ends by returning.
type refusal struct {
	number, where, cond string
}

// compile builds the tests of a package into temp/tests, with a switch in each refusal of package pkg.
func compile(ctx context.Context, temp, pkg, tests string) ([]refusal, error) {
	listed, err := exec.CommandContext(ctx, "go", "list", "-tags", "haft_init", "-f",
		"{{.Name}}\n{{.Dir}}{{range .GoFiles}}\n{{.}}{{end}}", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", pkg, err)
	}
	lines := strings.Split(strings.TrimSpace(string(listed)), "\n")
	name, dir := lines[0], lines[1]
	replace := map[string]string{filepath.Join(dir, "mutateswitch.go"): filepath.Join(temp, "mutateswitch.go")}
	source := fmt.Appendf(nil, switches, name)
	if err := os.WriteFile(filepath.Join(temp, "mutateswitch.go"), source, 0o600); err != nil {
		return nil, fmt.Errorf("write the switches: %w", err)
	}
	var found []refusal
	for _, file := range lines[2:] {
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		changed, err := addSwitches(filepath.Join(pkg, file), string(source), &found)
		if err != nil {
			return nil, err
		}
		replace[filepath.Join(dir, file)] = filepath.Join(temp, file)
		if err := os.WriteFile(filepath.Join(temp, file), []byte(changed), 0o600); err != nil {
			return nil, fmt.Errorf("write the source: %w", err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, fmt.Errorf("encode the overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600); err != nil {
		return nil, fmt.Errorf("write the overlay: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "haft_init", "-vet=off", "-ldflags=-w",
		"-overlay", filepath.Join(temp, "overlay.json"), "-o", filepath.Join(temp, "tests"), tests)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("compile the tests of %s: %w", tests, err)
	}
	return found, nil
}

// addSwitches appends the refusals of a source file to found and returns the source with a switch in each.
func addSwitches(where, source string, found *[]refusal) (string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, where, source, parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("parse the source: %w", err)
	}
	var changed strings.Builder
	last := 0
	for _, cond := range refusals(file) {
		from, to := fset.Position(cond.Pos()), fset.Position(cond.End())
		r := refusal{number: strconv.Itoa(len(*found)), where: fmt.Sprintf("%s:%d", where, from.Line),
			cond: source[from.Offset:to.Offset]}
		*found = append(*found, r)
		changed.WriteString(source[last:from.Offset] + `mutateSwitch("` + r.number + `", ` + r.cond + ")")
		last = to.Offset
	}
	return changed.String() + source[last:], nil
}

// refusals returns the conditions of the if statements of a file that end by returning, in their order. A condition
// that contains a function with refusals of its own is skipped.
func refusals(file *ast.File) []ast.Expr {
	var found []ast.Expr
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		if !ok || len(s.Body.List) == 0 {
			return true
		}
		if _, ok := s.Body.List[len(s.Body.List)-1].(*ast.ReturnStmt); ok && !hasFunction(s.Cond) {
			found = append(found, s.Cond)
		}
		return true
	})
	return found
}

// hasFunction reports whether an expression contains a function literal.
func hasFunction(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		_, is := n.(*ast.FuncLit)
		found = found || is
		return !found
	})
	return found
}
