// Command mutate turns off one refusal after another and runs the tests of its package: a refusal whose absence no
// test notices is printed. A refusal is an if statement that ends by returning from its function.
//
//	make mutate PKG=./policy
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	run := flag.String("run", "", "only tests that match, as go test -run")
	every := flag.Int("every", 1, "try only each n-th refusal")
	flag.Parse()
	survivors, err := mutate(context.Background(), flag.Arg(0), *run, *every)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// mutate tries the refusals of the package in dir and returns how many no test notices.
func mutate(ctx context.Context, dir, run string, every int) (survivors int, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, fmt.Errorf("list the files of %s: %w", dir, err)
	}
	tried := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return survivors, fmt.Errorf("read the source: %w", err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return survivors, fmt.Errorf("parse the source: %w", err)
		}
		for _, cond := range refusals(file) {
			if tried++; tried%every != 0 {
				continue
			}
			from, to := fset.Position(cond.Pos()), fset.Position(cond.End())
			changed := string(source[:from.Offset]) + "false && (" + string(source[from.Offset:to.Offset]) + ")" +
				string(source[to.Offset:])
			noticed, err := test(ctx, dir, name, run, changed)
			if err != nil {
				return survivors, err
			}
			if !noticed {
				survivors++
				fmt.Printf("%s:%d: no test notices that this refusal is gone: %s\n", name, from.Line,
					source[from.Offset:to.Offset])
			}
		}
	}
	fmt.Printf("%s: %d refusals, %d survive\n", dir, tried/every, survivors)
	return survivors, nil
}

// refusals returns the conditions of the if statements of a file that end by returning.
func refusals(file *ast.File) []ast.Expr {
	var found []ast.Expr
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		if ok && len(s.Body.List) > 0 {
			if _, ok := s.Body.List[len(s.Body.List)-1].(*ast.ReturnStmt); ok {
				found = append(found, s.Cond)
			}
		}
		return true
	})
	return found
}

// test reports whether the tests of dir fail if the file name has this source. Source that does not compile counts as
// noticed.
func test(ctx context.Context, dir, name, run, source string) (noticed bool, err error) {
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a directory for temporary files is cleaned by the system too
	path, err := filepath.Abs(name)
	if err != nil {
		return false, fmt.Errorf("find the source: %w", err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: filepath.Join(temp, "source.go")}})
	if err != nil {
		return false, fmt.Errorf("encode the overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, "source.go"), []byte(source), 0o600); err != nil {
		return false, fmt.Errorf("write the source: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600); err != nil {
		return false, fmt.Errorf("write the overlay: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// Without a bound that was turned off, a test may ask for all memory of the machine.
	args := []string{"-c", `ulimit -v 6000000; exec go test "$@"`, "mutate", "-vet=off", "-failfast", "-timeout=4m",
		"-overlay", filepath.Join(temp, "overlay.json")}
	if run != "" {
		args = append(args, "-run", run)
	}
	return exec.CommandContext(ctx, "bash", append(args, dir)...).Run() != nil, nil
}
