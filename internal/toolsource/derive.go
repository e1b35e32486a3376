package toolsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
	"haft/schema"
	"haft/schema/bashschema"
	"haft/schema/pyschema"
	"haft/schema/tsschema"
)

// A Source is the source code of a tool.
type Source struct {
	Name     string // of the tool, if the text does not name it
	Kind     haft.Kind
	Text     []byte
	File     string // its name, which tracebacks show; empty means that of the tool
	Function string // "" means the default of the language
	// Layers returns packages whose types can be looked up, besides those of the interpreter.
	// It is called when the first type is needed; nil means none.
	Layers func(ctx context.Context) ([]executor.Layer, error)
}

// A Derived is the signature of a tool that was derived from its source, and how to call it.
type Derived struct {
	*schema.Signature
	// Function is the function of the source to call.
	Function string
	// Pass are the arguments of the function, as in [executor.Request].
	Pass []executor.Argument
	// Output is how the source wants its output to be read.
	Output haft.OutputType
}

// Derive reads the signature of the tool in src, without running it. Imported Python types
// are looked up in the installed packages: that imports the module, in a sandbox of its own.
func (r *Runner) Derive(ctx context.Context, src Source, opts schema.Options) (*Derived, error) {
	if opts.Function == "" {
		opts.Function = src.Function
	}
	switch src.Kind {
	case haft.KindPython:
		d := pyschema.Deriver{Read: r.readPython, Resolve: r.newLookups(src.Layers).resolve}
		sig, err := d.Derive(ctx, src.Text, opts)
		if err != nil {
			return nil, refusal(err)
		}
		return &Derived{Signature: sig, Function: sig.Function}, nil
	case haft.KindTypeScript, haft.KindJavaScript:
		js := src.Kind == haft.KindJavaScript
		res, err := tsschema.Derive(ctx, src.Text,
			tsschema.Config{Options: opts, JavaScript: js, DefaultName: src.Name})
		if err != nil {
			return nil, err
		}
		d := &Derived{Signature: &res.Signature, Function: res.Export}
		for _, arg := range res.Call {
			d.Pass = append(d.Pass, executor.Argument{Name: arg.Name, Whole: arg.Whole})
		}
		return d, nil
	case haft.KindBash:
		res, err := bashschema.Derive(ctx, src.Text, bashschema.Config{Options: opts, DefaultName: src.Name})
		if err != nil {
			return nil, err
		}
		return &Derived{Signature: &res.Signature, Output: haft.OutputType(res.Output)}, nil
	}
	return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("tools of kind %q have no source", src.Kind)}
}

// Tools returns the functions of src that are tools, in their order. It is "" for a source that is
// one tool as a whole.
func (r *Runner) Tools(ctx context.Context, src Source) ([]string, error) {
	switch src.Kind {
	case haft.KindPython:
		names, err := (&pyschema.Deriver{Read: r.readPython}).Tools(ctx, src.Text)
		return names, refusal(err)
	case haft.KindTypeScript, haft.KindJavaScript:
		return tsschema.Tools(ctx, src.Text, tsschema.Config{JavaScript: src.Kind == haft.KindJavaScript,
			DefaultName: src.Name})
	}
	return []string{""}, nil
}

// refusal returns the refusal of a sandbox as it is: that reading the source was the first to need it would mislead.
// Other errors stay.
func refusal(err error) error {
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeDenied {
		return e
	}
	return err
}

// readerLimits bound the process that parses Python source: hostile source may make a parser
// use all time or memory.
func readerLimits() haft.Limits {
	return haft.Limits{
		Wall: haft.Millis(10 * time.Second), CPU: haft.Millis(8 * time.Second), Memory: 512 << 20,
		Processes: 4, Stdout: pyschema.MaxOutput, Stderr: 16 << 10, Disk: 1 << 20,
	}.Or(haft.DefaultLimits())
}

// readPython parses source with the parser of CPython, in the sandbox of the call that
// follows, or else in a sandbox of its own. It is a [pyschema.Reader].
func (r *Runner) readPython(ctx context.Context, source []byte) ([]byte, error) {
	switch out, err := r.Executor.Read(ctx, source); {
	case err == nil:
		return out, nil
	case errors.Is(err, script.ErrReaderDied):
		return nil, pyschema.ErrReaderDied
	case !errors.Is(err, script.ErrNotExpected):
		return nil, err
	}
	out, err := r.confined(ctx, pyschema.Script(), source, readerLimits(), false)
	if errors.Is(err, errDied) {
		return nil, fmt.Errorf("%w: %w", pyschema.ErrReaderDied, err)
	}
	return out, err
}

// errDied says that our script crashed or was killed while it processed its input.
var errDied = errors.New("the script died")

// confined runs one of our scripts in a fresh Python, without network and files, and returns
// its output. With packages it can import those of the interpreter.
func (r *Runner) confined(ctx context.Context, script string, input []byte, limits haft.Limits,
	packages bool) ([]byte, error) {
	rt, err := r.Runtime(ctx, haft.KindPython)
	if err != nil {
		return nil, err
	}
	argv := slices.Clone(rt.Argv)
	if packages {
		argv = slices.DeleteFunc(argv, func(flag string) bool { return flag == "-S" })
	}
	var out, errs bytes.Buffer
	exit, err := r.Provider.Run(ctx, sandbox.Spec{
		Argv:   append(argv, "-c", script),
		Mounts: rt.Mounts, Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"},
		Limits: limits, Need: r.Need,
		Stdin: bytes.NewReader(input), Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		return nil, fmt.Errorf("run a script on source: %w", err)
	}
	if exit.Cause != sandbox.CauseExit || exit.Code != 0 {
		return nil, fmt.Errorf("it ended with cause %s, code %d, signal %d: %w", exit.Cause, exit.Code, exit.Signal,
			errDied)
	}
	return out.Bytes(), nil
}
