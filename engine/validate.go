package engine

import (
	"context"

	"haft"
	"haft/policy"
)

// validate makes the arguments fit the schema of the tool, and holds them against
// the filters of policy. What a filter masks is what runs, and is told.
func (e *Engine) validate(_ context.Context, f *flight) error {
	args, failure := f.tool.Fit(f.call.Args)
	if failure != nil {
		return &refusal{status: haft.StatusValidation, failure: *failure}
	}
	out, err := f.rules.Filter(f.request(args), policy.Input, args)
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

// note keeps what filters found, for audit and caller.
func (f *flight) note(out policy.Filtered) {
	for _, x := range out.Findings {
		f.notices = append(f.notices, x.String())
	}
}
