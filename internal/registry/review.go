package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/shell"
)

// scanner is the name of the registry in findings.
const scanner = "haft"

// How many findings of a review are kept with a version, and how many a message lists.
const (
	maxFindings = 200
	maxListed   = 10
)

// review looks for what is dangerous in the source before it is kept. A source that
// cannot be reviewed is not kept. [Registry.judge] decides what the findings mean.
func (r *Registry) review(ctx context.Context, c *change) error {
	const message = "the source cannot be reviewed, so it is not kept"
	if r.cfg.Review == nil {
		return &haft.Error{Code: haft.CodeUnavailable, Message: message}
	}
	findings, err := r.cfg.Review(ctx, c.draft.Kind, c.draft.Source, len(c.draft.Files) > 0)
	c.findings = slices.Clone(findings) // it is the reviewer's
	for _, name := range c.draft.Settings.Programs {
		if shell.RunsCode(name) {
			c.findings = append(c.findings, haft.Finding{Scanner: scanner, Rule: "program-runs-code",
				Severity: haft.SeverityHigh, Message: "the tool may run " + name +
					", which runs any code that it is given; name the programs that do the work"})
		}
	}
	if err == nil {
		err = r.reviewFiles(ctx, c)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("review the source: %w", context.Cause(ctx))
	case haft.CodeOf(err) == haft.CodeDenied: // the operator can act on it
		return &haft.Error{Code: haft.CodeDenied, Message: message + ": " + haft.MessageOf(err), Err: err}
	case err != nil:
		return &haft.Error{Code: haft.CodeUnavailable, Message: message, Err: err}
	}
	slices.SortStableFunc(c.findings, func(a, b haft.Finding) int {
		switch {
		case a.Severity == b.Severity:
			return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
		case a.Severity.AtLeast(b.Severity):
			return -1
		}
		return 1
	})
	return nil
}

// judge asks policy what the findings mean for the tool.
func (r *Registry) judge(ctx context.Context, c *change) error {
	t, findings := c.tool, c.findings
	if len(findings) > 0 {
		// A draft leaves out what stays as it is.
		before, err := r.store.Tools.Tool(ctx, c.by.Org, t.Name)
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
		c.warnings = append(c.warnings, inSentences(findings, "the review found %d more")...)
	default:
		return &haft.Error{Code: haft.CodeDenied, Message: "the source is refused: " + summarize(findings)}
	}
	c.findings = findings[:min(len(findings), maxFindings)]
	c.tool.Version.Review.Findings = c.findings
	if c.waits {
		c.tool.Version.Review.State = haft.ReviewWaiting
	}
	return nil
}

// inSentences describes the first findings, which are the worst; more says how many are left.
func inSentences(findings []haft.Finding, more string) []string {
	var list []string
	for _, f := range findings[:min(len(findings), maxListed)] {
		text := fmt.Sprintf("%s (%s, %s)", f.Message, f.Rule, f.Severity)
		if f.Line > 0 {
			text = fmt.Sprintf("line %d: %s", f.Line, text)
		}
		if f.File != "" {
			text = f.File + ": " + text
		}
		list = append(list, text)
	}
	if n := len(findings) - maxListed; n > 0 {
		list = append(list, fmt.Sprintf(more, n))
	}
	return list
}

// summarize describes findings in one line.
func summarize(findings []haft.Finding) string {
	if len(findings) == 0 {
		return "the policy does not say why"
	}
	return strings.Join(inSentences(findings, "and %d more"), "; ")
}

// person names a principal, to compare the author of a version with the person who
// accepts it. It is "" for a principal without user and agent.
func person(p haft.Principal) string {
	switch {
	case p.User != "":
		return p.User
	case p.Agent != "":
		return "agent:" + p.Agent
	}
	return ""
}
