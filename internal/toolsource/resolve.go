package toolsource

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
	"haft/schema"
	"haft/schema/pyschema"
)

// Bounds of the imported types of one source: each lookup starts a process.
const (
	maxLookups  = 32
	maxLookTime = 40 * time.Second // after which no lookup begins
)

// lookupLimits bound the process that imports a module to look at its types.
func lookupLimits() haft.Limits {
	return haft.Limits{
		Wall: haft.Millis(20 * time.Second), CPU: haft.Millis(20 * time.Second), Memory: 1 << 30,
		Processes: 64, Stdout: pyschema.MaxAnswer, Stderr: 16 << 10, Disk: 16 << 20,
	}.Or(haft.DefaultLimits())
}

// lookups finds the imported types of one source. It is not safe for concurrent use.
type lookups struct {
	runner *Runner
	limits haft.Limits
	left   int
	spent  time.Duration
	known  map[[2]string]looked
	layers func(ctx context.Context) ([]executor.Layer, error)
}

// looked is the result of a lookup, which may be that there is no such type.
type looked struct {
	found *schema.Object
	fault error
}

func (r *Runner) newLookups(layers func(context.Context) ([]executor.Layer, error)) *lookups {
	if layers == nil {
		layers = func(context.Context) ([]executor.Layer, error) { return nil, nil }
	}
	return &lookups{runner: r, limits: lookupLimits(), left: maxLookups, known: map[[2]string]looked{}, layers: layers}
}

// resolve is a [pyschema.Resolver]. It remembers its results.
func (l *lookups) resolve(ctx context.Context, module, name string) (*schema.Object, error) {
	key := [2]string{module, name}
	if k, ok := l.known[key]; ok {
		return k.found, k.fault
	}
	if l.left == 0 || l.spent > maxLookTime {
		return nil, &schema.SourceError{Message: fmt.Sprintf(
			"the source imports too many types to look them all up: %d types and %s are the most", maxLookups,
			maxLookTime)}
	}
	l.left--
	rt, err := l.runner.Runtime(ctx, haft.KindPython)
	if err != nil {
		return nil, err
	}
	layers, err := l.layers(ctx)
	if err != nil {
		return nil, err
	}
	paths, mounts := rt.Paths, rt.Mounts
	for i, p := range layers {
		paths = slices.Insert(slices.Clone(paths), i, p.Inside)
		mounts = append(slices.Clone(mounts), sandbox.Mount{Host: p.Dir, Inside: p.Inside})
	}
	began := time.Now()
	run := func(ctx context.Context, question []byte) ([]byte, error) { return l.run(ctx, rt, mounts, question) }
	found, err := pyschema.Introspect(ctx, run, module, name, paths)
	l.spent += time.Since(began)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look up an imported type: %w", context.Cause(ctx))
	}
	l.known[key] = looked{found, err}
	return found, err
}

// run imports a module in a fresh sandbox without network. It is a
// [pyschema.Introspector].
func (l *lookups) run(ctx context.Context, rt *script.Runtime, mounts []sandbox.Mount,
	question []byte) ([]byte, error) {
	var out bytes.Buffer
	exit, err := l.runner.Provider.Run(ctx, sandbox.Spec{
		Argv:   append(rt.Argv[:len(rt.Argv):len(rt.Argv)], "-c", pyschema.IntrospectScript()),
		Mounts: mounts, Network: sandbox.NetworkNone, Limits: l.limits, Need: l.runner.Need,
		// As for tools: a package that writes to its home must not fail here.
		Env:   []string{"PATH=" + script.DefaultPath, "HOME=/work", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		Stdin: bytes.NewReader(question), Stdout: &out,
	})
	if err != nil {
		return nil, fmt.Errorf("run the introspection of a Python module: %w", err)
	}
	if exit.Cause == sandbox.CauseExit && exit.Code == 0 && exit.DroppedStdout == 0 {
		return out.Bytes(), nil
	}
	return nil, &schema.SourceError{Message: l.why(exit)}
}

// why says why an import gave no answer.
func (l *lookups) why(exit sandbox.Exit) string {
	switch {
	case exit.Cause == sandbox.CauseTimeout:
		return fmt.Sprintf("importing the module takes longer than %s", l.limits.Wall)
	case exit.Cause == sandbox.CauseLimit:
		return fmt.Sprintf("importing the module goes beyond a limit: %s", exit.Limit)
	case exit.Cause == sandbox.CauseBlocked:
		return "importing the module makes a system call that is forbidden"
	case exit.DroppedStdout > 0:
		return "importing the module writes over the answer"
	}
	return fmt.Sprintf("importing the module ends the interpreter: %s, status %d, signal %d", exit.Cause, exit.Code,
		exit.Signal)
}
