package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// The bounds on what is kept and told of a review.
const (
	maxFindings = 200
	maxTold     = 10
)

// review looks at the source before it is kept. What cannot be looked at is not
// kept, unless the operator says otherwise. What was found is judged by [Registry.judge].
func (r *Registry) review(ctx context.Context, c *change) error {
	findings, err := r.look(ctx, c.draft)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("review the source: %w", context.Cause(ctx))
		}
		if !r.cfg.ReviewOptional && haft.CodeOf(err) == haft.CodeDenied { // what to do is the operator's to know
			return &haft.Error{Code: haft.CodeDenied, Err: err,
				Message: "the source cannot be reviewed, so it is not kept: " + haft.MessageOf(err)}
		}
		if !r.cfg.ReviewOptional {
			return &haft.Error{Code: haft.CodeUnavailable, Message: "the source cannot be reviewed, so it is not kept",
				Err: err}
		}
		c.warn("the source was not reviewed")
		return nil
	}
	c.findings = slices.Clone(findings) // it is the reviewer's
	slices.SortStableFunc(c.findings, func(a, b haft.Finding) int {
		switch {
		case a.Severity == b.Severity:
			return a.Line - b.Line
		case a.Severity.AtLeast(b.Severity):
			return -1
		}
		return 1
	})
	return nil
}

// judge asks what the findings mean for the tool, whose name the source may say.
func (r *Registry) judge(ctx context.Context, c *change) error {
	t, findings := c.tool, c.findings
	if len(findings) > 0 {
		// A draft leaves out what stays as it is.
		before, err := r.store.Tool(ctx, c.by.Org, t.Name)
		if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			return fmt.Errorf("read the tool: %w", err)
		}
		if err == nil {
			t.ID = before.ID
			if c.draft.Category == "" {
				t.Category = before.Category
			}
			if c.draft.Tags == nil {
				t.Tags = before.Tags
			}
		}
	}
	switch verdict := r.cfg.Judge(t, findings); verdict {
	case Pass:
	case Warn, Ask:
		c.waits = verdict == Ask
		for _, f := range findings[:min(len(findings), maxTold)] {
			c.warn("%s", told(f))
		}
		if n := len(findings) - maxTold; n > 0 {
			c.warn("the review found %d more", n)
		}
	default:
		return &haft.Error{Code: haft.CodeDenied, Message: "the source is refused: " + tellAll(findings)}
	}
	c.findings = findings[:min(len(findings), maxFindings)]
	c.tool.Version.Review.Findings = c.findings
	if c.waits {
		c.tool.Version.Review.State = haft.ReviewWaiting
	}
	return nil
}

// look asks the reviewer.
func (r *Registry) look(ctx context.Context, d haft.Draft) ([]haft.Finding, error) {
	if r.cfg.Review == nil {
		return nil, fmt.Errorf("there is no reviewer")
	}
	return r.cfg.Review(ctx, d.Kind, d.Source)
}

// told says what was found, and where.
func told(f haft.Finding) string {
	s := fmt.Sprintf("%s (%s, %s)", f.Message, f.Rule, f.Severity)
	if f.Line > 0 {
		return fmt.Sprintf("line %d: %s", f.Line, s)
	}
	return s
}

// tellAll says what was found, the worst first.
func tellAll(findings []haft.Finding) string {
	var list []string
	for _, f := range findings[:min(len(findings), maxTold)] {
		list = append(list, told(f))
	}
	if n := len(findings) - maxTold; n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	if len(list) == 0 {
		return "the policy does not say why"
	}
	return strings.Join(list, "; ")
}

// person says who somebody is, for comparing the author of a version with who
// accepts it. It is "" for nobody in particular.
func person(p haft.Principal) string {
	switch {
	case p.User != "":
		return p.User
	case p.Agent != "":
		return "agent:" + p.Agent
	}
	return ""
}
