package toolsource

import (
	"context"
	"fmt"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

// A Tool is source code that is ready to be called. It does not change and is
// safe for concurrent use.
type Tool struct {
	Source  Source
	Derived *Derived
	Health  haft.SchemaHealth
	Output  haft.Output

	compiled *registry.Compiled
}

// Prepare derives the schema of a tool and compiles it for its calls.
func (r *Runner) Prepare(ctx context.Context, src Source, opts schema.Options, out haft.Output) (*Tool, error) {
	d, err := r.Derive(ctx, src, opts)
	if err != nil {
		return nil, err
	}
	if out.Type == haft.OutputAny {
		out.Type = d.Output
	}
	t := &Tool{Source: src, Derived: d, Health: schema.Health(d.Parameters), Output: out}
	v := haft.Version{Kind: src.Kind, Settings: haft.Settings{Output: out}}
	if v.Parameters, err = schema.Encode(d.Parameters); err != nil {
		return nil, fmt.Errorf("encode the schema of the arguments: %w", err)
	}
	if d.Returns != nil {
		if v.Returns, err = schema.Encode(d.Returns); err != nil {
			return nil, fmt.Errorf("encode the schema of the value: %w", err)
		}
	}
	if t.compiled, err = registry.Compile(haft.Tool{Name: d.Name, Version: v}); err != nil {
		return nil, err
	}
	return t, nil
}
