package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"haft/internal/store"
)

// TestQueries_declared: no query that is declared as unlogged names a table to which the log
// adds rows: it would not see what was acknowledged last.
func TestQueries_declared(t *testing.T) {
	tables := append(store.LoggedTables(), "marks", "audit_heads")
	consts, unlogged, n := map[string]ast.Expr{}, map[string][]ast.Node{}, 0
	for _, file := range parse(t) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, value := range node.Values {
					consts[node.Names[i].Name] = value
				}
				if typ, ok := node.Type.(*ast.Ident); ok && typ.Name == "unlogged" {
					unlogged[node.Names[0].Name] = append(unlogged[node.Names[0].Name], node)
				}
			case *ast.CallExpr: // a conversion
				if typ, ok := node.Fun.(*ast.Ident); ok && typ.Name == "unlogged" {
					unlogged["a conversion"] = append(unlogged["a conversion"], node)
				}
			case *ast.FuncDecl: // one that ends what a builder made
				if callsMethod(node, "unlogged") {
					unlogged[node.Name.Name] = append(unlogged[node.Name.Name], node)
				}
			}
			return true
		})
	}
	for name, nodes := range unlogged {
		for _, node := range nodes {
			n++
			text := literals(node, consts)
			inName := func(r rune) bool { return r == '_' || unicode.IsLetter(r) }
			for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !inName(r) }) {
				if slices.Contains(tables, word) {
					t.Errorf("%s is declared as unlogged and reads %s: %s", name, word, text)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d declarations were found", n)
	}
}

// parse reads the code of the package.
func parse(t *testing.T) map[string]*ast.File {
	t.Helper()
	//nolint:staticcheck // build tags do not matter here
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool {
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return packages["store"].Files
}

// callsMethod reports whether a function calls a method of that name without arguments.
func callsMethod(f *ast.FuncDecl, method string) bool {
	found := false
	ast.Inspect(f, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if ok && len(call.Args) == 0 {
			sel, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && sel.Sel.Name == method
		}
		return !found
	})
	return found
}

// literals returns the string literals in a node and in the constants that it names.
func literals(node ast.Node, consts map[string]ast.Expr) string {
	var b strings.Builder
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil {
				b.WriteString(text + " ")
			}
		case *ast.Ident:
			if value := consts[node.Name]; value != nil {
				b.WriteString(literals(value, consts) + " ")
			}
		}
		return true
	})
	return b.String()
}
