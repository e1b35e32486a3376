package tsschema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"haft/internal/javascript"
	"haft/schema"
)

// maxProblems is how many problems of one source are reported.
const maxProblems = 20

// Config says how a source is read. Its zero value reads TypeScript, with every
// description required.
type Config struct {
	schema.Options
	// JavaScript takes types from JSDoc instead of annotations.
	JavaScript bool
	// DefaultName is the name of a default export that has none, such as that
	// of its file.
	DefaultName string
}

// A Result is what a source says about its tool.
type Result struct {
	schema.Signature
	// Export is the name under which the module gives the function out, which
	// is "default" for its default export.
	Export string
	// Call is what to pass to the function, in order.
	Call []Argument
}

// An Argument is one parameter of the function.
type Argument struct {
	// Name is that of the parameter, "" for a destructured one.
	Name string
	// Whole passes the object of all arguments instead of the one called Name.
	// An injected name that is not in Call is a property of that object.
	Whole bool
}

// Derive reads the signature of the tool in source, without running any of it.
//
// All problems are reported at once: the error joins one
// [*schema.SourceError] for every problem. Any other error is not the source's.
func Derive(ctx context.Context, source []byte, config Config) (r *Result, err error) {
	defer func() { // a fault of ours ends the call, not the process
		if fault := recover(); fault != nil {
			r, err = nil, fmt.Errorf("read the source: %v", fault)
		}
	}()
	f, src, err := read(ctx, source, config)
	if err != nil {
		return nil, err
	}
	if config.OneTool && config.Function == "" {
		if config.Function, err = chooseOne(f); err != nil {
			return nil, err
		}
	}
	fn, export, bad := chooseTool(f, config.Function)
	if bad != nil {
		return nil, joined(src, []problem{*bad}, config.Function)
	}
	d := &derivation{Config: config, file: f, fn: fn, src: src}
	r = d.run()
	if err := schema.JoinSourceErrors(d.errs); err != nil {
		return nil, err
	}
	r.Export = export
	if export != "default" {
		r.Name = export // what it is called outside
	}
	return r, nil
}

// Tools returns the names of the functions that source exports and that are tools, in their order:
// the default export; else those with @tool in their comments; else those with a description; else
// the only one. Several exported functions without a description are a [*schema.AmbiguousError].
func Tools(ctx context.Context, source []byte, config Config) (names []string, err error) {
	defer func() { // a fault of ours ends the call, not the process
		if fault := recover(); fault != nil {
			names, err = nil, fmt.Errorf("read the source: %v", fault)
		}
	}()
	f, src, err := read(ctx, source, config)
	if err != nil {
		return nil, err
	}
	all, documented := tools(exportedFunctions(f))
	switch names = exportNames(all); {
	case len(names) == 0:
		return nil, joined(src, []problem{*noExport(f)}, "")
	case len(names) > 1 && !documented:
		return nil, &schema.AmbiguousError{Tools: names, Undocumented: true}
	}
	return names, nil
}

// read reads the declarations of a source, and returns its text too.
func read(ctx context.Context, source []byte, config Config) (*file, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	scanned, wrong := scan(source)
	src := scanned.Text
	if wrong != nil {
		return nil, src, joined(src, []problem{*wrong}, "")
	}
	loader := api.LoaderTS
	if config.JavaScript {
		loader = api.LoaderJS
	}
	found, err := esbuildProblems(ctx, scanned, loader)
	if err != nil {
		return nil, src, err
	}
	if len(found) > 0 {
		return nil, src, joined(src, found, "")
	}
	f := readModule(scanned)
	for _, fn := range f.functions {
		if fn.name == "" {
			fn.name = config.DefaultName
		}
	}
	return f, src, nil
}

// CheckBounds refuses source that esbuild could not read in bounded stack and
// time, and names that are written with escapes. Its errors are those of [Derive].
func CheckBounds(source []byte) error {
	s, bad := scan(source)
	if bad != nil {
		return joined(s.Text, []problem{*bad}, "")
	}
	return nil
}

// joined makes errors of problems that are about no parameter.
func joined(src string, found []problem, function string) error {
	var all []error
	for _, p := range found {
		e := &schema.SourceError{Function: function, Message: p.message}
		e.Line, e.Column = position(src, p.at)
		all = append(all, e)
	}
	return errors.Join(all...)
}

// position returns the line and column of a place, both from 1 and the column
// in characters. Without a place it is 0, 0.
func position(src string, at int) (line, column int) {
	if at < 0 {
		return 0, 0
	}
	at = min(at, len(src))
	starts := javascript.LineStarts(src)
	i, ok := slices.BinarySearch(starts, at)
	if !ok {
		i--
	}
	return i + 1, utf8.RuneCountInString(src[starts[i]:at]) + 1
}
