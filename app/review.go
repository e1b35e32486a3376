package app

import (
	"context"
	"errors"
	"fmt"

	"haft"
	"haft/registry"
	"haft/review"
	"haft/schema"
)

// deriveFor is what the registry derives schemas with.
func (a *App) deriveFor(ctx context.Context, src registry.Source) (*registry.Derived, error) {
	d, err := a.Derive(ctx, Source{Name: src.Name, Kind: src.Kind, Text: src.Text, Function: src.Function},
		schema.Options{DescriptionsOptional: src.Undocumented})
	if err != nil {
		return nil, err
	}
	return &registry.Derived{Signature: d.Signature, Function: d.Function, Pass: d.Pass, Output: d.Output}, nil
}

// review looks at a source before it is kept. It runs nothing of it.
func (a *App) review(ctx context.Context, kind haft.Kind, source string) ([]haft.Finding, error) {
	limits := readerLimits()
	limits.Stdout = review.MaxOutput
	run := func(ctx context.Context, script string, input []byte) ([]byte, error) {
		out, err := a.confined(ctx, script, input, limits)
		if errors.Is(err, errDied) {
			return nil, fmt.Errorf("%w: %w", review.ErrReaderDied, err)
		}
		return out, err
	}
	report, err := review.New(review.Config{Python: run}).Review(ctx, kind, source)
	if err != nil {
		return nil, err
	}
	for _, note := range report.Notes {
		a.cfg.Logger.Info("review", "note", note)
	}
	return report.Findings, nil
}

// judge asks the policy of an organisation what findings mean.
func (s *Service) judge(org string, findings []haft.Finding) registry.Verdict {
	if s.Engine == nil {
		return registry.Refuse
	}
	return registry.Verdict(s.Engine.Review(org, findings).Action)
}
