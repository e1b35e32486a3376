package engine

import (
	"context"
	"encoding/json"
	"time"

	"haft"
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
	ex.boundContent()
	ex.timeline.Serialise += haft.Millis(time.Since(began))
	rn.filters.screen(ctx, ex, res)
	if err := rn.publishHeld(ex); err != nil {
		rn.noteUnpublished(ex, err)
	}
	rn.cache(ctx, ex)
	return nil
}

// maxParts bounds how many parts of content are kept.
const maxParts = 256

// boundContent cuts the texts of the content as the value is cut, together.
func (ex *execution) boundContent() {
	res := ex.res
	if n := len(res.Content) - maxParts; n > 0 {
		res.Content = res.Content[:maxParts]
		ex.notices = append(ex.notices, "content: some parts were left out: there were too many")
	}
	left := ex.tool.Tool.Version.Settings.Output.MaxChars
	if left <= 0 {
		left = haft.DefaultMaxChars
	}
	for i := range res.Content {
		text := []rune(res.Content[i].Text)
		if over := len(text) - left; over > 0 {
			res.Content[i].Text = string(text[:left])
			res.Truncated.Value += int64(over)
			text = text[:left]
		}
		left -= len(text)
	}
}
