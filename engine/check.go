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
	f.boundContent()
	texts := []struct {
		name string
		text *string
	}{{"stdout", &res.Stdout}, {"stderr", &res.Stderr}}
	for i := range res.Content {
		c := &res.Content[i]
		for _, text := range []*string{&c.Text, &c.URI, &c.Name, &c.Title, &c.Description} {
			texts = append(texts, struct {
				name string
				text *string
			}{"content", text})
		}
	}
	for _, t := range texts {
		text := t.text
		if *text == "" {
			continue
		}
		out := f.rules.FilterText(req, policy.Output, t.name, *text)
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
	res.Status, res.Value, res.Stdout, res.Stderr, res.Content, res.Artifacts = haft.StatusError, json.RawMessage("null"), "", "", nil, nil
	res.Error = &haft.Failure{Kind: haft.FailFiltered, Message: message, Retry: haft.RetryNever}
}

// maxParts bounds how many parts of content are kept.
const maxParts = 256

// boundContent cuts the texts of the content as the value is cut, together.
func (f *flight) boundContent() {
	res := f.res
	if n := len(res.Content) - maxParts; n > 0 {
		res.Content = res.Content[:maxParts]
		f.notices = append(f.notices, "content: some parts were left out: there were too many")
	}
	left := f.tool.Tool.Version.Settings.Output.MaxChars
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
