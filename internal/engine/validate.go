package engine

import (
	"context"
	"encoding/json"

	"haft"
	"haft/policy"
)

// validate makes the arguments fit the schema of the tool, and holds them against
// the filters of policy. What a filter masks is what runs, and is told.
func (au *authorizer) validate(ctx context.Context, ex *execution) error {
	args, failure := ex.tool.Fit(ex.call.Args)
	if failure != nil {
		return &refusal{status: haft.StatusValidation, failure: *failure}
	}
	out, err := au.filters.filterInput(ctx, ex, args)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r := refuse(haft.StatusValidation, haft.FailFiltered, haft.RetryChanged,
			"the arguments cannot be held against the filters")
		r.cause = err
		return r
	}
	ex.note(out)
	if err := out.Err(); err != nil {
		return refuse(haft.StatusDenied, haft.FailFiltered, haft.RetryChanged, haft.MessageOf(err))
	}
	ex.args = args
	if out.Masked {
		// What is left may no longer fit, and then it does not run.
		if ex.args, failure = ex.tool.Fit(out.Value); failure != nil {
			return &refusal{status: haft.StatusValidation, failure: *failure}
		}
	}
	return nil
}

// filterInput holds arguments against the input filters, for as long as the call may
// wait and filters may take.
func (f *filters) filterInput(ctx context.Context, ex *execution, args json.RawMessage) (policy.Filtered, error) {
	if !ex.rules.Filters(policy.Input) {
		return policy.Filtered{Value: args}, nil
	}
	screen := ex.rules.Screen(ex.request(args), policy.Input)
	if screen == nil {
		return policy.Filtered{Value: args}, nil
	}
	ctx, stop := context.WithTimeout(ctx, screenTime)
	defer stop()
	leave, err := f.screenPlace(ctx, screen.Steps()*len(args))
	if err != nil {
		return policy.Filtered{}, err
	}
	defer leave()
	screen.Clean = ex.env.Redactor.Text
	return screen.JSON(ctx, args)
}

// maxNotices bounds what is told of one call.
const maxNotices = 200

// note keeps what filters found, for audit and caller.
func (ex *execution) note(out policy.Filtered) {
	for _, x := range out.Findings {
		if len(ex.notices) >= maxNotices {
			return
		}
		ex.notices = append(ex.notices, x.String())
	}
}
