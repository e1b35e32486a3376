package engine

import (
	"context"
	"encoding/json"
	"time"

	"haft"
	"haft/policy"
)

// check holds what the tool gave back against what it promised and against the
// filters of policy. A failed call is filtered too: it has output.
func (e *Engine) check(ctx context.Context, f *flight) error {
	began := time.Now()
	res := f.res
	if res.Status == haft.StatusSuccess {
		f.tool.Check(ctx, res)
	}
	req := f.request(f.args)
	out, err := f.rules.Filter(req, policy.Output, res.Value)
	if err != nil {
		f.withhold("the value cannot be held against the filters")
		return nil
	}
	f.note(out)
	switch {
	case out.Refused:
		f.withhold(haft.MessageOf(out.Err()))
		return nil
	case out.Masked:
		res.Value = out.Value
	}
	for name, text := range map[string]*string{"stdout": &res.Stdout, "stderr": &res.Stderr} {
		if *text == "" {
			continue
		}
		out := f.rules.FilterText(req, policy.Output, name, *text)
		f.note(out)
		if out.Refused {
			f.withhold(haft.MessageOf(out.Err()))
			return nil
		}
		*text = out.Text
	}
	f.timeline.Serialise += haft.Millis(time.Since(began))
	e.cache(ctx, f)
	return nil
}

// withhold takes back everything that the tool gave: a filter refuses it.
func (f *flight) withhold(message string) {
	res := f.res
	res.Status, res.Value, res.Stdout, res.Stderr, res.Artifacts = haft.StatusError, json.RawMessage("null"), "", "", nil
	res.Error = &haft.Failure{Kind: haft.FailFiltered, Message: message, Retry: haft.RetryNever}
}
