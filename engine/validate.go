package engine

import (
	"context"
	"encoding/json"

	"haft"
	"haft/policy"
)

// validate makes the arguments fit the schema of the tool, and holds them against
// the filters of policy. What a filter masks is what runs, and is told.
func (e *Engine) validate(ctx context.Context, f *flight) error {
	args, failure := f.tool.Fit(f.call.Args)
	if failure != nil {
		return &refusal{status: haft.StatusValidation, failure: *failure}
	}
	out, err := e.filterInput(ctx, f, args)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r := refuse(haft.StatusValidation, haft.FailFiltered, haft.RetryChanged, "the arguments cannot be held against the filters")
		r.cause = err
		return r
	}
	f.note(out)
	if err := out.Err(); err != nil {
		return refuse(haft.StatusDenied, haft.FailFiltered, haft.RetryChanged, haft.MessageOf(err))
	}
	f.args = args
	if out.Masked {
		// What is left may no longer fit, and then it does not run.
		if f.args, failure = f.tool.Fit(out.Value); failure != nil {
			return &refusal{status: haft.StatusValidation, failure: *failure}
		}
	}
	return nil
}

// filterInput holds arguments against the input filters, for as long as the call may
// wait and filters may take.
func (e *Engine) filterInput(ctx context.Context, f *flight, args json.RawMessage) (policy.Filtered, error) {
	if !f.rules.Filters(policy.Input) {
		return policy.Filtered{Value: args}, nil
	}
	screen := f.rules.Screen(f.request(args), policy.Input)
	if screen == nil {
		return policy.Filtered{Value: args}, nil
	}
	ctx, stop := context.WithTimeout(ctx, screenTime)
	defer stop()
	leave, err := e.screenPlace(ctx, screen.Steps()*len(args))
	if err != nil {
		return policy.Filtered{}, err
	}
	defer leave()
	screen.Clean = f.redactor.Text
	return screen.JSON(ctx, args)
}

// maxNotices bounds what is told of one call.
const maxNotices = 200

// note keeps what filters found, for audit and caller.
func (f *flight) note(out policy.Filtered) {
	for _, x := range out.Findings {
		if len(f.notices) >= maxNotices {
			return
		}
		f.notices = append(f.notices, x.String())
	}
}
