package engine

import (
	"context"
	"encoding/json"
	"time"

	"haft"
	"haft/internal/outgoing"
	"haft/internal/value"
)

// check holds what the tool gave back against what it promised and against the
// filters of policy. A failed call is filtered too: it has output.
func (rn *runner) check(ctx context.Context, ex *execution) error {
	began := time.Now()
	res := ex.res
	if err := value.Bound(res.Value); err != nil {
		// Before anything looks into it: each part of a value costs more than the tool
		// paid for it.
		*res = haft.Result{Status: haft.StatusLimit, Usage: res.Usage, Sandbox: res.Sandbox, Timeline: res.Timeline,
			Truncated: res.Truncated, Notices: res.Notices,
			Value: json.RawMessage("null"), Stdout: res.Stdout, Stderr: res.Stderr, Artifacts: res.Artifacts,
			Error: &haft.Failure{Kind: haft.FailResult, Message: haft.MessageOf(err), Retry: haft.RetryChanged}}
	}
	ex.tool.Check(ctx, res)
	ex.notices = append(ex.notices, res.Notices[:min(len(res.Notices), max(0, maxNotices-len(ex.notices)))]...)
	res.Notices = nil // those of the call become its notices when it is complete
	if outgoing.BoundContent(res, ex.tool.Tool.Version.Settings.Output.MaxChars) {
		ex.notices = append(ex.notices, "content: some parts were left out: there were too many")
	}
	ex.timeline.Serialise += haft.Millis(time.Since(began))
	rn.filters.screen(ctx, ex, res)
	if err := rn.publishHeld(ex); err != nil {
		rn.noteUnpublished(ex, err)
	}
	rn.cache(ctx, ex)
	return nil
}
