package app

import (
	"context"
	"encoding/json"
	"fmt"

	"haft"
	"haft/schema"
	"haft/value"
)

// A Tool is source code that is ready to be called. It does not change and is
// safe for concurrent use.
type Tool struct {
	Source  Source
	Derived *Derived
	Health  haft.SchemaHealth
	Output  haft.Output

	args, returns *schema.Compiled
	validators    *value.Validators
}

// Prepare derives the schema of a tool and compiles what its calls are held
// against.
func (a *App) Prepare(ctx context.Context, src Source, opts schema.Options, out haft.Output) (*Tool, error) {
	d, err := a.Derive(ctx, src, opts)
	if err != nil {
		return nil, err
	}
	if out.Type == haft.OutputAny {
		out.Type = d.Output
	}
	t := &Tool{Source: src, Derived: d, Health: schema.Health(d.Parameters), Output: out}
	if t.args, err = schema.Compile(d.Parameters); err != nil {
		return nil, fmt.Errorf("compile the schema of the arguments: %w", err)
	}
	if d.Returns != nil {
		if t.returns, err = schema.Compile(d.Returns); err != nil {
			return nil, fmt.Errorf("compile the schema of the value: %w", err)
		}
	}
	if t.validators, err = value.CompileValidators(out.Validators); err != nil {
		return nil, err
	}
	return t, nil
}

// fit reads arguments and makes them fit, or returns the failure that says why
// they do not.
func (t *Tool) fit(text []byte) (json.RawMessage, *haft.Failure) {
	args, err := schema.ReadArguments(text)
	if err != nil {
		return nil, &haft.Failure{Kind: haft.FailValidation, Message: haft.MessageOf(err), Retry: haft.RetryChanged}
	}
	fitted, misfits := t.args.Fit(args, schema.FitOptions{})
	if len(misfits) > 0 {
		return nil, &haft.Failure{Kind: haft.FailValidation, Message: "the arguments do not fit: " + inWords(misfits),
			Retry: haft.RetryChanged, Misfits: misfits}
	}
	raw, err := schema.Encode(fitted)
	if err != nil {
		return nil, &haft.Failure{Kind: haft.FailInternal, Message: "the arguments cannot be passed on", Retry: haft.RetryNever}
	}
	return raw, nil
}

// check holds a value against what the tool promised, and cuts it to what a
// model gets to see.
func (t *Tool) check(ctx context.Context, res *haft.Result) {
	misfits := append(value.Misfits(res.Value, t.returns), t.validators.Check(ctx, res.Value)...)
	if len(misfits) > 0 {
		res.Status = haft.StatusError
		res.Error = &haft.Failure{Kind: haft.FailValue, Message: "the value is not what the tool promises: " + inWords(misfits),
			Retry: haft.RetryNever, Misfits: misfits}
		res.Value = json.RawMessage("null")
		return
	}
	limit := t.Output.MaxChars
	if limit <= 0 {
		limit = haft.DefaultMaxChars
	}
	res.Value, res.Truncated.Value = value.Cut(res.Value, limit)
}

// inWords lists misfits in one line.
func inWords(misfits []haft.Misfit) string {
	var s string
	for i, m := range misfits {
		if i > 0 {
			s += "; "
		}
		if m.Pointer != "" {
			s += m.Pointer + " "
		}
		s += m.Message
	}
	return s
}
