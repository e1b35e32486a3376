package review

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"
	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/file"
	"github.com/grafana/sobek/parser"

	"haft"
	"haft/internal/javascript"
)

// A jsTree is the syntax tree of a source in JavaScript or TypeScript. It is read
// from what esbuild prints for the source, because Node runs the same: types, comments
// and escapes are gone, and it is certain where a regular expression begins.
type jsTree struct {
	source  *javascript.Source
	program *ast.Program
	places  *sourcemap.Consumer
	lines   []int // where the lines begin, as esbuild counts them
	// newlines are where lines end, as findings count them.
	newlines []int
	// added is how many lines we put before those that esbuild printed.
	added int
	// renamed says that variables have other names than in the source.
	renamed bool
	// last is the newest answer of offset, where it goes on from: a line may be
	// as long as the source.
	last struct{ line, column, offset int }
}

// moduleArguments is what esbuild prints for the word arguments outside of
// functions, where it holds the parameters of a module of CommonJS: require is one.
const moduleArguments = "module_arguments"

// unbound is what esbuild puts before globals whose names people give to variables
// too, where no variable is meant.
const unbound = "unbound_"

// jsOptions are how esbuild prints for the parser: without syntax that the parser
// does not know (asynchronous generators and newer), without arrow functions,
// whose parameters the parser reads twice for every one inside another, and with
// imports that only types need, because they are written.
func jsOptions(kind haft.Kind) api.TransformOptions {
	opts := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ESNext, Platform: api.PlatformNode, LegalComments: api.LegalCommentsNone,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: "tool",
		Supported: map[string]bool{
			"arrow": false, "async-generator": false, "for-await": false, "using": false, "decorators": false,
			"import-attributes": false, "import-assertions": false,
		},
		Define: map[string]string{
			"arguments": moduleArguments, "process": unbound + "process", "global": unbound + "global",
			"window": unbound + "window",
		},
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true}}`,
	}
	if kind == haft.KindTypeScript {
		opts.Loader = api.LoaderTS
	}
	return opts
}

// readJS reads a source. Only what is not the source's fault is an error; a
// [javascript.Problem] says why and where it cannot be read.
func readJS(ctx context.Context, kind haft.Kind, text string) (*jsTree, *javascript.Problem, error) {
	source, bad := javascript.Scan([]byte(text))
	t := &jsTree{source: source}
	if bad != nil {
		return t, bad, nil
	}
	opts := jsOptions(kind)
	t.renamed = !source.NamesAreCheap()
	opts.MinifyIdentifiers = t.renamed
	printed, err := source.Transform(ctx, opts)
	if errors.As(err, &bad) {
		return t, bad, nil
	}
	if err != nil {
		return t, nil, err
	}
	if len(printed.Errors) > 0 {
		return t, &javascript.Problem{At: source.Offset(printed.Errors[0].Location)}, nil
	}
	code := string(printed.Code)
	if rest, ok := strings.CutPrefix(code, "#!"); ok {
		code = "//" + rest
	}
	if t.program = parseJS(code); t.program == nil {
		// CommonJS may return outside of functions, which the parser refuses.
		t.program, t.added = parseJS("async function tool() {\n"+code+"\n}"), 1
	}
	if t.program == nil {
		return t, &javascript.Problem{}, nil
	}
	t.lines = javascript.LineStarts(source.Text)
	if places, err := sourcemap.Parse("", printed.Map); err == nil { // an empty map is an error
		t.places = places
	}
	return t, nil, nil
}

// parseJS returns the tree of code that esbuild printed, or nil.
func parseJS(code string) *ast.Program {
	const lenient = parser.IgnoreRegExpErrors // Node judges them
	program, err := parser.ParseFile(nil, "", code, lenient, parser.WithDisableSourceMaps, parser.IsModule)
	if err != nil {
		return nil
	}
	return program
}

// offset returns where in the source a place in the tree comes from, in bytes, or
// -1 for code that esbuild added.
func (t *jsTree) offset(at file.Idx) int {
	if t.places == nil {
		return -1
	}
	p := t.program.File.Position(int(at) - t.program.File.Base())
	_, _, line, column, ok := t.places.Source(p.Line-t.added, p.Column-1)
	if !ok || line < 1 || line > len(t.lines) {
		return -1
	}
	if l := &t.last; l.line != line || l.column > column {
		l.line, l.column, l.offset = line, 0, t.lines[line-1]
	}
	for t.last.column < column && t.last.offset < len(t.source.Text) {
		r, size := utf8.DecodeRuneInString(t.source.Text[t.last.offset:])
		t.last.column += max(1, utf16.RuneLen(r)) // source maps count in UTF-16
		t.last.offset += size
	}
	return t.last.offset
}

// line returns the line of the source that a place in the tree comes from. Code
// that esbuild added counts as the first line.
func (t *jsTree) line(at file.Idx) int { return t.lineOf(t.offset(at)) }

// lineOf returns the line of a place in the source, as findings count them.
func (t *jsTree) lineOf(offset int) int {
	if t.newlines == nil {
		t.newlines = []int{}
		for i, c := range []byte(t.source.Text) {
			if c == '\n' {
				t.newlines = append(t.newlines, i)
			}
		}
	}
	before, _ := slices.BinarySearch(t.newlines, offset)
	return 1 + before
}

// eachChild calls visit for each node directly below one.
func eachChild(n ast.Node, visit func(ast.Node)) { nodesIn(reflect.ValueOf(n).Elem(), visit) }

// nodesIn calls visit for each node in the fields of a struct of the tree. The
// lists of variables that functions keep beside their bodies are left out: they
// are in the bodies, as are the lists of imports and exports.
func nodesIn(v reflect.Value, visit func(ast.Node)) {
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "DeclarationList", "ImportEntries", "ExportEntries", "File":
		default:
			nodesOf(v.Field(i), visit)
		}
	}
}

// nodesOf calls visit for each node that a field holds.
func nodesOf(v reflect.Value, visit func(ast.Node)) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			nodesOf(v.Elem(), visit)
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(ast.Node); ok {
			visit(n)
		} else if v.Type().Elem().PkgPath() == reflect.TypeFor[ast.Program]().PkgPath() {
			nodesIn(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			nodesOf(v.Index(i), visit)
		}
	case reflect.Struct:
		nodesOf(v.Addr(), visit)
	}
}

// written returns how the string at a place is written in the source, with its
// quotes, or "" if no string is there.
func (t *jsTree) written(at file.Idx) string {
	from := t.offset(at)
	if from < 0 || from >= len(t.source.Text) || !strings.ContainsRune("'\"`", rune(t.source.Text[from])) {
		return ""
	}
	text := t.source.Text[from:]
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return text[:i+1]
		}
	}
	return text
}
