package engine

import (
	"context"

	"haft"
	"haft/internal/callenv"
	"haft/internal/filestore"
	"haft/internal/jsontree"
	"haft/policy"
	"haft/schema"
)

// validate makes the arguments fit the schema of the tool, and holds them against
// the filters of policy. What a filter masks is what runs, and is told.
func (au *authorizer) validate(ctx context.Context, ex *execution) error {
	args, failure := ex.tool.FitRead(ex.readArgs())
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
	if out.Masked {
		// What is left may no longer fit, and then it does not run.
		if args, failure = ex.tool.FitRead(schema.ReadArguments(out.Value)); failure != nil {
			return &refusal{status: haft.StatusValidation, failure: *failure}
		}
	}
	if err := au.bindFiles(ctx, ex, args.Tree); err != nil {
		return err
	}
	// Not before: the record has arguments that did not pass the filters screened, see keep.
	ex.args, ex.tree = args.Text, args.Tree
	return nil
}

// bindFiles adds the files that arguments are to those of the call, if its caller may read them.
func (au *authorizer) bindFiles(ctx context.Context, ex *execution, args *schema.Object) error {
	refs, ok := ex.tool.Files.Refs(args)
	if !ok {
		return refuse(haft.StatusValidation, haft.FailValidation, haft.RetryChanged, "too many texts could be files")
	}
	if len(refs) == 0 || ex.refusing { // a call whose file is gone can be refused
		return nil
	}
	bound, at, failure, err := au.files.BindArguments(ctx, au.authority, ex.call.Principal, ex.call.Files, refs)
	if failure != nil {
		return &refusal{status: haft.StatusValidation, failure: *failure}
	}
	if err != nil {
		return err
	}
	if !ex.probe {
		// Their names were chosen when they were added, and would be kept in the clear with the call.
		with := ex.call
		with.Files = bound
		if err := callenv.CheckLabels(with, ex.ours, au.env.HoldsOf(&ex.env, ex.call.Env)); err != nil {
			return refuse(haft.StatusValidation, haft.FailValidation, haft.RetryChanged, haft.MessageOf(err))
		}
	}
	ex.fileArgs, ex.call.Files, ex.rec.Call.Files = at, bound, filestore.WithoutContent(bound)
	return nil
}

// filterInput holds arguments against the input filters, for as long as the call may
// wait and filters may take.
func (f *filters) filterInput(ctx context.Context, ex *execution, args jsontree.Document) (policy.Filtered, error) {
	if !ex.rules.Filters(policy.Input) {
		return policy.Filtered{Value: args.Text}, nil
	}
	screen := ex.rules.Screen(ex.request(args), policy.Input)
	if screen == nil {
		return policy.Filtered{Value: args.Text}, nil
	}
	ctx, stop := context.WithTimeout(ctx, screenTime)
	defer stop()
	leave, err := f.screenPlace(ctx, screen.Steps()*len(args.Text))
	if err != nil {
		return policy.Filtered{}, err
	}
	defer leave()
	screen.Clean = ex.env.Redactor.Text
	return screen.JSON(ctx, args.Text)
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
