package engine

import (
	"context"

	"haft"
	"haft/executor"
	"haft/internal/outgoing"
)

// output returns what publishes the output of a call.
func (rn *runner) output(ex *execution) *outgoing.Output {
	o := outgoing.NewOutput(context.WithoutCancel(rn.calls.ctx), ex.env.Redactor,
		func(ctx context.Context, typ haft.EventType, data any) error {
			return rn.recorder.publish(ctx, ex, typ, data, nil)
		})
	o.Items, o.FitsItem = ex.tool.ItemChars(), ex.tool.FitsItem
	return o
}

// stream has the output of a request published as events: while it runs, or, if there are
// output filters for the call, when they have looked at all of it. What a filter masks
// or refuses must not have been seen before, and a match may span any number of pieces.
func (rn *runner) stream(ex *execution, req *executor.Request) *outgoing.Output {
	o := rn.output(ex)
	if ex.outputScreen() != nil {
		ex.held = &outgoing.Held{}
		req.Stdout, req.Stderr, req.Progress = nil, nil, ex.held.Add
		return o
	}
	req.Stdout, req.Stderr, req.Progress = o.Writer("stdout"), o.Writer("stderr"), o.Progress
	return o
}

// noteUnpublished notes that output of a call could not be published.
func (rn *runner) noteUnpublished(ex *execution, err error) {
	rn.redaction.logOf(ex).Error("output of a call could not be told", "call", ex.call.ID, "error", err)
	ex.notices = append(ex.notices, "events: some output of the call could not be told to those who watch")
}

// publishHeld publishes what was held back, of a result that the filters let pass.
func (rn *runner) publishHeld(ex *execution) error {
	if ex.held == nil {
		return nil
	}
	return rn.output(ex).PublishHeld(ex.held, ex.res.Stdout, ex.res.Stderr)
}
