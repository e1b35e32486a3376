// Package pyschema derives the schema of a Python function from its source,
// without running it.
//
// A small script, [Script], uses the parser of CPython to describe a module as
// JSON: its imports, classes and functions, and nothing of what they do. A
// [Reader] runs the script somewhere apart, because source from outside may be
// written to break a parser. [Derive] chooses the function that is the tool,
// reads its documentation, and turns annotations into JSON Schema.
//
// What is wrong with the source comes back as [*schema.SourceError], all faults
// of all parameters at once.
package pyschema

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"haft/schema"
)

//go:embed reader.py
var script string

// Script returns the script that a [Reader] runs, by CPython 3.9 or newer with
// the flags -I and -S. It reads source from standard input and writes its
// description to standard output. It bounds its own memory, time and output; the
// [Reader] bounds them too.
func Script() string { return script }

// MaxOutput is the most that the script writes, in bytes.
const MaxOutput = 4 << 20

// A Reader runs [Script] on source and returns what it wrote. When the script
// died or was stopped for its use of time or memory, the error wraps
// [ErrReaderDied]; any other error means that it could not be run.
type Reader func(ctx context.Context, source []byte) ([]byte, error)

// ErrReaderDied says that the parser crashed or was stopped, which is the fault of the
// source.
var ErrReaderDied = errors.New("the reader of Python source died")

// A Resolver finds the schema of a type that the source imports, by looking at
// the module where it is installed. Its schema may have $defs of its own. A
// [*schema.SourceError] says why there is none; nil, nil that there is no such
// type; any other error that it could not be looked up.
type Resolver func(ctx context.Context, module, name string) (*schema.Object, error)

// A Deriver derives signatures from Python source. It is safe for concurrent use
// if its functions are.
type Deriver struct {
	// Read runs the script. It is required.
	Read Reader
	// Resolve finds imported types. Without it they are errors.
	Resolve Resolver
}

// Derive returns the signature of the function in source that is the tool: the
// one named in opts; else one with a decorator called tool; else the only public
// function of the module; else the last one. With [schema.Options.OneTool] it is the only one of
// [Deriver.Tools].
func (d *Deriver) Derive(ctx context.Context, source []byte, opts schema.Options) (*schema.Signature, error) {
	m, err := d.module(ctx, source)
	if err != nil {
		return nil, err
	}
	f, err := m.tool(opts)
	if err != nil {
		return nil, err
	}
	return m.signature(ctx, d.Resolve, f, opts)
}

// Tools returns the names of the functions in source that are tools, in their order: those with a
// decorator called tool, also under the name that an import gives it; else the documented public
// ones; else the only public one. Several public functions without documentation are a
// [*schema.AmbiguousError].
func (d *Deriver) Tools(ctx context.Context, source []byte) ([]string, error) {
	m, err := d.module(ctx, source)
	if err != nil {
		return nil, err
	}
	found, documented := m.tools()
	var names []string
	for _, f := range found {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, m.noTool("")
	case len(names) > 1 && !documented:
		return nil, &schema.AmbiguousError{Tools: names, Undocumented: true}
	}
	return names, nil
}

// module has source described.
func (d *Deriver) module(ctx context.Context, source []byte) (*module, error) {
	if err := checkText(source); err != nil {
		return nil, err
	}
	out, err := d.Read(ctx, source)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read Python source: %w", context.Cause(ctx))
	}
	if errors.Is(err, ErrReaderDied) {
		return nil, &schema.SourceError{Line: 1, Column: 1,
			Message: "Python's parser did not survive this source: it is nested too deeply or needs too much time " +
				"or memory"}
	}
	if err != nil {
		return nil, fmt.Errorf("read Python source: %w", err)
	}
	return decode(out)
}

// cookie is the line that names the encoding of a source file (PEP 263).
var cookie = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*[-_.a-zA-Z0-9]+`)
})

// checkText refuses what is no source text, before a process is started for it.
func checkText(source []byte) error {
	head := bytes.SplitN(source, []byte("\n"), 3)
	for _, l := range head[:min(2, len(head))] {
		if cookie().Match(bytes.TrimPrefix(l, []byte("\ufeff"))) {
			return schema.CheckSource(source, true) // Python decodes it
		}
	}
	return schema.CheckSource(source, false)
}
