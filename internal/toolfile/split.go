package toolfile

import (
	"context"
	"errors"
	"slices"

	"haft"
	"haft/app"
	"haft/schema"
)

// A Splitter finds the tools of one source. All fields are required.
type Splitter struct {
	// Tools returns the functions of a source that are tools, see [app.App].
	Tools func(ctx context.Context, src app.Source) ([]string, error)
	// Function returns the function of a tool that exists, or "".
	Function func(ctx context.Context, name string) string
}

// FunctionOf is the field of [Splitter] for the tools of a system.
func FunctionOf(tools haft.ToolReader, p haft.Principal) func(ctx context.Context, name string) string {
	return func(ctx context.Context, name string) string {
		if t, err := tools.Tool(ctx, p, name); err == nil {
			return t.Version.Function
		}
		return ""
	}
}

// A Reader reads the tools of sources on this machine. It opens what it needs for that when it is
// first needed.
type Reader struct {
	Config app.Config
	opened *app.App
}

// Tools implements the field of [Splitter].
func (r *Reader) Tools(ctx context.Context, src app.Source) (names []string, err error) {
	if r.opened == nil {
		if r.opened, err = app.Open(ctx, r.Config); err != nil {
			return nil, err
		}
	}
	return r.opened.Tools(ctx, src)
}

// Close closes what was opened.
func (r *Reader) Close() error {
	if r.opened == nil {
		return nil
	}
	return r.opened.Close()
}

// Split returns a draft for each tool of the source of a draft. A draft that names its function or
// brings its schema is one tool. A draft with a name or a description is one tool as well: the one
// of that name, or the one whose function the tool of that name has. The error is a
// [*schema.AmbiguousError] if that does not say which function it is. A source that cannot be read
// is left to those who register it.
func (s Splitter) Split(ctx context.Context, file string, d haft.Draft) ([]haft.Draft, error) {
	if d.Function != "" || len(d.Parameters)+len(d.ArgsSchema) > 0 {
		return []haft.Draft{d}, nil
	}
	names, err := s.Tools(ctx, app.Source{Name: d.Name, Kind: d.Kind, Text: []byte(d.Source)})
	if _, ok := errors.AsType[*schema.AmbiguousError](err); ok {
		return nil, schema.InFile(file, err)
	}
	if err != nil {
		return []haft.Draft{d}, nil
	}
	if len(names) > 1 && d.Name+d.Description != "" {
		function := d.Name
		if !slices.Contains(names, function) && d.Name != "" {
			function = s.Function(ctx, d.Name)
		}
		if !slices.Contains(names, function) {
			return nil, &schema.AmbiguousError{File: file, Tools: names}
		}
		names = []string{function}
	}
	drafts := make([]haft.Draft, len(names))
	for i, name := range names {
		drafts[i] = d
		drafts[i].Function = name
	}
	return drafts, nil
}
